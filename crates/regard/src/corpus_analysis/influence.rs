//! Which words a prediction rests on, by several attribution methods, and how faithful each is for this model.

use super::target::{TargetedText, blank, target_corpus_text};
use super::{Output, columns, interval, numbers};
use crate::corpus::TokenizedCorpus;
use crate::figure::{
    Axis, ColourScale, HeatMap, IntervalRow, Intervals, Matrix, Passage, Picture, Words, fixed,
};
use crate::model::Opened;
use crate::progress::StepProgress;
use crate::terminal::line;
use anyhow::{Result, bail};
use regard_nn::analysis::influence::{Method, influence};
use regard_nn::analysis::occlusion::{Agreement, Blank, Quantity, faithfulness, occlusion};
use regard_nn::analysis::statistics::{Resampling, spearman};
use regard_nn::models::{Model, Predicts};
use regard_nn::tensor::random::Key;
use std::ops::Range;

/// The name of the reference method in tables and figures.
const YARDSTICK: &str = "blank-out";
/// The texts of a corpus that are drawn.
const DRAWN: usize = 3;

/// The attribution of each token of one text, by each method.
pub struct TextAttribution {
    targeted: TargetedText,
    /// The change when a token is blanked out; none for special tokens.
    changes: Vec<Option<f64>>,
    /// The values of each method; flow is left out where the text is too long for it.
    methods: Vec<(Method, Vec<f64>)>,
}

impl TextAttribution {
    /// Computes all methods on one text.
    pub fn of(model: &dyn Model, targeted: TargetedText, blank: Blank, flow_limit: usize) -> Result<Self> {
        let changes = occlusion(model, &targeted.tokens, targeted.target, (blank, Quantity::Logit))?;
        let mut methods = Vec::new();
        for method in Method::ALL {
            if method == Method::Flow && targeted.tokens.total_len() > flow_limit {
                continue;
            }
            methods.push((method, influence(model, &targeted.tokens, targeted.target, method, flow_limit)?));
        }
        Ok(Self { targeted, changes, methods })
    }

    /// A method's rank correlation with the absolute change.
    fn correlation(&self, values: &[f64]) -> Result<Option<f64>> {
        let kept = || (0..values.len()).filter(|&i| self.changes[i].is_some());
        let values: Vec<f64> = kept().map(|i| values[i]).collect();
        let truth: Vec<f64> = kept().map(|i| self.changes[i].unwrap_or(0.0).abs()).collect();
        Ok(spearman(&values, &truth)?)
    }

    /// Rows of `influence.csv`.
    fn rows(&self, text: usize) -> Vec<Vec<String>> {
        let changes: Vec<f64> = self.changes.iter().map(|change| change.unwrap_or(f64::NAN)).collect();
        let methods = self.methods.iter().map(|(method, values)| (method.name(), values));
        let all = std::iter::once((YARDSTICK, &changes)).chain(methods);
        let mut rows = Vec::new();
        for (method, values) in all {
            for (place, &value) in values.iter().enumerate().filter(|(_, value)| value.is_finite()) {
                let piece = self.targeted.piece(place);
                rows.push(vec![
                    text.to_string(),
                    place.to_string(),
                    piece.to_owned(),
                    method.to_owned(),
                    value.to_string(),
                ]);
            }
        }
        rows
    }

    /// The patches of a picture as strong as their influence, method by method.
    fn patches(&self, (rows, columns): (usize, usize), how: &str) -> Picture {
        let map = |values: &[f64]| {
            // What comes before the patches is no part of the picture.
            let first = values.len().saturating_sub(rows * columns);
            let most = values[first..]
                .iter()
                .filter(|value| value.is_finite())
                .fold(1e-12, |most: f64, v| most.max(v.abs()));
            let at = |row: usize, column: usize| (values[first + row * columns + column].abs() / most) as f32;
            let scale = ColourScale::sequential("relative to the largest").range(0.0, 1.0);
            HeatMap::new(Matrix::from_fn(rows, columns, at), scale).names("row", "column")
        };
        let changes: Vec<f64> = self.changes.iter().map(|change| change.unwrap_or(f64::NAN)).collect();
        let picture = Picture::new(format!("What the answer “{}” rests on", self.targeted.answer))
            .subtitle(format!("The patches of the picture; {YARDSTICK}: {how}"))
            .columns(3)
            .titled_panel(YARDSTICK, map(&changes));
        let methods = self.methods.iter();
        methods.fold(picture, |picture, (method, values)| picture.titled_panel(method.name(), map(values)))
    }

