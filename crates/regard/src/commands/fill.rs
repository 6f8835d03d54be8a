//! `regard fill`: the words that a model predicts for a mask.

use crate::bad_usage;
use crate::compute::Compute;
use crate::run::encode_as_trained;
use crate::terminal::line;
use anyhow::{Result, bail};
use clap::Args;
use regard_nn::Context;
use regard_nn::models::{Inputs, Predicts};
use regard_nn::tensor::Ids;
use regard_nn::tokens::Special;

/// Predict the words behind a mask, written `[MASK]`.
#[derive(Args)]
#[command(after_help = "Examples:
  regard fill runs/masked-words \"The acting was [MASK] and the plot [MASK].\"")]
pub struct Fill {
    /// A run or another model that predicts masked words
    model: String,
    /// A text with [MASK] in it
    text: String,
    /// How many predictions to show
    #[arg(long, default_value_t = 5)]
    top: usize,
    #[command(flatten)]
    compute: Compute,
}

impl Fill {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        if opened.model.abilities().predicts != Predicts::MaskedToken {
            bad_usage!("a {} does not guess words; a BERT trained on masked words does", opened.model.kind());
        }
        let tokenizer = opened.tokenizer()?;
        let Some(mask) = tokenizer.special().mask else {
            bail!("the tokenizer of {} has no mask", self.model)
        };
        let name = tokenizer.piece(mask).unwrap_or_default();
        // Whatever the model calls its mask, people write [MASK].
        let text = self.text.replace("[MASK]", &name);
        let encoding = encode_as_trained(&opened, &text)?;
        if !encoding.ids.contains(&mask) {
            bad_usage!("there is nothing to guess in what is read: write [MASK] in the place of a word");
        }
        let ids = Ids::new(&encoding.ids, [1, encoding.len()])?;
        let context = Context::inference();
        let scores = opened.model.forward(&context, &Inputs::ids(&ids))?;
        let probabilities = scores.softmax()?;
        let width = probabilities.shape().last();
        for (place, row) in probabilities.values().chunks(width).enumerate() {
            if encoding.ids[place] != mask {
                continue;
            }
            let mut order: Vec<usize> = (0..width).collect();
            order.sort_by(|&a, &b| row[b].total_cmp(&row[a]).then(a.cmp(&b)));
            line(format!("mask at piece {}", place + 1));
            for &id in order.iter().take(self.top) {
                let word = tokenizer.decode(&[id as u32], Special::Keep)?;
                let bar = "█".repeat((row[id] * 40.0).round() as usize);
                line(format!("  {:<18} {:.4}  {bar}", word.trim(), row[id]));
            }
        }
        Ok(())
    }
}
