//! `regard experiment`: a claim put to the test.

use crate::bad_usage;
use crate::compute::Compute;
use crate::experiment::{
    Check, Data, Division, Experiment as Definition, Findings, Outcome, Progress, Setup, Share, Size, Store,
    ledger, report_share,
};
use crate::experiments::{EXPERIMENTS, find};
use crate::figure::number;
use crate::run::nearest;
use crate::terminal;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Put a claim about attention to the test; without a name, list the experiments.
///
/// Finished parts and trained models are kept in the folder: the same command continues where it stopped, and other
/// experiments reuse the models.
#[derive(Args)]
#[command(after_help = "Examples:
  regard experiment                           lists them with their claims
  regard experiment --size full               lists them with the data and the time that they need
  regard experiment scale-sweep               why 1/√d_k, in a second
  regard experiment three-models --seeds 3 -o results
  regard experiment three-models --size full --data aclImdb_v1.tar.gz
  regard experiment three-models --share 2/4 -o part2     every fourth part, on one of four machines
  regard experiment three-models --merge part1 part2 part3 part4 -o results
  regard experiment --record ledger --merge elsewhere     adds the ledger of another machine")]
pub struct Experiment {
    /// Which one (see the list), or a claim such as D3
    name: Option<String>,
    /// How large to make it
    #[arg(long, value_enum, default_value = "quick")]
    size: Size,
    /// How many seeds to draw (default: as many as the experiment needs)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Use the seeds 0, 1, … that experiments are developed with; verdicts use others, which are kept for them
    #[arg(long)]
    develop: bool,
    /// Real data to use instead of the built-in corpus: a path, or the name of a set that was fetched, such as imdb
    #[arg(long)]
    data: Option<String>,
    /// Pre-trained word vectors, as GloVe and fastText publish them, for the experiments that compare with them
    #[arg(long, value_name = "FILE")]
    vectors: Option<PathBuf>,
    /// The folder to write
    #[arg(long, short, default_value = "outputs")]
    out: PathBuf,
    /// Add the verdicts to the ledger in this folder (verdicts.csv, facts.csv); the one that ships is in crates/regard/records
    #[arg(long, value_name = "FOLDER")]
    record: Option<PathBuf>,
    #[command(flatten)]
    division: Division,
    #[command(flatten)]
    compute: Compute,
}

impl Experiment {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        let Some(name) = &self.name else {
            // Without a name, the folders to merge hold ledgers of other machines.
            if let (Some(folder), [_, ..]) = (&self.record, &self.division.merge[..]) {
                return self.division.merge.iter().try_for_each(|other| ledger::merge(folder, other));
            }
            if self.division.share.is_some() || !self.division.merge.is_empty() {
                bad_usage!(
                    "name the experiment first: regard experiment NAME --share I/N, or --merge FOLDER…"
                );
            }
            list(self.size);
            return Ok(());
        };
        let experiment = choose(name)?;
        if self.size >= Size::Full
            && self.data.is_none()
            && let Some(wanted) = experiment.data.wanted()
        {
            bad_usage!("{name} at {} size needs real data: --data {wanted}", self.size.name());
        }
        if self.data.is_some() && experiment.data.wanted().is_none() {
            bad_usage!(
                "{name} takes no --data: it uses {}",
                match experiment.data {
                    Data::Drawn => "numbers drawn at random",
                    _ => "the built-in text, whose grammar it must know",
                }
            );
        }
        if !experiment.has(self.size) {
            let large: Vec<&str> =
                EXPERIMENTS.iter().filter(|one| one.has(Size::Large)).map(|one| one.name).collect();
            bad_usage!(
                "{name} has no large size, its largest is full; those that have: {}",
                large.join(", ")
            );
        }
        let data = self.data.as_deref().map(crate::fetch::data::named).transpose()?.map(PathBuf::from);
        if self.size == Size::Large {
            terminal::remark(format!(
                "size large is for a data-centre GPU: about {} there, weeks on two cores",
                terminal::duration(experiment.expected(self.size))
            ));
        }
        let store = Store::new(&self.out)?;
        let shares = self.division.share.map_or(1, Share::of);
        let progress = Progress::new(experiment.expected(self.size) / shares as f64);
        let setup = Setup {
            size: self.size,
            seeds: self.seeds,
            data: data.as_deref(),
            vectors: self.vectors.as_deref(),
            placement: self.compute.placement()?,
            develop: self.develop,
        };
        if let (Some(_), Some(obstacle)) = (&self.record, ledger::obstacle(&setup)) {
            bad_usage!("this run cannot be recorded: {obstacle}");
        }
        if let Some(share) = self.division.share {
            let missing = experiment.conduct_share(setup, &store, &progress, share)?;
            progress.finish();
            report_share(share, &store, missing);
            return Ok(());
        }
        self.division.collect(&store, &[experiment.name])?;
        let findings = experiment.conduct(setup, &self.out, &store, &progress)?;
        progress.finish();
        self.division.report_computed(&store);
        if let Some(folder) = &self.record {
            ledger::record(folder, experiment, &setup, &findings)?;
        }
        show(experiment, &setup, &findings)?;
        terminal::remark(format!("\nfigures and tables: {}", self.out.join(experiment.name).display()));
        Ok(())
    }
}

