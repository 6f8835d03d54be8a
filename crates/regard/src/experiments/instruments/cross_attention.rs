//! Where the cross-attention of a model that puts sentences into the passive lies, beside the true origins of the words.

use crate::model::Opened;
use anyhow::{Context as _, Result, bail};
use regard_nn::data::builtin::{Pair, Word};
use regard_nn::models::{Inputs, Part};
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Encoding, Special};
use regard_nn::{Context, Probe};
use serde::{Deserialize, Serialize};

/// Cross-attention over one pair.
#[derive(Serialize, Deserialize)]
pub struct Crossed {
    /// The pieces of the source.
    pub source: Vec<String>,
    /// The pieces of the target, each of which the model is to predict.
    pub target: Vec<String>,
    /// By layer and head, (target, source): the weights with which a piece is predicted.
    pub heads: Vec<Vec<f32>>,
    /// For each piece of the target, those of the source that it comes from.
    pub origins: Vec<Vec<usize>>,
    /// For each piece of the target, whether the model predicts it, given those before.
    pub right: Vec<bool>,
}

/// Reads a pair with an encoder–decoder model; the decoder is given the true target.
pub fn cross(opened: &Opened, pair: &Pair) -> Result<Crossed> {
    let model = &*opened.model;
    let Some(start) = model.abilities().start else { bail!("a {} has no cross-attention", model.kind()) };
    let tokenizer = opened.tokenizer()?;
    let source = tokenizer.encode(&pair.source, Special::Keep)?;
    let target = tokenizer.encode(&pair.target, Special::Keep)?;
    let shifted = std::iter::once(start).chain(target.ids.iter().copied());
    let input: Vec<u32> = shifted.take(target.ids.len()).collect();
    let (read, answer) = (Ids::new(&source.ids, [1, source.len()])?, Ids::new(&input, [1, input.len()])?);
    let sites: Vec<String> = model.part(Part::Cross)?.into_iter().map(|site| site.name).collect();
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.record(format!("{site}.weights")));
    let scores = model
        .forward(&Context::inference().with_probe(&probe), &Inputs::ids(&read).answered(&answer, None))?;
    let best = scores.argmax(-1)?;
    let mut heads = Vec::new();
    for site in &sites {
        let weights = probe.weights(site).with_context(|| format!("the model did not pass {site}"))?;
        let all = weights.all();
        heads.extend(all.values().chunks(source.len() * target.len()).map(<[f32]>::to_vec));
    }
    Ok(Crossed {
        origins: origins(pair, &source, &target),
        right: best.values().iter().zip(&target.ids).map(|(best, wanted)| best == wanted).collect(),
        source: pieces(&pair.source, &source),
        target: pieces(&pair.target, &target),
        heads,
    })
}

fn pieces(text: &str, encoding: &Encoding) -> Vec<String> {
    encoding.offsets.iter().map(|span| text.get(span.clone()).unwrap_or_default().to_owned()).collect()
}

/// For each piece of the target, the pieces of the source word that its word comes from.
fn origins(pair: &Pair, source: &Encoding, target: &Encoding) -> Vec<Vec<usize>> {
    let inside = |encoding: &Encoding, piece: usize, word: &Word| {
        let offset = &encoding.offsets[piece];
        offset.start < word.span.end && word.span.start < offset.end
    };
    let of = |piece: usize| {
        let word = pair.target_words.iter().position(|word| inside(target, piece, word));
        let from = word.and_then(|word| *pair.alignment.get(word)?);
        let Some(from) = from.and_then(|from| pair.source_words.get(from)) else { return Vec::new() };
        (0..source.len()).filter(|&piece| inside(source, piece, from)).collect()
    };
    (0..target.len()).map(of).collect()
}

impl Crossed {
    /// How often the largest weight of a head is on the origin of a piece, and the number of pieces that have an origin.
    pub fn found(&self, head: usize) -> (usize, usize) {
        let width = self.source.len();
        let most = |row: &[f32]| (0..width).max_by(|&a, &b| row[a].total_cmp(&row[b]));
        let Some(weights) = self.heads.get(head) else { return (0, 0) };
        self.count(|target| most(&weights[target * width..(target + 1) * width]))
    }

    /// The same for a guess that is always at the same position in the source as in the target.
    pub fn found_in_place(&self) -> (usize, usize) {
        self.count(|target| Some(target.min(self.source.len() - 1)))
    }

    fn count(&self, guess: impl Fn(usize) -> Option<usize>) -> (usize, usize) {
        let known = || (0..self.target.len()).filter(|&target| !self.origins[target].is_empty());
        let right =
            known().filter(|&target| guess(target).is_some_and(|at| self.origins[target].contains(&at)));
        (right.count(), known().count())
    }
}

/// How often the head that finds origins best on one half of the pairs finds them on the other, and how often they are at the
/// same position.
pub fn found_by_best_head(crossed: &[Crossed]) -> (f64, f64) {
    let share = |half: usize, count: &dyn Fn(&Crossed) -> (usize, usize)| {
        let sums = crossed.iter().skip(half).step_by(2).map(count);
        let (right, all) = sums.fold((0, 0), |sums, (right, all)| (sums.0 + right, sums.1 + all));
        right as f64 / all.max(1) as f64
    };
    let heads = crossed.first().map_or(0, |crossed| crossed.heads.len());
    let by_head: Vec<f64> = (0..heads).map(|head| share(0, &|crossed| crossed.found(head))).collect();
    let best = (0..heads).max_by(|&a, &b| by_head[a].total_cmp(&by_head[b])).unwrap_or(0);
    (share(1, &|crossed| crossed.found(best)), share(1, &Crossed::found_in_place))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of four words whose passive has them in reverse order, read by two heads: one attends to the first word, the other
    /// to a given position.
    fn pairs(attends_to: impl Fn(usize) -> usize) -> Vec<Crossed> {
        let words = || ["a", "b", "c", "d"].map(str::to_owned).to_vec();
        let weights = |at: &dyn Fn(usize) -> usize| {
            (0..16).map(|i| if i % 4 == at(i / 4) { 0.7 } else { 0.1 }).collect::<Vec<f32>>()
        };
        let pair = || Crossed {
            source: words(),
            target: words(),
            heads: vec![weights(&|_| 0), weights(&attends_to)],
            origins: vec![vec![3], vec![2], vec![1], vec![0]],
            right: vec![true; 4],
        };
        (0..4).map(|_| pair()).collect()
    }

    #[test]
    fn origins_are_found_by_a_head_that_attends_to_them_and_by_no_other() {
        assert_eq!(found_by_best_head(&pairs(|target| 3 - target)), (1.0, 0.0));
        assert_eq!(
            found_by_best_head(&pairs(|target| target)),
            (0.25, 0.0),
            "the head that always attends to the first word"
        );
        // A head is not measured on the pairs that it was chosen by.
        let mut mixed = pairs(|target| 3 - target);
        mixed[1] = pairs(|target| target).remove(0);
        mixed[3] = pairs(|target| target).remove(0);
        assert_eq!(found_by_best_head(&mixed).0, 0.0);
        assert_eq!(found_by_best_head(&[]), (0.0, 0.0));
    }
}
