//! `saccade train`: from data to a trained model.

use crate::model;
use crate::run::{Material, Note, PRESETS, RunConfig, RunFolder, Watch, interrupted, prepare, preset};
use crate::terminal;
use anyhow::{Context as _, Result, bail};
use clap::Args;
use saccade::Module;
use saccade::models::Model;
use saccade::tokens::Tokenizer;
use saccade::train::{End, Progress, load_state, train};
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
    /// A file or folder to learn from (default: the built-in corpus)
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
        if self.data.is_some() {
            config.data.path.clone_from(&self.data);
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
        let mut material = prepare(&config, tokenizer, fitting(&config, model)?)?;
        // From here on there is something to lose.
        interrupted();
        let folder = RunFolder::create(&out, &config)?;
        if let Some(tokenizer) = &material.tokenizer {
            folder.write_tokenizer(tokenizer)?;
        }
        if let Some(pixels) = &material.pixels {
            folder.write_pixels(pixels)?;
        }
        let mut progress = Progress::new(&config.train);
        let note = Note { data: material.summary.clone(), ..Note::default() };
        introduce(&material);
        learn(&config, &folder, &mut material, &mut progress, note)
    }

    fn go_on(self) -> Result<()> {
        let Some(out) = self.out.or_else(|| self.preset.map(|name| Path::new("runs").join(name))) else {
            bail!("say which run to go on with: saccade train --resume --out FOLDER");
        };
        if self.data.is_some() || self.from.is_some() || !self.settings.is_empty() {
            bail!("a run goes on as it was configured: leave out --data, --from and --set");
        }
        let (folder, config) = RunFolder::open(&out)?;
        let tokenizer = match out.join("tokenizer.json").is_file() {
            true => Some(Tokenizer::from_folder(&out)?),
            false => None,
        };
        terminal::remark("reading the data");
        let mut material = prepare(&config, tokenizer, None)?;
        let note = Note { data: material.summary.clone(), ..Note::default() };
        if !folder.state().exists() {
            terminal::remark("nothing was saved before it stopped; beginning anew");
            let mut progress = Progress::new(&config.train);
            return learn(&config, &folder, &mut material, &mut progress, note);
        }
        let configuration = toml::to_string(&config)?;
        let (mut progress, note) =
            load_state(&folder.state(), material.task.as_mut(), &config.train, &configuration)?;
        let note: Note = serde_json::from_str(&note).context("the state's note cannot be understood")?;
        if note.data != material.summary {
            bail!("the data has changed: it was {}, it is {}", note.data, material.summary);
        }
        terminal::remark(format!("going on from step {}", progress.step));
        learn(&config, &folder, &mut material, &mut progress, note)
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

fn introduce(material: &Material) {
    let model = material.task.model();
    let count = terminal::thousands(model.module().parameter_count() as u64);
    terminal::remark(format!("{}\na {} with {count} parameters", material.summary, model.kind()));
}

fn learn(
    config: &RunConfig,
    folder: &RunFolder,
    material: &mut Material,
    progress: &mut Progress,
    note: Note,
) -> Result<()> {
    let mut watch = Watch::new(config, folder, material, note, progress.step)?;
    let end = train(material.task.as_mut(), &config.train, progress, &mut watch)?;
    let place = folder.path().display();
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
