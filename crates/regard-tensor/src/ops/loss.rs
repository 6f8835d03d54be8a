//! Losses: cross-entropy over classes, and binary cross-entropy on logits.

use crate::error::{Error, Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::broadcast;
use crate::kernels::loss::{self, ScoredLoss, Targets};
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
        if targets.are_known_below(classes) {
            return Ok(());
        }
        let wrong = |id: &&u32| **id as usize >= classes && ignored != Some(**id);
        match targets.values().iter().find(wrong) {
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
        let counted = targets.count_without(settings.ignored);
        self.cross_entropy_rows(targets, settings)?.sum_all()?.scale(1.0 / counted.max(1) as f32)
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
        let counts = |id: &u32| ignored != Some(*id);
        if targets.count_without(ignored) < targets.count() {
            // Rows that do not count need not be scored.
            let rows = targets.values().iter().zip(0_u32..).filter(|(id, _)| counts(id));
            let (ids, rows): (Vec<u32>, Vec<u32>) = rows.unzip();
            let flat = self.reshape([self.shape().rows(), inputs])?;
            let picked = flat.embedding(&Ids::new(&rows, [rows.len()])?)?;
            let targets = Ids::new(&ids, [ids.len()])?;
            return picked.scored_cross_entropy(
                weight,
                bias,
                &targets,
                CrossEntropy { ignored: None, smoothing },
            );
        }
        let parents: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        ensure_same_device("scored_cross_entropy", parents.iter().copied())?;
        let mut wanted = [false; 3];
        for (wanted, parent) in wanted.iter_mut().zip(&parents) {
            *wanted = parent.is_tracked();
        }
        let sides = (&self.array, &weight.array, bias.map(|bias| &bias.array));
        let targets = Targets { ids: targets, classes, ignored: None, smoothing };
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
