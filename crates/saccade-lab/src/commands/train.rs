//! `saccade train`: from data to a trained model.

use crate::model;
use crate::run::{PRESETS, RunConfig, Session, Voice, preset};
use crate::terminal;
use anyhow::{Result, bail};
use clap::Args;
use saccade::Module;
use saccade::models::Model;
use saccade::train::End;
use std::path::{Path, PathBuf};

/// Train a model: from a preset, on your data or the built-in corpus.
///
/// The folder it writes can be opened by this program and by Hugging Face's transformers.
#[derive(Args)]
#[command(after_help = "Examples:
  saccade train                                    lists the presets
  saccade train bag                                a minute on the built-in corpus
  saccade train shakespeare-char --data input.txt --out runs/shakespeare
  saccade train sentiment-heads --data aclImdb_v1.tar.gz --set data.length=400
  saccade train --resume --out runs/shakespeare    goes on where it stopped")]
pub struct Train {
    /// What to train (see the list)
    preset: Option<String>,
    /// A file or folder to learn from, or the name of a set that was fetched (default: the built-in corpus)
    #[arg(long)]
    data: Option<String>,
    /// A model to start from, instead of random weights
    #[arg(long)]
    from: Option<String>,
    /// Change a setting, such as train.steps=500
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The folder to write (default: runs/PRESET)
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// Go on with the run in --out
    #[arg(long)]
    resume: bool,
}

impl Train {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        if self.resume {
            return self.go_on();
        }
        let Some(name) = &self.preset else {
            for (name, _) in PRESETS {
                terminal::line(format!("{name:<20} {}", preset(name, &[])?.about));
            }
            return Ok(());
        };
        let mut config = preset(name, &self.settings)?;
        if let Some(data) = &self.data {
            config.data.path = Some(crate::fetch::data::named(data)?);
        }
        let out = self.out.clone().unwrap_or_else(|| Path::new("runs").join(name));
        let (tokenizer, model) = match &self.from {
            Some(from) => {
                let opened = model::open(from)?;
                (opened.tokenizer, Some(opened.model))
            }
            None => (None, None),
        };
        terminal::remark("reading the data");
        let model = fitting(&config, model)?;
        learn(&out, Session::begin(&out, &config, tokenizer, model, Voice::Aloud)?)
    }

    fn go_on(self) -> Result<()> {
        let Some(out) = self.out.or_else(|| self.preset.map(|name| Path::new("runs").join(name))) else {
            bail!("say which run to go on with: saccade train --resume --out FOLDER");
        };
        if self.data.is_some() || self.from.is_some() || !self.settings.is_empty() {
            bail!("a run goes on as it was configured: leave out --data, --from and --set");
        }
        terminal::remark("reading the data");
        let session = Session::resume(&out, Voice::Aloud)?;
        learn(&out, session)
    }
}

/// A model to start from, in the form that the preset asks for: a BERT gets the heads of the preset.
fn fitting(config: &RunConfig, from: Option<Model>) -> Result<Option<Model>> {
    let Some(from) = from else { return Ok(None) };
    let wanted = serde_json::to_value(&config.model)?;
    let kind = wanted["kind"].as_str().unwrap_or_default().to_owned();
    if from.kind() != kind {
        bail!("the preset trains a {kind}, but --from is a {}", from.kind());
    }
    let (crate::run::ModelConfig::Bert(preset), Model::Bert(bert)) = (&config.model, &from) else {
        return Ok(Some(from));
    };
    let config =
        saccade::models::BertConfig { heads: preset.heads, dropout: preset.dropout, ..bert.config().clone() };
    let mut model = saccade::models::Bert::new(config, 0)?;
    let known: Vec<(String, saccade::tensor::Tensor)> =
        bert.parameters().into_iter().map(|(name, parameter)| (name, parameter.tensor().detach())).collect();
    for (name, parameter) in model.parameters_mut() {
        if let Some((_, values)) = known.iter().find(|(known, _)| *known == name)
            && values.shape() == parameter.tensor().shape()
        {
            parameter.tensor_mut().set_values(&values.values())?;
        }
    }
    Ok(Some(Model::Bert(model)))
}

fn learn(out: &Path, session: Session) -> Result<()> {
    session.introduce();
    let (end, progress) = session.learn()?;
    let place = out.display();
    match end {
        End::Stopped => {
            terminal::remark(format!(
                "stopped at step {}; go on with: saccade train --resume --out {place}",
                progress.step
            ));
        }
        End::Finished | End::Patience => {
            let best =
                progress.best.map(|(loss, step)| format!(", best held-out loss {loss:.4} at step {step}"));
            terminal::remark(format!("finished after {} steps{}", progress.step, best.unwrap_or_default()));
            terminal::line(format!("{place}"));
        }
    }
    Ok(())
}
