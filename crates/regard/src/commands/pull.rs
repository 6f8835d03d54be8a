//! `regard pull`: a model from Hugging Face's hub.

use crate::cache::{Cache, Name};
use crate::fetch::{Hub, offline};
use crate::progress::DownloadProgress;
use anyhow::Result;
use clap::Args;

/// Download a model from Hugging Face's hub into the cache shared with Python.
///
/// Only what is needed is downloaded: configuration, tokenizer and weights as safetensors. A download that was cut off is
/// continued. HF_HOME, HF_HUB_CACHE, HF_ENDPOINT, HF_TOKEN and HF_HUB_OFFLINE mean what they mean in Python. Prints the
/// folder; every command then takes the NAME as its model.
#[derive(Args)]
#[command(
    after_help = "Examples:\n  regard pull openai-community/gpt2\n  regard generate openai-community/gpt2 \"The meaning of life is\"\n  HF_ENDPOINT=https://hub.example.org regard pull google-t5/t5-small"
)]
pub struct Pull {
    /// The model's name, such as openai-community/gpt2
    name: Name,
}

impl Pull {
    /// Runs the command.
    #[allow(clippy::print_stdout)] // the folder is the command's answer
    pub fn run(&self) -> Result<()> {
        let cache = Cache::from_environment()?;
        // As Python has it: what is there already can be had offline.
        if offline()
            && let Some(folder) = cache.snapshot(&self.name)
        {
            println!("{}", folder.display());
            return Ok(());
        }
        let hub = Hub::from_environment()?;
        let mut downloads = DownloadProgress::new();
        let folder =
            hub.pull(&cache, &self.name, &mut |file, done, total| downloads.show(file, done, total))?;
        drop(downloads);
        println!("{}", folder.display());
        Ok(())
    }
}
