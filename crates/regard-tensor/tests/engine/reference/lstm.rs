//! The LSTM, one sequence and one step at a time.

use super::{Array, sigmoid};

/// The weights of one direction: (4·hidden, inputs), (4·hidden, hidden), (4·hidden), gates i, f, g, o.
pub struct Direction<'a> {
    pub input: &'a Array,
    pub hidden: &'a Array,
    pub bias: &'a Array,
}

/// (batch, time, inputs) to (batch, time, directions·hidden); steps beyond a sequence's length are 0.
pub fn lstm(x: &Array, directions: &[Direction], lengths: Option<&[usize]>) -> Array {
    let [batch, time, _] = x.shape[..] else { panic!("sequences") };
    let hidden = directions[0].hidden.width();
    let mut output = Array::from_fn(&[batch, time, directions.len() * hidden], |_| 0.0);
    for example in 0..batch {
        let length = lengths.map_or(time, |lengths| lengths[example]);
        for (number, direction) in directions.iter().enumerate() {
            let (mut h, mut c) = (vec![0.0; hidden], vec![0.0; hidden]);
            for step in 0..length {
                let t = if number == 0 { step } else { length - 1 - step };
                (h, c) = cell(direction, &x.values[(example * time + t) * x.width()..][..x.width()], &h, &c);
                let start = (example * time + t) * directions.len() * hidden + number * hidden;
                output.values[start..start + hidden].copy_from_slice(&h);
            }
        }
    }
    output
}

fn cell(weights: &Direction, x: &[f64], h: &[f64], c: &[f64]) -> (Vec<f64>, Vec<f64>) {
    let hidden = h.len();
    let dot = |row: &[f64], x: &[f64]| row.iter().zip(x).map(|(w, x)| w * x).sum::<f64>();
    let gate = |gate: usize, unit: usize| {
        let row = gate * hidden + unit;
        weights.bias.values[row]
            + dot(&weights.input.values[row * x.len()..][..x.len()], x)
            + dot(&weights.hidden.values[row * hidden..][..hidden], h)
    };
    let cells: Vec<f64> = c
        .iter()
        .enumerate()
        .map(|(u, c)| sigmoid(gate(1, u)) * c + sigmoid(gate(0, u)) * gate(2, u).tanh())
        .collect();
    let states = cells.iter().enumerate().map(|(u, c)| sigmoid(gate(3, u)) * c.tanh()).collect();
    (states, cells)
}
