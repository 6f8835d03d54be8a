//! Five patterns of attention, and how much each head of a model shows of them. A head is chosen on one half of the examples and
//! measured on the other, so that the best of many heads is not the best by luck.

use crate::experiment::{Lab, Sizes, named};
use crate::experiments::models::language as models;
use crate::model::Opened;
use crate::run::sources;
use anyhow::Result;
use regard_nn::analysis::dependencies::{Aligned, Direction, Guess, Matches, match_heads};
use regard_nn::analysis::measures::SINK;
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{
    Head, HeadSettings, Measure, Table, Tokens, label_heads, measure_heads, prefix_matching, repeated_random,
};
use regard_nn::models::Model;
use regard_nn::tensor::random::Key;

named! {
    /// A pattern of attention.
    pub enum Pattern {
        Previous = "previous token",
        Delimiters = "delimiters",
        Subject = "subject of a verb",
        Modifier = "modifier of a noun",
        Far = "far away",
        /// Measured over all heads.
        Any = "any",
    }
}

/// The patterns, and the weight that was published of each.
pub const PATTERNS: [(Pattern, f64); 5] = [
    (Pattern::Previous, 0.82),
    (Pattern::Delimiters, 0.65),
    (Pattern::Subject, 0.71),
    (Pattern::Modifier, 0.78),
    (Pattern::Far, 0.45),
];
/// The patterns that are syntactic, and their relations.
pub const RELATIONS: [(Pattern, &str); 2] = [(Pattern::Subject, "nsubj"), (Pattern::Modifier, "amod")];
/// Fixed offsets up to this far are tried against heads.
const REACH: usize = 10;
/// A direction of a relation with fewer pairs is left out.
const FEWEST: u64 = 10;

/// What heads are measured on.
pub struct Material {
    texts: Vec<Tokens>,
    sentences: Vec<(Tokens, Aligned)>,
}

/// Which half of the material.
#[derive(Clone, Copy)]
enum Half {
    Choose,
    Measure,
}

/// Texts and parsed sentences that the model was not trained on.
pub fn material(lab: &Lab, opened: &Opened, length: usize) -> Result<Material> {
    let tokenizer = opened.tokenizer()?;
    let mut texts = Vec::new();
    for text in sources::builtin_test()?
        .iter()
        .take(lab.setting("texts", Sizes::quick(200).smoke(12).standard(2_000)))
    {
        texts.extend(models::tokens_of(tokenizer, text.text(), length)?.filter(|text| text.len() > 1));
    }
    let sentences = models::parsed_sentences(
        tokenizer,
        lab.setting("parsed sentences", Sizes::quick(1_000).smoke(60).standard(10_000)),
        length,
    )?;
    Ok(Material { texts, sentences })
}

impl Material {
    fn texts(&self, half: Half) -> impl Iterator<Item = regard_nn::Result<Tokens>> {
        self.texts.iter().skip(half as usize).step_by(2).cloned().map(Ok)
    }

    fn sentences(&self, half: Half) -> impl Iterator<Item = regard_nn::Result<(Tokens, Aligned)>> {
        self.sentences.iter().skip(half as usize).step_by(2).cloned().map(Ok)
    }
}

/// What was measured of all heads on each half.
pub struct Measured {
    /// By half, pattern (and last the first token) and head.
    weights: [Vec<Vec<f64>>; 2],
    matches: [Matches; 2],
}

pub fn measure(model: &dyn Model, material: &Material) -> Result<Measured> {
    let matches = |half| match_heads(model, material.sentences(half), (32, REACH), Resampling::new(0));
    let matches = [matches(Half::Choose)?, matches(Half::Measure)?];
    let weights = |half: Half| -> Result<Vec<Vec<f64>>> {
        let table = measure_heads(model, material.texts(half), HeadSettings::default())?;
        let of = |measure| table.of(measure).map(|row| row.mean).collect::<Vec<f64>>();
        let linked = |relation: &str| {
            let counts = matches[half as usize].counts.get(&(relation.to_owned(), Direction::ToDependent));
            counts.map(|counts| counts.weight.iter().map(|sum| sum / counts.pairs.sum).collect())
        };
        let linked = |relation: &str| linked(relation).unwrap_or_default();
        Ok(vec![
            of(Measure::Previous),
            of(Measure::Delimiters),
            linked(RELATIONS[0].1),
            linked(RELATIONS[1].1),
            of(Measure::Far),
            of(Measure::First),
        ])
    };
    Ok(Measured { weights: [weights(Half::Choose)?, weights(Half::Measure)?], matches })
}

impl Measured {
    /// The head that shows a pattern most on one half, and how much on the other; nothing if the texts have no example of it.
    pub fn best(&self, pattern: Pattern) -> Option<(usize, f64)> {
        let [choose, measure] = [&self.weights[0][pattern as usize], &self.weights[1][pattern as usize]];
        let best = (0..choose.len()).max_by(|&a, &b| choose[a].total_cmp(&choose[b]))?;
        Some((best, *measure.get(best)?))
    }

    /// The direction in which a head follows a relation best, on one half. In a causal model the two have different pairs,
    /// so that everything is compared in one.
    pub fn best_direction(&self, relation: &str) -> Option<Direction> {
        Some(self.matches[0].best_head(relation, FEWEST)?.direction)
    }

    /// How often the head that follows a relation best on one half is right on the other.
    pub fn best_match(&self, relation: &str, direction: Direction) -> Option<f64> {
        let Guess { predictor: who, .. } = self.matches[0].best_head_towards(relation, direction)?;
        let same = |guess: &Guess<Head>| guess.predictor == who && guess.direction == direction;
        self.matches[1].guesses(relation).find(same).map(|guess| guess.accuracy)
    }

    /// The same of a fixed offset.
    pub fn best_offset(&self, relation: &str, direction: Direction) -> Option<f64> {
        let offset = self.matches[0].best_offset(relation, direction)?.predictor;
        let counts = self.matches[1].counts.get(&(relation.to_owned(), direction))?;
        Some(counts.offsets.get(&offset).map_or(0.0, |right| right.over(&counts.pairs)))
    }

    /// The share of heads that give the first token more than [`SINK`] of their weight on average.
    pub fn sinks(&self) -> f64 {
        let first = &self.weights[Half::Measure as usize][PATTERNS.len()];
        first.iter().filter(|&&weight| weight > f64::from(SINK)).count() as f64 / first.len().max(1) as f64
    }
}

/// The names that heads get by the rules of [`label_heads`], all texts taken together.
pub fn labels(
    lab: &Lab,
    trained: &dyn Model,
    untrained: &dyn Model,
    material: &Material,
    length: usize,
) -> Result<Vec<(usize, usize, String)>> {
    let vocabulary = trained.token_embeddings().map_or(0, |table| table.tensor().shape()[0]) as u32;
    let table = |model: &dyn Model| -> Result<Table> {
        let mut table =
            measure_heads(model, material.texts.iter().cloned().map(Ok), HeadSettings::default())?;
        let random = repeated_random(
            2..vocabulary,
            length / 2,
            lab.setting("repeated random texts", Sizes::quick(16).smoke(2).standard(100)),
            Key::new(0).site("labels"),
        );
        table.extend(prefix_matching(model, random, HeadSettings::default())?);
        Ok(table)
    };
    let labels = label_heads(&table(trained)?, &table(untrained)?, 0.05);
    Ok(labels.into_iter().map(|label| (label.layer, label.head, label.rule.label.to_owned())).collect())
}
