//! Whether heads matter: the loss without each of them, their gradient importance, and how many can be pruned.

use super::evaluation_batches::EvaluationBatches;
use super::{Output, columns, interval, name, numbers};
use crate::figure::{Axis, Chart, ColourScale, HeatMap, Matrix, Picture, Point, Scatter, Series, fixed};
use crate::progress::StepProgress;
use crate::terminal::line;
use anyhow::Result;
use regard_nn::analysis::ablation::{Ablation, Effect, ablate_with_progress, pruning_curve};
use regard_nn::analysis::statistics::{Interval, Resampling, spearman};
use regard_nn::analysis::{Subject, all_heads};

/// The most points of a pruning curve.
const POINTS: usize = 24;
/// The heads that are printed: those that matter most.
const SHOWN: usize = 10;

/// The effect of removing heads.
pub struct AblationAnalysis {
    ablation: Ablation,
    /// The same of the same architecture with random weights.
    untrained: Ablation,
    /// The loss after so many heads are gone, from the least important by gradient.
    curve: Vec<(usize, Interval)>,
    kinds: Vec<String>,
}

/// Removes every head on its own, then heads one after the other.
pub fn analyse(subject: Subject, data: &EvaluationBatches, seed: u64) -> Result<AblationAnalysis> {
    let heads = all_heads(subject)?.len();
    let counts = counts(heads);
    let batches = data.batches.len();
    // A head costs two passes for a batch and model, a point of the curve one.
    let steps = (2 * heads * batches + counts.len() * batches) as u64;
    let progress = StepProgress::new(format!("{heads} heads"), steps);
    let resampling = Resampling::new(seed);
    let ablate = |subject: Subject| {
        data.with_kinds(|kinds| {
            ablate_with_progress(subject, data.iter(), kinds, &resampling, &|| progress.step())
        })
    };
    let fresh = subject.model.untrained(seed)?;
    let (ablation, untrained) = (ablate(subject)?, ablate(Subject { model: &*fresh, ..subject })?);
    let order = ablation.least_important_first();
    let batches = data.iter().inspect(|_| progress.step());
    let curve = pruning_curve(subject, &batches, &order, &counts, &resampling)?;
    Ok(AblationAnalysis { ablation, untrained, curve, kinds: data.kinds.clone() })
}

/// The numbers of heads to remove: all if they are few, else spread evenly from none to all.
fn counts(heads: usize) -> Vec<usize> {
    let points = heads.min(POINTS);
    (0..=points).map(|point| point * heads / points.max(1)).collect()
}

impl AblationAnalysis {
    /// Writes tables and figures.
    pub fn write(&self, output: &Output) -> Result<()> {
        let header = ["model", "layer", "head", "measure", "kind", "value", "low", "high", "n"];
        let all = [("trained", &self.ablation), ("untrained", &self.untrained)];
        let rows = all.into_iter().flat_map(|(model, ablation)| {
            ablation.heads.iter().flat_map(move |effect| self.rows(model, effect))
        });
        output.csv("ablation", &header, rows)?;
        let rows = self.curve.iter().map(|(count, loss)| {
            let front = std::iter::once(count.to_string());
            front.chain(numbers(loss)).chain([loss.count.to_string()]).collect()
        });
        output.csv("pruning", &["heads_removed", "loss", "low", "high", "n"], rows)?;
        output.picture("ablation", &self.by_head())?;
        output.picture("ablation-by-kind", &self.by_kind())?;
        output.picture("agreement", &self.agreement())?;
        output.picture("pruning", &self.pruning())
    }

    fn rows(&self, model: &str, effect: &Effect) -> Vec<Vec<String>> {
        let row = |measure: &str, kind: &str, found: &Interval| {
            let front = [model, &effect.head.layer.to_string(), &effect.head.head.to_string(), measure, kind]
                .map(str::to_owned);
            front.into_iter().chain(numbers(found)).chain([found.count.to_string()]).collect()
        };
        let mut rows = Vec::new();
        for (measure, loss) in [("zeroed", &effect.zeroed), ("averaged", &effect.averaged)] {
            rows.push(row(measure, "all", &loss.all));
            let kinds = self.kinds.iter().zip(&loss.by_kind);
            rows.extend(
                kinds.filter_map(|(kind, change)| change.as_ref().map(|change| row(measure, kind, change))),
            );
        }
        rows.push(row("gradient-importance", "all", &effect.importance));
        rows
    }

    /// A value of every head, as a matrix.
    fn matrix(&self, value: impl Fn(&Effect) -> Option<f64>) -> Matrix {
        let heads = &self.ablation.heads;
        let layers = heads.iter().map(|effect| effect.head.layer + 1).max().unwrap_or(0);
        let width = heads.iter().map(|effect| effect.head.head + 1).max().unwrap_or(0);
        Matrix::from_fn(layers, width, |layer, head| {
            let found = heads.iter().find(|effect| (effect.head.layer, effect.head.head) == (layer, head));
            found.and_then(&value).map_or(f32::NAN, |value| value as f32)
        })
    }

    fn largest(&self, value: impl Fn(&Effect) -> Option<f64>) -> f64 {
        self.ablation.heads.iter().filter_map(value).map(f64::abs).fold(0.0, f64::max)
    }

