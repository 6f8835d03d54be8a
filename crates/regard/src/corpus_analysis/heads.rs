//! What each head does: every measure over a corpus, beside the same architecture untrained, and a label for each head.

use super::head_map::NO_LABEL;
use super::texts::Texts;
use super::{Output, columns, head_map, interval, name, numbers, syntax};
use crate::corpus::{Corpus, TokenizedCorpus};
use crate::figure::{ColourScale, HeatMap, Matrix, Picture};
use crate::progress::StepProgress;
use crate::terminal::line;
use anyhow::Result;
use regard_nn::analysis::statistics::{Interval, Resampling};
use regard_nn::analysis::{
    Head, HeadSettings, Label, Measure, Part, Row, Subject, Table, Tokens, Weighing, all_heads, label_heads,
    measure_heads, prefix_matching, repeated_random,
};
use regard_nn::models::Model;
use regard_nn::tensor::random::Key;
use regard_nn::tokens::{Special, Tokenizer};
use std::ops::Range;

/// The significance level of labels, corrected for all heads and rules.
pub const SIGNIFICANCE: f64 = 0.05;

/// Texts of repeated random tokens, and the length of what is repeated.
const REPEATED: (usize, usize) = (50, 25);

/// Options of head measurements.
#[derive(Debug, Clone, Copy)]
pub struct MeasureOptions {
    /// How many texts are read at once.
    pub batch: usize,
    /// The random seed.
    pub seed: u64,
    /// Whether attention is also weighed by the norms of the transformed values.
    pub norms: bool,
}

/// Measures of the heads of one model, by what counts as a weight.
pub type Tables = Vec<(Weighing, Table)>;

/// Every measure of every head over texts; with what a tokenizer can make of random tokens, if there is one.
pub fn measure(
    subject: Subject,
    texts: &Texts,
    tokenized: Option<&TokenizedCorpus>,
    options: MeasureOptions,
    progress: &StepProgress,
) -> Result<Tables> {
    let kinds = [Weighing::Attention, Weighing::Norms];
    let wanted = kinds.into_iter().filter(|&weighing| options.norms || weighing == Weighing::Attention);
    wanted
        .map(|weighing| Ok((weighing, measure_by(subject, (texts, tokenized), options, weighing, progress)?)))
        .collect()
}

/// Every measure of every head by one kind of weight.
fn measure_by(
    subject: Subject,
    (texts, tokenized): (&Texts, Option<&TokenizedCorpus>),
    options: MeasureOptions,
    weighing: Weighing,
    progress: &StepProgress,
) -> Result<Table> {
    let resampling = Resampling::new(options.seed);
    let settings = HeadSettings { batch: options.batch, weighing, resampling };
    let mut table = measure_heads(subject, texts.stream()?.inspect(|_| progress.step()), settings)?;
    if let (Part::Reader, Some(tokenized)) = (subject.part, tokenized)
        && let Some(repeated) = repeated(tokenized, subject.model, options.seed)?
    {
        table.extend(prefix_matching(subject, repeated.into_iter(), settings)?);
    }
    Ok(table)
}

/// Random tokens, repeated once, between the special tokens that every text of this tokenizer is between; none if they do not
/// fit.
pub fn repeated(tokenized: &TokenizedCorpus, model: &dyn Model, seed: u64) -> Result<Option<Vec<Tokens>>> {
    let rows = model.token_embeddings().map_or(0, |table| table.tensor().shape()[0]);
    let ids = ordinary(tokenized.tokenizer, rows.min(tokenized.tokenizer.vocabulary_size()));
    let (before, after) = surroundings(tokenized.tokenizer)?;
    let room = tokenized.length.saturating_sub(before.len() + after.len()) / 2;
    let (count, length) = (REPEATED.0, REPEATED.1.min(room));
    if length < 2 || ids.len() < 2 {
        return Ok(None);
    }
    let wrapped = repeated_random(ids, length, count, Key::new(seed)).map(|tokens| {
        let inside = before.len()..before.len() + tokens.len();
        let mut wrapped = Tokens::new([&before[..], &tokens.ids, &after].concat());
        for (place, special) in wrapped.special.iter_mut().enumerate() {
            *special = !inside.contains(&place);
        }
        wrapped
    });
    Ok(Some(wrapped.collect()))
}

/// The longest run of ids that are pieces and not special.
pub fn ordinary(tokenizer: &Tokenizer, size: usize) -> Range<u32> {
    let (mut best, mut start) = (0..0, 0);
    for id in 0..=size as u32 {
        let is_piece = (id as usize) < size && !tokenizer.is_special(id) && tokenizer.piece(id).is_some();
        if !is_piece {
            if id - start > best.end - best.start {
                best = start..id;
            }
            start = id + 1;
        }
    }
    best
}

