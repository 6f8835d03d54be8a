//! y = f(x·W + b), the layer that most of a transformer's time goes to.

use crate::cpu::linear::{self, Layout, Sizes};
use crate::cpu::pointwise::Function;
use crate::error::{Result, ensure_shape};
use crate::tape::Gradient;
use crate::tensor::Tensor;

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
        let sizes = Sizes { rows: self.shape().rows(), inputs, outputs, layout };
        let (value, saved) =
            linear::forward(sizes, &self.array, &weight.array, bias.map(|bias| &bias.array), function);
        let mut shape = self.shape().to_vec();
        if let Some(last) = shape.last_mut() {
            *last = outputs;
        }
        let (x, w) = (self.detach(), weight.detach());
        let parents: Vec<&Tensor> = [self, weight].into_iter().chain(bias).collect();
        Ok(Tensor::from_array(value, shape).with_rule(&parents, || {
            move |g: Tensor, wanted: &[bool]| {
                let wants_bias = wanted.get(2) == Some(&true);
                let rows_columns = (sizes.rows, sizes.outputs);
                let (dz, db) =
                    linear::before_function(function, saved.as_ref(), &g.array, rows_columns, wants_bias);
                let dx = wanted[0].then(|| {
                    Tensor::from_array(linear::input_gradient(sizes, &w.array, &dz), x.shape()).into()
                });
                let dw = wanted[1].then(|| {
                    Tensor::from_array(linear::weight_gradient(sizes, &x.array, &dz), w.shape()).into()
                });
                let mut gradients = vec![dx, dw];
                if wanted.len() == 3 {
                    gradients.push(db.map(|db| Gradient::Dense(Tensor::from_array(db, [sizes.outputs]))));
                }
                Ok(gradients)
            }
        }))
    }
}
