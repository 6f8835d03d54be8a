//! Losses: cross-entropy over classes, and binary cross-entropy on logits.

use crate::error::{Error, Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::broadcast;
use crate::kernels::loss::{self, ScoredLoss, Targets};
use crate::storage::Device;
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

/// Settings of the cross-entropy.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrossEntropy {
    /// Rows with this target do not count.
    pub ignored: Option<u32>,
    /// The share of the target's probability that is spread evenly over all classes.
    pub smoothing: f32,
}

impl CrossEntropy {
    /// Fails if the settings make no sense or a target is not a class.
    fn check(self, targets: &Ids, classes: usize) -> Result<()> {
        let Self { ignored, smoothing } = self;
        if !(0.0..1.0).contains(&smoothing) {
            return Err(Error::setting("cross_entropy", "smoothing", "at least 0 and below 1", smoothing));
        }
        let right = move |id: u32| (id as usize) < classes || ignored == Some(id);
        if targets.are_known_below(classes) || targets.require(move |ids| ids.iter().all(|&id| right(id))) {
            return Ok(());
        }
        match targets.at_present().iter().find(|id| !right(**id)) {
            None => Ok(()),
            Some(&id) => Err(Error::OutOfRange {
                operation: "cross_entropy",
                what: "target",
                index: id as usize,
                limit: classes,
            }),
        }
    }
}

/// The places of targets that are not ignored.
fn rows_that_count(targets: &[u32], ignored: u32) -> impl Iterator<Item = u32> {
    targets.iter().zip(0..).filter(move |(id, _)| **id != ignored).map(|(_, row)| row)
}

/// How many of the rows are scored, on devices that replay steps, where so many count.
fn room_of(counted: usize, rows: usize) -> usize {
    counted.next_multiple_of(ROWS_TOGETHER).min(rows)
}

/// A multiple of the rows of a product's tile.
const ROWS_TOGETHER: usize = 128;

impl Tensor {
    /// `−ln softmax(x)[target]`, the mean over the rows that count (0 if none does). Logits are (…, classes).
    ///
    /// ```
    /// use regard_tensor::{Ids, Tensor};
    /// let logits = Tensor::zeros([3, 4]);
    /// let loss = logits.cross_entropy(&Ids::new(&[0, 1, 2], [3])?, Default::default())?;
    /// assert!((loss.item()? - 4.0_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), regard_tensor::Error>(())
    /// ```
    pub fn cross_entropy(&self, targets: &Ids, settings: CrossEntropy) -> Result<Tensor> {
        let sum = self.cross_entropy_rows(targets, settings)?.sum_all()?;
        let share = |counted: usize| 1.0 / counted.max(1) as f32;
        let counted = targets.count_without(settings.ignored);
        let Some(ignored) = settings.ignored.filter(|_| counted < targets.count()) else {
            return sum.scale(share(counted));
        };
        if targets.in_slot().is_none() {
            return sum.scale(share(counted));
        }
        let rule = move |ids: &[u32]| vec![share(rows_that_count(ids, ignored).count())];
        sum.multiply(&targets.derive_values(self.device(), [], rule)?)
    }