/// The pieces that a tokenizer puts before and after every text.
fn surroundings(tokenizer: &Tokenizer) -> Result<(Vec<u32>, Vec<u32>)> {
    let encoding = tokenizer.encode("a", Special::Keep)?;
    let first = encoding.texts.iter().position(Option::is_some).unwrap_or(encoding.len());
    let last = encoding.texts.iter().rposition(Option::is_some).map_or(encoding.len(), |last| last + 1);
    Ok((encoding.ids[..first].to_vec(), encoding.ids[last..].to_vec()))
}

/// The analysis of the heads of a model.
pub struct HeadAnalysis {
    /// The measures of the model.
    pub trained: Tables,
    /// Those of the same architecture with random weights.
    pub untrained: Tables,
    /// The labels of the heads.
    pub labels: Vec<Label>,
    /// Whether they follow syntax, if trees are known.
    pub syntax: Option<syntax::Syntax>,
    /// The heads, arranged by the distances of their attention patterns.
    pub map: head_map::HeadMap,
}

/// Measures the heads of a part of a model. Whether they follow syntax is measured on a corpus of its own, if its trees are
/// known and the model reads them.
pub fn analyse(
    subject: Subject,
    texts: &Texts,
    tokenized: Option<&TokenizedCorpus>,
    trees: Option<&Corpus>,
    options: MeasureOptions,
) -> Result<HeadAnalysis> {
    let fresh = subject.model.untrained(options.seed)?;
    let untrained = Subject { model: &*fresh, ..subject };
    let heads = all_heads(subject)?.len();
    let passes = if options.norms { 4 } else { 2 };
    let parsed = match (subject.part, tokenized, trees) {
        (Part::Reader, Some(tokenized), Some(trees)) => {
            trees.parsed(tokenized.limit).map(|parsed| (tokenized, trees, parsed.count() as u64))
        }
        _ => None,
    };
    let mapped = head_map::texts_for(heads).min(texts.count());
    let sentences = parsed.map_or(0, |(_, _, sentences)| sentences);
    let progress =
        StepProgress::new(format!("{heads} heads"), passes * texts.count() + 2 * sentences + mapped);
    let syntax = match parsed {
        Some((tokenized, trees, _)) => {
            Some(syntax::Syntax::count(subject.model, &*fresh, tokenized, trees, options, &progress)?)
        }
        None => None,
    };
    let trained = measure(subject, texts, tokenized, options, &progress)?;
    let untrained = measure(untrained, texts, tokenized, options, &progress)?;
    let labels = label_heads(&trained[0].1, &untrained[0].1, SIGNIFICANCE);
    let map = head_map::HeadMap::draw(subject, texts, &progress)?;
    Ok(HeadAnalysis { trained, untrained, labels, syntax, map })
}

/// The columns of `heads.csv`.
const COLUMNS: [&str; 9] = ["model", "weights", "layer", "head", "measure", "mean", "low", "high", "n"];

/// The name of a kind of weight in tables.
pub fn weights_name(weighing: Weighing) -> &'static str {
    match weighing {
        Weighing::Attention => "attention",
        Weighing::Norms => "norm-weighted",
    }
}

impl HeadAnalysis {
    /// Writes tables and figures.
    pub fn write(&self, output: &Output) -> Result<()> {
        let all = [("trained", &self.trained), ("untrained", &self.untrained)];
        let rows = all.into_iter().flat_map(|(model, tables)| {
            tables.iter().flat_map(move |(weighing, table)| {
                let front = move || vec![model.to_owned(), weights_name(*weighing).to_owned()];
                table.rows.iter().map(move |row| [front(), fields(row)].concat())
            })
        });
        output.csv("heads", &COLUMNS, rows)?;
        let labels = self.labels.iter().map(|label| {
            let rule = label.rule;
            let numbers = [label.mean, rule.at_least, label.untrained, label.p_value].map(|x| x.to_string());
            let front = [
                label.layer.to_string(),
                label.head.to_string(),
                rule.label.to_owned(),
                rule.measure.name().to_owned(),
            ];
            front.into_iter().chain(numbers).collect()
        });
        let header =
            ["layer", "head", "label", "measure", "mean", "at_least", "untrained_largest", "p_value"];
        // Every head has a row; most meet no rule.
        let unlabelled = self.trained[0].1.of(Measure::Confidence).filter(|row| {
            !self.labels.iter().any(|label| (label.layer, label.head) == (row.layer, row.head))
        });
        let unlabelled = unlabelled.map(|row| {
            let front = [row.layer.to_string(), row.head.to_string(), NO_LABEL.to_owned()];
            front.into_iter().chain(std::iter::repeat_n(String::new(), header.len() - 3)).collect()
        });
        output.csv("labels", &header, labels.chain(unlabelled))?;
        for &measure in Measure::ALL {
            for ((weighing, trained), (_, untrained)) in self.trained.iter().zip(&self.untrained) {
                let end = if *weighing == Weighing::Norms { "-norm-weighted" } else { "" };
                if let Some(picture) = self.picture(measure, (trained, untrained), *weighing) {
                    output.picture(&format!("{}{end}", measure.name()), &picture)?;
                }
            }
        }
        if let Some(syntax) = &self.syntax {
            syntax.write(output)?;
        }
        self.map.write(output, &self.labels)
    }

