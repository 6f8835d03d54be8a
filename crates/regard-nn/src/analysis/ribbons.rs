//! Ribbons: through which positions of which layers the influence on a position runs.
//!
//! An attribution that multiplies a matrix Mₗ for each layer is a sum over paths through the layers. The share of the paths that
//! pass from position j before layer l to position i after it is
//!
//! ```text
//! above_l[i] · M_l[i, j] · below_{l−1}[j]  /  total        above: products of the layers above, row of the position
//!                                                          below: row sums of the products of the layers below
//! ```
//!
//! The shares of a layer sum to 1, what enters a position leaves it, and those that reach the inputs are the attribution's.
//! With M = ½(A + I) that is rollout, with M = I + Ḡ gradient × attention (see [`super::influence`]). Attention flow is a sum of
//! maximum flows, one for each input; of several maximum flows between the same positions, the one found first is taken.

use super::flow::Network;
use super::influence::with_residual;
use crate::error::{Error, Result};
use regard_tensor::Tensor;

/// The ribbons of each layer, (time, time): row i is a position after the layer, column j one before it.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Ribbons {
    /// The number of positions.
    pub time: usize,
    /// Layer by layer, the share of what passes from each position to each. Those of a layer sum to 1.
    pub layers: Vec<Vec<f64>>,
}

impl Ribbons {
    /// The share of each position before a layer; before the first, that of each input.
    pub fn before(&self, layer: usize) -> Vec<f64> {
        let mut sums = vec![0.0; self.time];
        for row in self.layers.get(layer).map(Vec::as_slice).unwrap_or_default().chunks(self.time.max(1)) {
            sums.iter_mut().zip(row).for_each(|(sum, share)| *sum += share);
        }
        sums
    }
}

fn checked(layers: &[Tensor], position: usize) -> Result<usize> {
    let time = layers.first().map_or(0, |layer| layer.shape().last());
    if position >= time || layers.iter().any(|layer| layer.shape()[..] != [time, time]) {
        let problem = format!(
            "position {position} needs square matrices of equal size for more than {position} tokens"
        );
        return Err(Error::input("ribbons", problem));
    }
    Ok(time)
}

/// The ribbons of a product of matrices, one for each layer, to a position after the last. The matrices have the residual
/// connection in them.
pub fn path_ribbons(mixing: &[Tensor], position: usize) -> Result<Ribbons> {
    let time = checked(mixing, position)?;
    let matrices: Vec<Vec<f32>> = mixing.iter().map(Tensor::to_vec).collect();
    let value = |matrix: &[f32], i: usize, j: usize| f64::from(matrix[i * time + j]);
    let mut below = vec![vec![1.0; time]];
    for matrix in &matrices {
        let last = &below[below.len() - 1];
        let sum = |i: usize| (0..time).map(|j| value(matrix, i, j) * last[j]).sum();
        let next = (0..time).map(sum).collect();
        below.push(next);
    }
    let total = below[matrices.len()][position];
    if !(total.is_finite() && total > 0.0) {
        return Err(Error::input("ribbons", format!("nothing reaches position {position}")));
    }
    let mut above = vec![0.0; time];
    above[position] = 1.0;
    let mut layers = Vec::with_capacity(matrices.len());
    for (matrix, below) in matrices.iter().zip(&below).rev() {
        let cell = |at: usize| {
            let (i, j) = (at / time, at % time);
            above[i] * value(matrix, i, j) * below[j] / total
        };
        layers.push((0..time * time).map(cell).collect());
        above = (0..time).map(|j| (0..time).map(|i| above[i] * value(matrix, i, j)).sum()).collect();
    }
    layers.reverse();
    Ok(Ribbons { time, layers })
}

/// The ribbons of attention flow to a position: the sum of the maximum flows from each input, relative to their total. The
/// weights of each layer are given without the residual connection.
pub fn flow_ribbons(attentions: &[Tensor], position: usize) -> Result<Ribbons> {
    let time = checked(attentions, position)?;
    let mut network = Network::new((attentions.len() + 1) * time);
    let mut places = Vec::new();
    for (layer, attention) in attentions.iter().enumerate() {
        for (at, &capacity) in with_residual(attention)?.to_vec().iter().enumerate() {
            let (query, key) = (at / time, at % time);
            let capacity = f64::from(capacity);
            if capacity > 0.0 && capacity.is_finite() {
                network.add(layer * time + key, (layer + 1) * time + query, capacity);
                places.push((layer, at));
            }
        }
    }
    let sink = attentions.len() * time + position;
    let mut layers = vec![vec![0.0; time * time]; attentions.len()];
    let mut total = 0.0;
    for input in 0..time {
        let (value, flows) = network.maximum_flows(input, sink);
        total += value;
        for (&(layer, at), flow) in places.iter().zip(flows) {
            layers[layer][at] += flow;
        }
    }
    if total > 0.0 {
        layers.iter_mut().flatten().for_each(|flow| *flow /= total);
    }
    Ok(Ribbons { time, layers })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::influence::{flow, rollout};

    /// Two layers of three positions, causal.
    fn attentions() -> Vec<Tensor> {
        let first = [1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.25, 0.5, 0.25];
        let second = [1.0, 0.0, 0.0, 0.25, 0.75, 0.0, 0.0, 0.75, 0.25];
        [first, second].iter().map(|values| Tensor::new(values, [3, 3]).unwrap()).collect()
    }

    fn ensure_conserved(ribbons: &Ribbons, position: usize) {
        let mut after = vec![0.0; ribbons.time];
        after[position] = 1.0;
        for (number, layer) in ribbons.layers.iter().enumerate().rev() {
            for (i, row) in layer.chunks(ribbons.time).enumerate() {
                assert!((row.iter().sum::<f64>() - after[i]).abs() < 1e-6, "layer {number}, position {i}");
            }
            after = ribbons.before(number);
        }
    }

    #[test]
    fn ribbons_of_rollout_end_at_rollout() {
        let layers = attentions();
        let mixing: Vec<Tensor> = layers.iter().map(|layer| with_residual(layer).unwrap()).collect();
        let rolled = rollout(&layers).unwrap()[1].to_vec();
        for position in 0..3 {
            let ribbons = path_ribbons(&mixing, position).unwrap();
            ensure_conserved(&ribbons, position);
            for (share, expected) in ribbons.before(0).iter().zip(&rolled[position * 3..]) {
                assert!((share - f64::from(*expected)).abs() < 1e-6);
            }
        }
        // By hand: position 2 keeps ½ + ½·¼ of itself in the second layer.
        let ribbons = path_ribbons(&mixing, 2).unwrap();
        assert!((ribbons.layers[1][8] - 0.625).abs() < 1e-6 && (ribbons.layers[1][7] - 0.375).abs() < 1e-6);
        assert!(path_ribbons(&mixing, 3).is_err() && path_ribbons(&[], 0).is_err());
    }

    #[test]
    fn ribbons_of_flow_end_at_the_maximum_flows() {
        let layers = attentions();
        let flows = flow(&layers, 2).unwrap();
        let total: f64 = flows.iter().sum();
        let ribbons = flow_ribbons(&layers, 2).unwrap();
        ensure_conserved(&ribbons, 2);
        for (share, flow) in ribbons.before(0).iter().zip(&flows) {
            assert!((share - flow / total).abs() < 1e-9);
        }
    }
}