    /// The words on a ground as strong as their influence, method by method.
    fn picture(&self, how: &str) -> Result<Picture> {
        if let Some(grid) = self.targeted.grid {
            return Ok(self.patches(grid, how));
        }
        let words = self.targeted.words();
        // Every method has units of its own: each is shown relative to its largest.
        let passage = |values: &[f64]| {
            let sum = |(_, pieces): &(String, Range<usize>)| {
                let finite = values[pieces.clone()].iter().filter(|value| value.is_finite());
                finite.copied().reduce(|a, b| a + b).unwrap_or(f64::NAN)
            };
            let sums: Vec<f64> = words.iter().map(sum).collect();
            let most =
                sums.iter().filter(|sum| sum.is_finite()).fold(1e-12, |most: f64, sum| most.max(sum.abs()));
            Passage::new(
                words.iter().zip(sums).map(|((word, _), sum)| (word.clone(), (sum.abs() / most) as f32)),
            )
        };
        let changes: Vec<f64> = self.changes.iter().map(|change| change.unwrap_or(f64::NAN)).collect();
        let scale = ColourScale::sequential("influence, relative to the largest").range(0.0, 1.0);
        let mut panel = Words::new(scale).passage(passage(&changes).heading(format!("{YARDSTICK}: {how}")));
        for (method, values) in &self.methods {
            let heading = match self.correlation(values)? {
                Some(correlation) => {
                    let correlation = fixed(correlation, 2);
                    format!("{}: rank correlation with {YARDSTICK} {correlation}", method.name())
                }
                None => format!("{}: the same for all words", method.name()),
            };
            panel = panel.passage(passage(values).heading(heading));
        }
        Ok(Picture::new(format!("What the answer “{}” rests on", self.targeted.answer)).panel(panel))
    }

    /// Writes table and figure of this one text, and prints both in short.
    pub fn report(&self, output: &Output, how: &str) -> Result<()> {
        let header = ["text", "place", "token", "method", "value"];
        output.csv("influence", &header, self.rows(0).into_iter())?;
        output.picture("words", &self.picture(how)?)?;
        line(format!("answer: {}", self.targeted.answer));
        line("");
        let mut rows =
            vec![["method".to_owned(), "rank correlation".to_owned(), "heaviest words".to_owned()].to_vec()];
        let changes: Vec<f64> = self.changes.iter().map(|change| change.unwrap_or(0.0).abs()).collect();
        rows.push(vec![YARDSTICK.to_owned(), "1".to_owned(), self.heaviest(&changes)]);
        for (method, values) in &self.methods {
            let correlation = self.correlation(values)?;
            let shown = correlation.map_or_else(|| "–".to_owned(), |correlation| fixed(correlation, 2));
            rows.push(vec![method.name().to_owned(), shown, self.heaviest(values)]);
        }
        columns(&rows);
        Ok(())
    }

    /// The three words with most influence.
    fn heaviest(&self, values: &[f64]) -> String {
        let words = self.targeted.words();
        let mut sums: Vec<(f64, &str)> =
            words.iter().map(|(word, pieces)| (values[pieces.clone()].iter().sum(), word.as_str())).collect();
        sums.sort_by(|a, b| b.0.total_cmp(&a.0));
        sums.iter().take(3).map(|(_, word)| *word).collect::<Vec<_>>().join(", ")
    }
}

/// The faithfulness of each method, over a corpus.
pub struct Faithfulness {
    agreements: Vec<Agreement>,
    /// The same of the same architecture with random weights: what a method reaches without training.
    untrained: Vec<Agreement>,
    examples: Vec<TextAttribution>,
    how: String,
}

