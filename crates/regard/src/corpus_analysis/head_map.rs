//! A map of heads: heads with similar attention patterns lie close together.

use super::texts::Texts;
use super::{Output, name};
use crate::figure::{Axis, Picture, Point, Scatter};
use crate::progress::StepProgress;
use anyhow::Result;
use regard_nn::analysis::distance::{Distances, head_divergences, map, root};
use regard_nn::analysis::{Head, Label, Subject, all_heads};

/// Heads and the Jensen–Shannon divergence of each pair.
pub struct HeadMap {
    heads: Vec<Head>,
    divergences: Distances,
    /// How many texts they are means of.
    texts: u64,
}

/// How many texts the map is made of: the work grows with the square of the number of heads.
pub fn texts_for(heads: usize) -> u64 {
    let pairs = heads * heads.saturating_sub(1) / 2;
    (200_000 / pairs.max(1)).clamp(10, 100) as u64
}

/// The name for heads without a label.
pub const NO_LABEL: &str = "no label";

impl HeadMap {
    /// Reads the first texts of a corpus.
    pub fn draw(subject: Subject, texts: &Texts, progress: &StepProgress) -> Result<Self> {
        let count = texts_for(all_heads(subject)?.len()) as usize;
        let mut read = 0;
        let texts = texts.stream()?.take(count).inspect(|_| {
            read += 1;
            progress.step();
        });
        let (heads, divergences) = head_divergences(subject, texts)?;
        Ok(Self { heads, divergences, texts: read })
    }

    /// Writes `distances.csv` and the map, its points by their first label.
    pub fn write(&self, output: &Output, labels: &[Label]) -> Result<()> {
        let distances = root(&self.divergences);
        let count = self.heads.len();
        let pairs = (0..count).flat_map(|i| (i + 1..count).map(move |j| (i, j)));
        let rows = pairs.map(|(i, j)| {
            let heads = [self.heads[i].layer, self.heads[i].head, self.heads[j].layer, self.heads[j].head];
            let numbers =
                [self.divergences.between(i, j), distances.between(i, j)].map(|value| value.to_string());
            let front = heads.map(|number| number.to_string()).into_iter();
            front.chain(numbers).chain([self.texts.to_string()]).collect()
        });
        let header = ["layer_a", "head_a", "layer_b", "head_b", "divergence_bits", "distance", "n"];
        output.csv("distances", &header, rows)?;
        if count < 3 {
            return Ok(()); // two points make no map
        }
        output.picture("map", &self.picture(&distances, labels))
    }

    fn picture(&self, distances: &Distances, labels: &[Label]) -> Picture {
        let (places, kept) = map(distances, 2);
        let label_of = |head: &Head| {
            let own = labels.iter().find(|label| (label.layer, label.head) == (head.layer, head.head));
            own.map_or(NO_LABEL, |label| label.rule.label)
        };
        let mut classes: Vec<&str> = self.heads.iter().map(label_of).collect();
        classes.sort_unstable();
        classes.dedup();
        let points = self.heads.iter().zip(&places).map(|(head, place)| {
            let class = classes.iter().position(|&class| class == label_of(head)).unwrap_or(0);
            let at = |axis: usize| place.get(axis).copied().unwrap_or(0.0);
            Point::new(at(0), at(1)).label(name(*head)).class(class)
        });
        let share = kept.iter().take(2).sum::<f64>();
        let scatter = Scatter::new(Axis::linear("first axis"), Axis::linear("second axis"))
            .points(points.collect::<Vec<_>>())
            .equal_units();
        let scatter = if classes.len() > 1 { scatter.classes(classes.iter().copied()) } else { scatter };
        Picture::new("Heads that look alike stand together")
            .subtitle("Jensen–Shannon distances of all pairs of heads, in two dimensions; layer.head")
            .note(format!(
                "Means over {} texts. The two axes keep {:.0} % of the squared distances.",
                self.texts,
                100.0 * share
            ))
            .panel(scatter)
    }
}