fn choose(name: &str) -> Result<&'static Definition> {
    let by_claim = || {
        EXPERIMENTS
            .iter()
            .find(|experiment| experiment.claims.iter().any(|claim| claim.eq_ignore_ascii_case(name)))
    };
    let Some(experiment) = find(name).or_else(by_claim) else {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
        match nearest(name, &names) {
            Some(near) => bad_usage!("there is no experiment {name}; did you mean {near}?"),
            None => bad_usage!(
                "there is no experiment or claim {name}; `regard experiment` lists them: {}",
                names.join(", ")
            ),
        }
    };
    Ok(experiment)
}

fn list(size: Size) {
    let mut total = 0.0;
    for experiment in EXPERIMENTS {
        if !experiment.has(size) {
            continue;
        }
        let Definition { name, claims, question, data, .. } = experiment;
        let expected = experiment.expected(size);
        total += expected;
        terminal::line(format!(
            "{name:<20} {:<9} {:>8}  {question}",
            claims.join(" "),
            terminal::duration(expected)
        ));
        if let (Size::Full | Size::Large, Some(wanted)) = (size, data.wanted()) {
            terminal::line(format!("{:40}--data {wanted}", ""));
        }
    }
    terminal::remark(format!(
        "\n{} in all at size {}, on {} (other sizes: --size); run one by its name or by a claim",
        terminal::duration(total),
        size.name(),
        if size == Size::Large { "a data-centre GPU" } else { "two cores" },
    ));
}

/// What a check is about, and what was measured.
fn measured(check: &Check) -> String {
    let effect = &check.effect;
    let interval = match effect.count {
        1 => String::new(),
        count => format!(" [{}, {}], n {count}", number(effect.low), number(effect.high)),
    };
    match check.outcome {
        Outcome::NotMeasured => format!("{}: not measured", check.what),
        _ => format!("{}: {}{interval}", check.what, number(effect.mean)),
    }
}

/// Verdicts with what they rest on.
fn show(experiment: &Definition, setup: &Setup, findings: &Findings) -> Result<()> {
    let recorded = ledger::Ledger::shipped()?;
    terminal::line(format!("{}\n\npredicted: {}\n", experiment.question, experiment.prediction));
    if let Some(changed) = experiment.changed {
        terminal::line(format!("changed after the freeze: {changed}\n"));
    }
    for verdict in &findings.verdicts {
        let statement = crate::experiment::claims::claim(verdict.claim).map_or("", |claim| claim.statement);
        let outcome = verdict.outcome.name().to_uppercase();
        let builtin = if verdict.builtin_text_only { " (built-in text only)" } else { "" };
        terminal::line(format!("{} {outcome}{builtin}: {statement}", verdict.claim));
        terminal::line(format!("   {}", verdict.finding));
        if let Some(remark) = recorded.remark(experiment, setup, verdict) {
            terminal::line(format!("   {remark}"));
        }
        for unmet in verdict.unmet() {
            terminal::line(format!("   not testable: {}; needed: {}", measured(unmet), unmet.bound));
        }
        if verdict.parts.len() > 1 {
            for part in &verdict.parts {
                let repeats = part.repeats.map_or_else(String::new, |claim| format!(" (counted in {claim})"));
                terminal::line(format!("   part “{}”: {}{repeats}", part.name, part.outcome.name()));
            }
        }
        if let Some(why) = &verdict.why {
            terminal::line(format!("   why {} fails: {why}", verdict.failing()));
        }
        for check in &verdict.checks {
            let mark = match check.outcome {
                Outcome::Holds => "✓",
                Outcome::Fails => "✗",
                _ => "?",
            };
            let part = match (&check.part, verdict.parts.len() > 1) {
                (Some(part), true) => format!("{part}: "),
                _ => String::new(),
            };
            terminal::line(format!("   {mark} {part}{}; must be {}", measured(check), check.bound));
        }
        for published in &verdict.published {
            let ours = published.ours.map_or_else(|| "not measured".to_owned(), number);
            terminal::line(format!(
                "     published: {} {}, ours {ours} ({})",
                published.what, published.theirs, published.source
            ));
        }
        terminal::line("");
    }
    Ok(())
}
