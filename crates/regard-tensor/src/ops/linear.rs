//! y = f(x·W + b), the layer that most of a transformer's time goes to.

use crate::error::{Result, ensure_shape};
use crate::kernels::linear::{self, Layout, Sizes};
use crate::kernels::pointwise::Function;
use crate::tape::Inputs;
use crate::tensor::{Tensor, ensure_same_device};

impl Tensor {
    /// x·W + b over the last axis, with an optional function of the result.
    ///
    /// With dz = f′·g: dx = dz·Wᵀ, dW = xᵀ·dz, db = Σ dz over the rows.
    ///
    /// ```
    /// use regard_tensor::{Tensor, ops::{Function, Layout}};
    /// let x = Tensor::new(&[1.0, -2.0], [1, 2])?;
    /// let weight = Tensor::new(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], [3, 2])?; // three outputs, two inputs
    /// let y = x.linear(&weight, None, Layout::OutIn, Some(Function::Relu))?;
    /// assert_eq!(y.to_vec(), [1.0, 0.0, 0.0]);
    /// # Ok::<(), regard_tensor::Error>(())
    /// ```
    pub fn linear(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        layout: Layout,
        function: Option<Function>,
    ) -> Result<Tensor> {
        let inputs = self.shape().last();
        let (first, second) = match layout {
            Layout::InOut => (weight.shape().nth_last(1), weight.shape().nth_last(0)),
            Layout::OutIn => (weight.shape().nth_last(0), weight.shape().nth_last(1)),
        };
        ensure_shape(
            self.shape().rank() >= 1 && weight.shape().rank() == 2 && first == inputs,
            "linear",
            || format!("a {layout:?} weight for {inputs} inputs"),
            || weight.shape().to_string(),
        )?;
        let outputs = second;
        if let Some(bias) = bias {
            let fits = bias.shape().rank() == 1 && bias.count() == outputs;
            ensure_shape(fits, "linear", || format!("a bias of [{outputs}]"), || bias.shape().to_string())?;
        }
        let parents: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        ensure_same_device("linear", parents.iter().copied())?;
        let sizes = Sizes { rows: self.shape().rows(), inputs, outputs, layout };
        let (value, saved) =
            linear::forward(sizes, &self.array, &weight.array, bias.map(|bias| &bias.array), function)?;
        let mut shape = self.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let (x, w) = (self.detach(), weight.detach());
        Ok(Tensor::from_array(value, shape).with_rule(&parents, || {
            move |g: Tensor, inputs: &mut Inputs| {
                let (dz, db) =
                    linear::before_function(sizes, function, saved.as_ref(), &g.array, inputs.wants(2))?;
                if inputs.wants(0) {
                    let total = inputs.take(0);
                    let dx = linear::input_gradient(sizes, &w.array, &dz, total)?;
                    inputs.send(0, Tensor::from_array(dx, x.shape()))?;
                }
                if inputs.wants(1) {
                    let total = inputs.take(1);
                    let dw = linear::weight_gradient(sizes, &x.array, &dz, total)?;
                    inputs.send(1, Tensor::from_array(dw, w.shape()))?;
                }
                match db {
                    Some(db) => inputs.send(2, Tensor::from_array(db, [sizes.outputs])),
                    None => Ok(()),
                }
            }
        }))
    }
}
