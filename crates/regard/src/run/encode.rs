//! Encoding a text as in training: truncated like the texts that the model was trained on.

use super::folder::RunFolder;
use super::sources::length;
use crate::model::Opened;
use crate::terminal;
use anyhow::Result;
use regard_nn::tokens::{Encoding, Keep, Special};

/// The tokens of a text, truncated as in training; prints a remark if some are left out.
pub fn encode_as_trained(opened: &Opened, text: &str) -> Result<Encoding> {
    let mut encoding = opened.tokenizer()?.encode(text, Special::Keep)?;
    let data = RunFolder::config_in(&opened.folder)?.map(|config| config.data).unwrap_or_default();
    let most = opened.model.abilities().context.unwrap_or(usize::MAX);
    let (length, whole) = (length(&data, most), encoding.len());
    encoding.truncate(length, data.keep)?;
    if encoding.len() < whole {
        let end = if data.keep == Keep::First { "first" } else { "last" };
        let read = encoding.len();
        terminal::remark(format!(
            "the text has {whole} tokens; the model reads the {end} {read}, as in training"
        ));
    }
    Ok(encoding)
}