    /// The cross-entropy of each row, 0 for ignored ones: a tensor of the targets' shape.
    ///
    /// The gradient, (softmax(x) − target distribution)·g, is computed from the logits and each row's log-sum-exp;
    /// probabilities are never kept.
    pub fn cross_entropy_rows(&self, targets: &Ids, settings: CrossEntropy) -> Result<Tensor> {
        let CrossEntropy { ignored, smoothing } = settings;
        let classes = self.shape().last();
        ensure_shape(
            self.shape().rank() >= 1 && self.shape().rows() == targets.count(),
            "cross_entropy",
            || format!("a target for each of {} rows", self.shape().rows()),
            || targets.shape().to_string(),
        )?;
        settings.check(targets, classes)?;
        let (losses, lse) =
            loss::cross_entropy(&self.array, Targets { ids: targets, classes, ignored, smoothing })?;
        let (logits, ids) = (self.detach(), targets.clone());
        Ok(Tensor::from_array(losses, targets.shape()).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let targets = Targets { ids: &ids, classes, ignored, smoothing };
                let gradient = loss::cross_entropy_gradient(&logits.array, &lse, targets, &g.array)?;
                inputs.send(0, Tensor::from_array(gradient, logits.shape()))
            }
        }))
    }

    /// The mean cross-entropy of vectors (…, inputs) scored by a weight (classes, inputs) and an optional bias: what
    /// `x.linear(weight, bias).cross_entropy(targets)` gives, without keeping the scores.
    ///
    /// With thousands of classes the scores are by far the largest values of a training step. Here they exist for a few
    /// hundred rows at a time, and the gradients are made while they do; the backward pass only scales them.
    pub fn scored_cross_entropy(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        targets: &Ids,
        settings: CrossEntropy,
    ) -> Result<Tensor> {
        let inputs = self.shape().last();
        let fits = self.shape().rank() >= 1
            && weight.shape().rank() == 2
            && weight.shape()[1] == inputs
            && bias.is_none_or(|bias| bias.shape()[..] == weight.shape()[..1])
            && self.shape().rows() == targets.count();
        ensure_shape(
            fits,
            "scored_cross_entropy",
            || format!("a weight of (classes, {inputs}) and {} targets", self.shape().rows()),
            || format!("{} and {}", weight.shape(), targets.shape()),
        )?;
        let classes = weight.shape()[0];
        settings.check(targets, classes)?;
        let CrossEntropy { ignored, smoothing } = settings;
        let counted = targets.count_without(ignored);
        if let Some(ignored) = ignored.filter(|_| counted < targets.count()) {
            // Rows that do not count need not be scored.
            let flat = self.reshape([self.shape().rows(), inputs])?;
            return flat.scored_in_part((weight, bias), targets, (counted, ignored), smoothing);
        }
        self.scored_rows((weight, bias), targets, CrossEntropy { ignored: None, smoothing })
    }

    /// The rows (rows, inputs) whose targets are not ignored.
    fn scored_in_part(
        &self,
        sides: (&Tensor, Option<&Tensor>),
        targets: &Ids,
        (counted, ignored): (usize, u32),
        smoothing: f32,
    ) -> Result<Tensor> {
        let device = self.device();
        if !matches!(device, Device::Cuda(_)) && targets.in_slot().is_none() {
            let rows: Vec<u32> = rows_that_count(targets.values(), ignored).collect();
            let ids: Vec<u32> = rows.iter().map(|&row| targets.values()[row as usize]).collect();
            let picked = self.embedding(&Ids::new(&rows, [counted])?)?;
            let settings = CrossEntropy { ignored: None, smoothing };
            return picked.scored_rows(sides, &Ids::new(&ids, [counted])?, settings);
        }
        // Rows are added that do not count, so that many batches have as many: a replay needs that.
        let room = room_of(counted, targets.count());
        let rows = move |ids: &[u32]| -> Option<Vec<u32>> {
            let rows: Vec<u32> = rows_that_count(ids, ignored).collect();
            (room_of(rows.len(), ids.len()) == room).then_some(rows)
        };
        let padded = move |mut values: Vec<u32>, with: u32| {
            values.resize(room, with);
            values
        };
        let places = targets.derive_some([room], move |ids| Some(padded(rows(ids)?, 0)))?;
        let ids = targets.derive_some([room], move |ids| {
            let picked = rows(ids)?.iter().map(|&row| ids[row as usize]).collect();
            Some(padded(picked, ignored))
        })?;
        let share = targets.derive_values(device, [], move |ids| {
            let counted = rows_that_count(ids, ignored).count();
            vec![room as f32 / counted.max(1) as f32]
        })?;
        let (Some(places), Some(ids)) = (places, ids) else {
            unreachable!("the rules apply to the targets that they were made for");
        };
        let settings = CrossEntropy { ignored: Some(ignored), smoothing };
        self.embedding(&places)?.scored_rows(sides, &ids, settings)?.multiply(&share)
    }

    /// The sum of all rows' losses divided by the number of rows, whether they count or not.
    fn scored_rows(
        &self,
        (weight, bias): (&Tensor, Option<&Tensor>),
        targets: &Ids,
        CrossEntropy { ignored, smoothing }: CrossEntropy,
    ) -> Result<Tensor> {
        let (inputs, classes) = (self.shape().last(), weight.shape()[0]);
        let parents: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        ensure_same_device("scored_cross_entropy", parents.iter().copied())?;
        let mut wanted = [false; 3];
        for (wanted, parent) in wanted.iter_mut().zip(&parents) {
            *wanted = parent.is_tracked();
        }
        let sides = (&self.array, &weight.array, bias.map(|bias| &bias.array));
        let targets = Targets { ids: targets, classes, ignored, smoothing };
        let scored = loss::scored_cross_entropy(sides, inputs, targets, wanted)?;
        let ScoredLoss { loss, x, weight, bias } = scored;
        let shapes: Vec<_> = parents.iter().map(|parent| parent.shape().clone()).collect();
        Ok(Tensor::from_array(loss, []).with_rule(&parents, || {
            let gradients = [x, weight, bias];
            move |g: Tensor, inputs: &mut Inputs| {
                for (input, (gradient, shape)) in gradients.iter().zip(&shapes).enumerate() {
                    if let Some(gradient) = gradient {
                        let scaled = broadcast::scale_by(gradient, &g.array)?;
                        inputs.send(input, Tensor::from_array(scaled, shape))?;
                    }
                }
                Ok(())
            }
        }))
    }

    /// Binary cross-entropy of each logit against a target in [0, 1], without overflow for any logit.
    ///
    /// The gradient is (sigmoid(x) − target)·g; targets get none.
    pub fn binary_cross_entropy_rows(&self, targets: &Tensor) -> Result<Tensor> {
        ensure_shape(
            self.shape() == targets.shape(),
            "binary_cross_entropy",
            || format!("targets of {}", self.shape()),
            || targets.shape().to_string(),
        )?;
        ensure_same_device("binary_cross_entropy", [self, targets])?;
        let value = loss::binary_cross_entropy(&self.array, &targets.array)?;
        let (logits, targets) = (self.detach(), targets.detach());
        Ok(Tensor::from_array(value, self.shape()).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let (x, targets) = (&logits.array, &targets.array);
                let gradient = loss::binary_cross_entropy_gradient(x, targets, &g.array)?;
                inputs.send(0, Tensor::from_array(gradient, logits.shape()))
            }
        }))
    }

    /// The mean binary cross-entropy.
    pub fn binary_cross_entropy(&self, targets: &Tensor) -> Result<Tensor> {
        self.binary_cross_entropy_rows(targets)?.mean_all()
    }
}
