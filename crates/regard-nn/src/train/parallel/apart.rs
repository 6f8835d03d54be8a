//! Dense gradients that travel between the devices of the ranks, without the host.
//!
//! The same sums in the same order as those of [`Total`] in main memory: each rank receives its slice of every gradient from
//! all ranks, adds them in the order of the ranks, and sends the sum to all.

use super::Devices;
use super::bucket::Total;
use crate::error::{Error, Result};
use regard_tensor::ops::concatenate;
use regard_tensor::{Gradient, Tensor};

/// This rank's slice of the sum of a gradient, on its device.
#[derive(Default)]
pub(super) struct Slice {
    /// Whether any rank sent it this way. The slice of a small gradient may have no values.
    pub is_there: bool,
    sum: Option<Tensor>,
}

impl Total<'_> {
    /// Sends each rank its slice of this rank's gradients, and adds those that other ranks announced: (rank, number), in the order of ranks.
    pub fn add_apart(
        &mut self,
        devices: &dyn Devices,
        gradients: &[Option<Gradient>],
        announced: &[(usize, usize)],
    ) -> Result<()> {
        let mut sent = Vec::new();
        for (number, gradient) in gradients.iter().enumerate() {
            let Some(Gradient::Dense(tensor)) = gradient else { continue };
            let flat = tensor.detach().reshape([tensor.shape().count()])?;
            for (rank, portions) in self.portions.iter().enumerate() {
                let portion = &portions[number];
                if !portion.is_empty() {
                    sent.push((rank, flat.slice(0, portion.start, portion.len())?));
                }
            }
        }
        let mine = &self.portions[self.rank];
        let expected: Vec<(usize, usize)> =
            announced.iter().filter(|(_, number)| !mine[*number].is_empty()).copied().collect();
        let lengths: Vec<(usize, usize)> =
            expected.iter().map(|&(rank, number)| (rank, mine[number].len())).collect();
        let received = exchange(devices, &sent, &lengths)?;
        for ((_, number), values) in expected.into_iter().zip(received) {
            let slice = &mut self.apart[number];
            slice.sum = Some(match slice.sum.take() {
                Some(sum) => sum.add(&values)?,
                None => values,
            });
        }
        Ok(())
    }

    /// The whole sums, from the slices of all ranks, beside those that are there already.
    pub fn whole_apart(&mut self, devices: &dyn Devices, sums: &mut [Option<Gradient>]) -> Result<()> {
        let numbers: Vec<usize> =
            (0..self.apart.len()).filter(|&number| self.apart[number].is_there).collect();
        let (mut sent, mut lengths) = (Vec::new(), Vec::new());
        for (rank, portions) in self.portions.iter().enumerate() {
            for &number in &numbers {
                sent.extend(self.apart[number].sum.as_ref().map(|sum| (rank, sum.clone())));
                if !portions[number].is_empty() {
                    lengths.push((rank, portions[number].len()));
                }
            }
        }
        let mut received = exchange(devices, &sent, &lengths)?.into_iter();
        let mut parts: Vec<Vec<Tensor>> = numbers.iter().map(|_| Vec::new()).collect();
        for portions in &self.portions {
            for (parts, &number) in parts.iter_mut().zip(&numbers) {
                if !portions[number].is_empty() {
                    parts.extend(received.next());
                }
            }
        }
        for (parts, number) in parts.iter().zip(numbers) {
            let whole = concatenate(&parts.iter().collect::<Vec<_>>(), 0)?;
            sums[number] = Some(Gradient::Dense(whole.reshape(self.bucket.shapes[number].clone())?));
        }
        Ok(())
    }
}

/// An exchange that has something to do on this rank. One without anything to send has nothing to receive from ranks that
/// would wait for it.
fn exchange(
    devices: &dyn Devices,
    sent: &[(usize, Tensor)],
    lengths: &[(usize, usize)],
) -> Result<Vec<Tensor>> {
    if sent.is_empty() && lengths.is_empty() {
        return Ok(Vec::new());
    }
    let received = devices.exchange(sent, lengths)?;
    let fits = received.iter().zip(lengths).all(|(tensor, (_, length))| tensor.shape().count() == *length);
    match fits && received.len() == lengths.len() {
        true => Ok(received),
        false => Err(Error::input("ranks", "the devices received other values than announced")),
    }
}
