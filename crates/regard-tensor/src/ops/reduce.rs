//! Sum, mean, maximum and where it is, over one axis or over everything.

use super::layout::{with_length, without};
use crate::error::{Result, ensure_shape};
use crate::ids::Ids;
use crate::kernels::{broadcast, reduce};
use crate::tape::Inputs;
use crate::tensor::Tensor;

impl Tensor {
    /// The sum along an axis (counted from the end if negative), which disappears. Its gradient is g for each term.
    pub fn sum(&self, axis: isize) -> Result<Tensor> {
        let axis = self.shape().axis("sum", axis)?;
        let shape = self.shape().clone();
        let value = reduce::sum(&self.array, shape.around(axis))?;
        Ok(Tensor::from_array(value, without(&shape, axis)).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let gradient = broadcast::expand(&g.array, &with_length(&shape, axis, 1), &shape)?;
                inputs.send(0, Tensor::from_array(gradient, &shape))
            }
        }))
    }

    /// The mean along an axis, which disappears.
    pub fn mean(&self, axis: isize) -> Result<Tensor> {
        let length = self.shape()[self.shape().axis("mean", axis)?];
        ensure_shape(length > 0, "mean", || "at least one value".into(), || self.shape().to_string())?;
        self.sum(axis)?.scale(1.0 / length as f32)
    }

    /// The sum of all values.
    pub fn sum_all(&self) -> Result<Tensor> {
        self.reshape([self.count()])?.sum(0)
    }

    /// The mean of all values.
    pub fn mean_all(&self) -> Result<Tensor> {
        self.reshape([self.count()])?.mean(0)
    }

    /// The largest value along an axis, which disappears, and its place. The gradient goes to that place: the first
    /// of equals.
    pub fn max(&self, axis: isize) -> Result<(Tensor, Ids)> {
        let axis = self.shape().axis("max", axis)?;
        let around = self.shape().around(axis);
        ensure_shape(around.1 > 0, "max", || "at least one value".into(), || self.shape().to_string())?;
        let (value, places) = reduce::max(&self.array, around)?;
        let shape = without(self.shape(), axis);
        let places = places.reshape(&shape)?;
        let (saved, full) = (places.clone(), self.shape().clone());
        let value = Tensor::from_array(value, shape).with_rule(&[self], || {
            move |g: Tensor, inputs: &mut Inputs| {
                let gradient = reduce::scatter(&g.array, &saved, around)?;
                inputs.send(0, Tensor::from_array(gradient, &full))
            }
        });
        Ok((value, places))
    }

    /// The place of the largest value along an axis, which disappears.
    pub fn argmax(&self, axis: isize) -> Result<Ids> {
        Ok(self.detach().max(axis)?.1)
    }

    /// Each of the last axis's values summed over all others: the gradient of a bias.
    pub fn sum_rows(&self) -> Result<Tensor> {
        self.reshape([self.shape().rows(), self.shape().last()])?.sum(0)
    }
}