    fn by_head(&self) -> Picture {
        let most = self
            .largest(|effect| Some(effect.zeroed.all.mean))
            .max(self.largest(|effect| Some(effect.averaged.all.mean)));
        let scale = |label: &str| ColourScale::diverging(label).range(-most, most);
        let map = |matrix: Matrix, scale: ColourScale| HeatMap::new(matrix, scale).names("layer", "head");
        Picture::new("What the loss becomes without each head")
            .subtitle(format!(
                "Change of the mean loss, {:.4} nats with all heads; more than 0 is worse",
                self.ablation.loss.all.mean
            ))
            .columns(3)
            .titled_panel("zeroed", map(self.matrix(|effect| Some(effect.zeroed.all.mean)), scale("change")))
            .titled_panel(
                "set to its mean",
                map(self.matrix(|effect| Some(effect.averaged.all.mean)), scale("change")),
            )
            .titled_panel(
                "gradient importance",
                map(
                    self.matrix(|effect| Some(effect.importance.mean)),
                    ColourScale::sequential("importance"),
                ),
            )
    }

    fn by_kind(&self) -> Picture {
        let of = |kind: usize| {
            move |effect: &Effect| {
                effect.zeroed.by_kind.get(kind).copied().flatten().map(|change| change.mean)
            }
        };
        let most = (0..self.kinds.len()).map(|kind| self.largest(of(kind))).fold(0.0, f64::max);
        let mut picture = Picture::new("Which answers each head is for")
            .subtitle("Change of the mean loss of each kind when the head's output is zero")
            .columns(2);
        for (kind, title) in self.kinds.iter().enumerate() {
            let scale = ColourScale::diverging("change").range(-most, most);
            picture = picture
                .titled_panel(title, HeatMap::new(self.matrix(of(kind)), scale).names("layer", "head"));
        }
        picture
    }

    fn agreement(&self) -> Picture {
        let points = self.ablation.heads.iter().map(|effect| {
            Point::new(effect.importance.mean, effect.zeroed.all.mean).label(name(effect.head))
        });
        let scatter =
            Scatter::new(Axis::linear("gradient importance"), Axis::linear("change of the loss when zeroed"));
        let subtitle = format!("{} over {} heads", self.correlations(), self.ablation.heads.len());
        Picture::new("Gradient importance of a head, and the change of the loss without it")
            .subtitle(subtitle)
            .panel(scatter.points(points.collect::<Vec<_>>()))
    }

    /// How the gradient agrees with the change of the loss, and with its size: a head can matter and do harm.
    fn correlations(&self) -> String {
        let importance: Vec<f64> = self.ablation.heads.iter().map(|effect| effect.importance.mean).collect();
        let sizes: Vec<f64> = self.ablation.heads.iter().map(|effect| effect.zeroed.all.mean.abs()).collect();
        let shown = |correlation: Option<f64>| {
            correlation.map_or_else(|| "not defined".to_owned(), |correlation| format!("{correlation:.2}"))
        };
        let size = spearman(&importance, &sizes).unwrap_or(None);
        format!(
            "Spearman's correlation {}, with the size of the change {}",
            shown(self.ablation.agreement),
            shown(size)
        )
    }

    fn pruning(&self) -> Picture {
        let points = self.curve.iter().map(|&(count, loss)| (count as f64, loss.mean, loss.low, loss.high));
        let chart = Chart::new(Axis::linear("heads removed"), Axis::linear("loss"))
            .series(Series::new("least important first, by gradient").intervals(points).band())
            .level(self.ablation.loss.all.mean, "all heads");
        Picture::new("How many heads can go")
            .subtitle("Heads are zeroed, one after the other")
            .note("95 % intervals from resampled texts.")
            .panel(chart)
    }

    /// Prints the heads that matter most, and how many do not.
    pub fn show(&self) {
        let Interval { mean, low, high, .. } = self.ablation.loss.all;
        line(format!("loss with all heads  {}", interval(mean, low, high)));
        line("");
        let header = ["head", "zeroed [95 %]", "set to mean [95 %]", "gradient", "most for"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        let mut effects: Vec<&Effect> = self.ablation.heads.iter().collect();
        effects.sort_by(|a, b| b.zeroed.all.mean.total_cmp(&a.zeroed.all.mean));
        let shown = |found: Interval| interval(found.mean, found.low, found.high);
        for effect in effects.into_iter().take(SHOWN) {
            let kinds = self.kinds.iter().zip(&effect.zeroed.by_kind);
            let most = kinds
                .filter_map(|(kind, change)| Some((kind, (*change)?)))
                .max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
            let cells = [
                name(effect.head),
                shown(effect.zeroed.all),
                shown(effect.averaged.all),
                fixed(effect.importance.mean, 4),
                most.map(|(kind, change)| format!("{kind} {}", shown(change))).unwrap_or_default(),
            ];
            rows.push(cells.to_vec());
        }
        columns(&rows);
        let largest = self.untrained.heads.iter().map(|effect| effect.zeroed.all);
        if let Some(most) = largest.max_by(|a, b| a.mean.abs().total_cmp(&b.mean.abs())) {
            line(format!("\nuntrained, the largest change  {}", shown(most)));
        }
        line(format!("gradient importance against zeroing: {}", self.correlations()));
        self.show_pruning();
    }

    fn show_pruning(&self) {
        let loss = self.ablation.loss.all.mean;
        let heads = self.ablation.heads.len();
        for percent in [1, 10] {
            let bearable = loss * (1.0 + f64::from(percent) / 100.0);
            let gone = self.curve.iter().take_while(|(_, loss)| loss.mean <= bearable).last();
            let count = gone.map_or(0, |(count, _)| *count);
            line(format!("heads that can go before the loss grows by {percent} %: {count} of {heads}"));
        }
        if let Some((_, none)) = self.curve.last() {
            line(format!("loss without any head  {}", interval(none.mean, none.low, none.high)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::counts;

    #[test]
    fn a_curve_begins_with_all_heads_and_ends_with_none() {
        assert_eq!(counts(3), [0, 1, 2, 3]);
        let many = counts(144);
        assert_eq!((many.len(), many[0], many[24]), (25, 0, 144));
        assert!(many.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