    /// A measure of all heads, trained beside untrained, on one scale.
    fn picture(&self, measure: Measure, tables: (&Table, &Table), weighing: Weighing) -> Option<Picture> {
        let largest =
            [tables.0, tables.1].into_iter().flat_map(|table| table.of(measure)).map(|row| row.mean);
        let largest =
            largest.fold(None, |most: Option<f64>, mean| Some(most.map_or(mean, |most| most.max(mean))))?;
        // Shares are drawn from 0 to at least a half, so that heads which do nothing special look like it.
        let share = !matches!(measure, Measure::Entropy | Measure::Distance);
        let end = if share { largest.max(0.5) } else { largest.max(1e-6) };
        let scale = || ColourScale::sequential(measure.name()).range(0.0, end);
        let map = |table: &Table| {
            let layers = table.rows.iter().map(|row| row.layer + 1).max().unwrap_or(0);
            let heads = table.rows.iter().map(|row| row.head + 1).max().unwrap_or(0);
            let at = |layer: usize, head: usize| {
                table.find(layer, head, measure).map_or(f32::NAN, |row| row.mean as f32)
            };
            HeatMap::new(Matrix::from_fn(layers, heads, at), scale()).names("layer", "head")
        };
        let by_rule = |label: &&Label| label.rule.measure == measure && weighing == Weighing::Attention;
        let labelled: Vec<&Label> = self.labels.iter().filter(by_rule).collect();
        let trained =
            labelled.iter().fold(map(tables.0), |map, label| map.highlight(label.layer, label.head));
        let note = match labelled.first() {
            Some(label) => format!("Framed heads are labelled “{}”.", label.rule.label),
            None => String::new(),
        };
        let weights = if weighing == Weighing::Norms { ", weighed by value norms" } else { "" };
        let picture = Picture::new(format!("“{}” head by head{weights}", measure.name()))
            .subtitle(measure.description())
            .note(note)
            .columns(2)
            .titled_panel("trained", trained)
            .titled_panel("untrained", map(tables.1));
        Some(picture)
    }

    /// Prints what there is to know in a screen.
    pub fn show(&self) {
        let (trained, untrained) = (&self.trained[0].1, &self.untrained[0].1);
        let mut rows = vec![
            ["measure", "strongest head", "mean [95 %]", "untrained, strongest"].map(str::to_owned).to_vec(),
        ];
        for &measure in Measure::ALL {
            let largest = |table: &Table| table.of(measure).max_by(|a, b| a.mean.total_cmp(&b.mean)).copied();
            let (Some(row), Some(baseline)) = (largest(trained), largest(untrained)) else { continue };
            let cells = [
                measure.name().to_owned(),
                name(Head { layer: row.layer, head: row.head }),
                interval(row.mean, row.low, row.high),
                interval(baseline.mean, baseline.low, baseline.high),
            ];
            rows.push(cells.to_vec());
        }
        columns(&rows);
        let sunk = [trained, untrained].map(|table| format!("{:.0} %", 100.0 * table.sink_share()));
        line(format!(
            "\nheads that give the first token more than 0.3: {}, untrained {}\n",
            sunk[0], sunk[1]
        ));
        self.show_labels();
        if let Some(syntax) = &self.syntax {
            line("");
            syntax.show();
        }
    }

    fn show_labels(&self) {
        let heads = self.trained[0].1.of(Measure::Confidence).count();
        if self.labels.is_empty() {
            line(format!("none of {heads} heads meets a rule for a label"));
            return;
        }
        let mut rows =
            vec![["head", "label", "by", "mean", "untrained, strongest"].map(str::to_owned).to_vec()];
        for label in &self.labels {
            let cells = [
                name(Head { layer: label.layer, head: label.head }),
                label.rule.label.to_owned(),
                format!("{} ≥ {}", label.rule.measure.name(), label.rule.at_least),
                format!("{:.3}", label.mean),
                format!("{:.3}", label.untrained),
            ];
            rows.push(cells.to_vec());
        }
        columns(&rows);
    }
}

/// The fields of a row after model and weights.
pub fn fields(row: &Row) -> Vec<String> {
    let mut fields = vec![row.layer.to_string(), row.head.to_string(), row.measure.name().to_owned()];
    fields.extend(numbers(&Interval { mean: row.mean, low: row.low, high: row.high, count: row.count }));
    fields.push(row.count.to_string());
    fields
}