impl Faithfulness {
    /// Compares every method with blank-out on each text.
    pub fn measure<'a>(
        opened: &Opened,
        targets: &dyn Fn() -> Result<CorpusTargets<'a>>,
        texts: u64,
        (seed, flow_limit): (u64, usize),
    ) -> Result<Self> {
        let (blank, how) = blank(opened);
        let progress = StepProgress::new("faithfulness", 2 * texts);
        let agreements = |model: &dyn Model| -> Result<Vec<Agreement>> {
            let targets = targets()?.map(|targeted| {
                let TargetedText { tokens, target, .. } =
                    targeted.map_err(|error| regard_nn::Error::Checkpoint(format!("{error:#}")))?;
                Ok((tokens, target))
            });
            let targets = targets.inspect(|_| progress.step());
            let yardstick = (blank, Quantity::Logit);
            Ok(faithfulness(model, targets, yardstick, flow_limit, Resampling::new(seed))?)
        };
        let examples = targets()?
            .take(DRAWN)
            .map(|targeted| TextAttribution::of(&*opened.model, targeted?, blank, flow_limit));
        Ok(Self {
            agreements: agreements(&*opened.model)?,
            untrained: agreements(&*opened.model.untrained(seed)?)?,
            examples: examples.collect::<Result<_>>()?,
            how,
        })
    }

    /// Writes tables and figures.
    pub fn write(&self, output: &Output) -> Result<()> {
        let rows = self.agreements.iter().flat_map(|agreement| {
            agreement.texts.iter().enumerate().filter_map(|(text, correlation)| {
                Some(vec![text.to_string(), agreement.method.name().to_owned(), (*correlation)?.to_string()])
            })
        });
        output.csv("faithfulness-by-text", &["text", "method", "rank_correlation"], rows)?;
        let all = [("trained", &self.agreements), ("untrained", &self.untrained)];
        let rows = all.into_iter().flat_map(|(model, agreements)| {
            agreements.iter().map(move |agreement| {
                let found = agreement.correlation;
                let numbers = match found.count {
                    0 => std::array::from_fn(|_| String::new()),
                    _ => numbers(&found),
                };
                let front = [model, agreement.method.name()].map(str::to_owned).into_iter();
                front.chain(numbers).chain([found.count.to_string()]).collect()
            })
        });
        output.csv("faithfulness", &["model", "method", "rank_correlation", "low", "high", "n"], rows)?;
        let examples = self.examples.iter().enumerate().flat_map(|(text, example)| example.rows(text));
        output.csv("influence", &["text", "place", "token", "method", "value"], examples)?;
        output.picture("faithfulness", &self.picture())?;
        for (number, example) in self.examples.iter().enumerate() {
            output.picture(&format!("words-{number}"), &example.picture(&self.how)?)?;
        }
        Ok(())
    }

    fn picture(&self) -> Picture {
        let mut lines = Intervals::new(Axis::linear("rank correlation with blank-out"));
        for agreement in &self.agreements {
            let found = agreement.correlation;
            let mean = if found.count > 0 { found.mean } else { f64::NAN };
            lines = lines.line(IntervalRow::new(agreement.method.name(), mean, found.low, found.high));
        }
        Picture::new("How far pictures of attention can be trusted")
            .subtitle(format!("Agreement with blank-out ({}) over texts, 95 % intervals", self.how))
            .note("1: words in the same order of importance; 0: no relation.")
            .panel(lines)
    }

    /// Prints the table.
    pub fn show(&self) {
        line(format!("rank correlation with {YARDSTICK} ({})", self.how));
        line("");
        let header = ["method", "mean [95 %]", "texts", "untrained [95 %]"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let any = self.agreements.iter().any(|agreement| agreement.correlation.count > 0);
        for (agreement, untrained) in self.agreements.iter().zip(&self.untrained) {
            let shown = |agreement: &Agreement| match agreement.correlation {
                found if found.count > 0 => interval(found.mean, found.low, found.high),
                // The others are defined for some text: all texts were too long for flow, and the user can change that.
                _ if agreement.method == Method::Flow && any => {
                    "all texts longer than --flow-limit".to_owned()
                }
                _ => "not defined for any text".to_owned(),
            };
            rows.push(vec![
                agreement.method.name().to_owned(),
                shown(agreement),
                agreement.correlation.count.to_string(),
                shown(untrained),
            ]);
        }
        columns(&rows);
    }
}

/// Texts or pictures, each with a target.
pub type CorpusTargets<'a> = Box<dyn Iterator<Item = Result<TargetedText>> + 'a>;

/// The texts of a corpus, each with a target. Longer texts than flow can take were cut when they were read.
pub fn corpus_targets<'a>(
    opened: &'a Opened,
    tokenized: &'a TokenizedCorpus,
    seed: u64,
) -> Result<CorpusTargets<'a>> {
    let key = Key::new(seed).site("asked");
    let texts = tokenized.corpus.texts(tokenized.limit)?.enumerate();
    Ok(Box::new(texts.filter_map(move |(number, text)| {
        let one = || -> Result<Option<TargetedText>> {
            let text = text?;
            let encoding = tokenized.encode(&text)?;
            match encoding.len() {
                0 | 1 => Ok(None),
                _ => target_corpus_text(opened, tokenized, (text, encoding), key, number as u64),
            }
        };
        one().transpose()
    })))
}

/// Rejects models without predictions to explain.
pub fn ensure_answers(model: &dyn Model) -> Result<()> {
    match model.abilities().predicts {
        Predicts::Nothing => bail!("this {} has no head that answers anything", model.kind()),
        Predicts::Vector => {
            bail!("this {} answers with a vector: there is no class or token to explain", model.kind())
        }
        Predicts::Span => bail!(
            "this {} answers with a part of a passage: there is no class or token to explain",
            model.kind()
        ),
        _ => Ok(()),
    }
}
