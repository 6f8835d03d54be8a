//! Losses: cross-entropy over classes, and binary cross-entropy on logits.

use crate::array::Array;
use crate::cpu::loss::{self, Targets};
use crate::error::{Error, Result, ensure_shape};
use crate::ids::Ids;
use crate::tape::Gradient;
use crate::tensor::Tensor;

/// Settings of the cross-entropy.
#[derive(Debug, Clone, Copy, Default)]
pub struct CrossEntropy {
    /// Rows with this target do not count.
    pub ignored: Option<u32>,
    /// The share of the target's probability that is spread evenly over all classes.
    pub smoothing: f32,
}

impl Tensor {
    /// `−ln softmax(x)[target]`, the mean over the rows that count (0 if none does). Logits are (…, classes).
    ///
    /// ```
    /// use saccade_tensor::{Ids, Tensor};
    /// let logits = Tensor::zeros([3, 4]);
    /// let loss = logits.cross_entropy(&Ids::new(&[0, 1, 2], [3])?, Default::default())?;
    /// assert!((loss.item()? - 4.0_f32.ln()).abs() < 1e-6);
    /// # Ok::<(), saccade_tensor::Error>(())
    /// ```
    pub fn cross_entropy(&self, targets: &Ids, settings: CrossEntropy) -> Result<Tensor> {
        let counted = targets.values().iter().filter(|&&id| settings.ignored != Some(id)).count();
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
            self.shape().rank() >= 1 && self.shape().rows() == targets.values().len(),
            "cross_entropy",
            || format!("a target for each of {} rows", self.shape().rows()),
            || targets.shape().to_string(),
        )?;
        if !(0.0..1.0).contains(&smoothing) {
            return Err(Error::setting("cross_entropy", "smoothing", "at least 0 and below 1", smoothing));
        }
        if let Some(&id) = targets.values().iter().find(|&&id| id as usize >= classes && ignored != Some(id))
        {
            return Err(Error::OutOfRange {
                operation: "cross_entropy",
                what: "target",
                index: id as usize,
                limit: classes,
            });
        }
        let (losses, lse) =
            loss::cross_entropy(&self.array, Targets { ids: targets.values(), classes, ignored, smoothing });
        let (logits, ids) = (self.detach(), targets.clone());
        Ok(Tensor::from_array(losses, targets.shape()).with_rule(&[self], || {
            move |g: Tensor, _: &[bool]| {
                let targets = Targets { ids: ids.values(), classes, ignored, smoothing };
                let gradient = loss::cross_entropy_gradient(&logits.array, &lse, targets, &g.array);
                Ok(vec![Some(Gradient::Dense(Tensor::from_array(gradient, logits.shape())))])
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
        let value: Array = loss::binary_cross_entropy(&self.array, &targets.array);
        let (logits, targets) = (self.detach(), targets.detach());
        Ok(Tensor::from_array(value, self.shape()).with_rule(&[self], || {
            move |g: Tensor, _: &[bool]| {
                let gradient = loss::binary_cross_entropy_gradient(&logits.array, &targets.array, &g.array);
                Ok(vec![Some(Gradient::Dense(Tensor::from_array(gradient, logits.shape())))])
            }
        }))
    }

    /// The mean binary cross-entropy.
    pub fn binary_cross_entropy(&self, targets: &Tensor) -> Result<Tensor> {
        self.binary_cross_entropy_rows(targets)?.mean_all()
    }
}
