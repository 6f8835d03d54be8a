//! `regard train`: from data to a trained model.

use crate::bad_usage;
use crate::compute::Compute;
use crate::error::{Elsewhere, Interrupted};
use crate::run::{
    Attached, Controls, InitialModel, PRESETS, Preset, Reporting, RunFolder, Session, ensure_length, follow,
    preset,
};
use crate::{ranks, terminal};
use anyhow::Result;
use clap::Args;
use regard_nn::train::TrainingEnd;
use regard_nn::train::parallel::Group;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod watch;

/// Train a model: from a preset, on your data or the built-in corpus.
///
/// The folder it writes can be opened by this program and by Hugging Face's transformers.
#[derive(Args)]
#[command(after_help = "Examples:
  regard train                                    lists the presets
  regard train bag                                seconds on the built-in corpus
  regard train shakespeare-char --data input.txt --out runs/shakespeare
  regard train sentiment-heads --data aclImdb_v1.tar.gz --set data.length=400
  regard train shakespeare-char --device cuda --precision bf16
  regard train --resume --out runs/shakespeare    resumes where it stopped
  regard train words-gpt --watch                  opens the page on the run while it trains
  regard train words-gpt --tensorboard logs       then: tensorboard --logdir logs
  mpirun -n 4 regard train shakespeare-char       four processes share each update (docs/cluster.md)")]
pub struct Train {
    /// What to train (see the list)
    preset: Option<String>,
    /// A file or folder to learn from, or the name of a set that was fetched (default: the built-in corpus)
    #[arg(long)]
    data: Option<String>,
    /// A model to start from, instead of random weights: its architecture is kept, the preset sets how it is trained
    #[arg(long)]
    from: Option<String>,
    /// Change a setting, such as train.steps=500
    #[arg(long = "set", value_name = "KEY=VALUE")]
    settings: Vec<String>,
    /// The folder to write (default: runs/PRESET)
    #[arg(long, short)]
    out: Option<PathBuf>,
    /// Continue the run in --out
    #[arg(long)]
    resume: bool,
    /// Show the run in the browser while it trains: curve, heads, sampled text, pause, learning rate. Keeps snapshots
    #[arg(long, value_name = "PORT", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    watch: Option<u16>,
    /// Write the curves as TensorBoard event files too
    #[arg(long, value_name = "FOLDER")]
    tensorboard: Option<PathBuf>,
    #[command(flatten)]
    compute: Compute,
}

impl Train {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        if self.preset.is_none() && !self.resume {
            return list_presets();
        }
        let group = ranks::group()?;
        if group.rank() > 0 {
            ranks::together(group, Ok(()))?;
            return match follow(group, self.compute)? {
                TrainingEnd::Stopped => Err(Elsewhere { stopped: true }.into()),
                _ => Ok(()),
            };
        }
        let controls = self.watch.map(|_| Arc::new(Controls::default()));
        let attached = Attached { controls: controls.clone(), tensorboard: self.tensorboard.clone() };
        // The others wait for this rank: they learn of its failure.
        let session = ranks::together(group, self.session(group.ranks(), attached))?;
        let folder = self.folder().unwrap_or_default();
        let (Some(port), Some(controls)) = (self.watch, controls) else {
            return learn(&folder, session, group);
        };
        let page = watch::begin(&folder, port, Arc::clone(&controls), &session)?;
        let end = learn(&folder, session, group);
        controls.finish(end.as_ref().map_err(|error| format!("{error:#}")).copied());
        end?;
        page.stay();
        Ok(())
    }

    /// Where the run is, or will be.
    fn folder(&self) -> Option<PathBuf> {
        let default = self.preset.as_ref().map(|name| Path::new("runs").join(name));
        self.out.clone().or(default)
    }

    /// The run that was begun, or a new one, whose updates several ranks share.
    fn session(&self, ranks: usize, attached: Attached) -> Result<Session<'static>> {
        match self.resume {
            true => Ok(self.resumed()?.attach(attached)),
            false => self.begun(ranks, attached),
        }
    }

    fn begun(&self, ranks: usize, attached: Attached) -> Result<Session<'static>> {
        let (Some(name), Some(out)) = (&self.preset, self.folder()) else {
            bad_usage!("name what to train: regard train lists the presets");
        };
        let mut config = preset(name, &self.settings)?;
        let placement = self.compute.placement_to_train(&mut config.train)?;
        if let Some(data) = &self.data {
            config.data.path = Some(crate::fetch::data::named(data)?);
        }
        RunFolder::ensure_free(&out)?;
        let given = self.from.as_deref().map(InitialModel::open).transpose()?;
        match &given {
            Some(given) => given.ensure_agrees(name, &config, &self.settings)?,
            None => ensure_length(&config, &config.model, &self.settings)?,
        }
        if ranks > 1 {
            // As one process would have to be configured to make the same updates.
            config.train.accumulate = config.train.accumulate.saturating_mul(ranks);
            let (batches, size) = (config.train.accumulate, config.train.batch_size);
            terminal::remark(format!(
                "{ranks} ranks share each update: {batches} batches of {size} (train.accumulate)"
            ));
        }
        terminal::remark("reading the data");
        Session::begin_attached(&out, &config, given, placement, Reporting::Terminal, attached)
    }

    fn resumed(&self) -> Result<Session<'static>> {
        let Some(out) = self.folder() else {
            bad_usage!("name the run to resume: regard train --resume --out FOLDER");
        };
        if self.data.is_some() || self.from.is_some() || !self.settings.is_empty() {
            bad_usage!("a run resumes as it was configured: leave out --data, --from and --set");
        }
        terminal::remark("reading the data");
        Session::resume(&out, self.compute, Reporting::Terminal)
    }
}

fn list_presets() -> Result<()> {
    for &Preset { name, seconds, .. } in PRESETS {
        let config = preset(name, &[])?;
        let (steps, time) = (terminal::thousands(config.train.steps), terminal::duration(seconds));
        terminal::line(format!("{name:<20} {steps:>6} steps {time:>8}  {}", config.about));
    }
    terminal::remark(
        "\nTimes are about those on two cores with the built-in data. A run says how much time is left after its first steps; \
         --set train.steps=N makes it shorter.",
    );
    Ok(())
}

fn learn(out: &Path, session: Session, group: &dyn Group) -> Result<()> {
    session.introduce();
    let (end, progress) = session.learn_with(group)?;
    let best = progress.best.map(|(loss, step)| format!(", best held-out loss {loss:.4} at step {step}"));
    let (step, best) = (progress.step, best.unwrap_or_default());
    match end {
        TrainingEnd::Stopped => {
            let folder = terminal::quoted(out);
            let next = format!("stopped at step {step}; continue with: regard train --resume --out {folder}");
            return Err(Interrupted(next).into());
        }
        TrainingEnd::Finished => terminal::remark(format!("finished after {step} steps{best}")),
        TrainingEnd::Patience => terminal::remark(format!(
            "ended early, after {step} steps: {} evaluations in a row were no better (train.patience){best}",
            progress.since_best
        )),
    }
    terminal::line(out.display());
    Ok(())
}
