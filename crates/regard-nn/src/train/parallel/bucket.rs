//! Buckets of gradients, and the slice of each that this rank sums.

use super::Group;
use super::apart::Slice;
use super::message::{Kind, Reader, put_floats, put_rows};
use crate::error::{Error, Result};
use regard_tensor::{Gradient, Shape, Tensor};
use std::ops::Range;

/// The number of values after which a bucket is full: large enough that a message is worth sending, small enough that
/// the first ones leave early.
const FULL: usize = 1 << 20;

/// Parameters whose gradients travel together.
pub(super) struct Bucket {
    /// Their numbers in the model.
    pub parameters: Vec<usize>,
    pub(super) shapes: Vec<Shape>,
}

impl Bucket {
    /// Divides parameters into buckets, in the order given.
    pub fn fill(order: &[usize], shapes: &[Shape]) -> Vec<Self> {
        let mut buckets: Vec<Self> = Vec::new();
        let mut values = FULL;
        for &index in order {
            if values >= FULL {
                buckets.push(Self { parameters: Vec::new(), shapes: Vec::new() });
                values = 0;
            }
            if let Some(bucket) = buckets.last_mut() {
                values += shapes[index].count();
                bucket.parameters.push(index);
                bucket.shapes.push(shapes[index].clone());
            }
        }
        buckets
    }

    /// For each parameter, the part of its values that belongs to a rank's slice of the bucket.
    fn portions(&self, rank: usize, ranks: usize) -> Vec<Range<usize>> {
        let all: usize = self.shapes.iter().map(Shape::count).sum();
        let (start, end) = (all * rank / ranks, all * (rank + 1) / ranks);
        let mut offset = 0;
        let portion = |shape: &Shape| {
            let first = offset;
            offset += shape.count();
            start.clamp(first, offset) - first..end.clamp(first, offset) - first
        };
        self.shapes.iter().map(portion).collect()
    }
}

/// The sum of a bucket's gradients so far: of dense ones this rank's slice, of sparse ones everything.
pub(super) struct Total<'a> {
    pub(super) bucket: &'a Bucket,
    /// Each rank's portions.
    pub(super) portions: Vec<Vec<Range<usize>>>,
    pub(super) rank: usize,
    dense: Vec<Option<Vec<f32>>>,
    rows: Vec<Option<Gradient>>,
    /// Slices that are summed on the device.
    pub(super) apart: Vec<Slice>,
}

impl<'a> Total<'a> {
    pub fn new(bucket: &'a Bucket, group: &dyn Group) -> Self {
        let portions = (0..group.ranks()).map(|rank| bucket.portions(rank, group.ranks())).collect();
        let count = bucket.parameters.len();
        let rows = std::iter::repeat_with(|| None).take(count).collect();
        let apart = std::iter::repeat_with(Slice::default).take(count).collect();
        Self { bucket, portions, rank: group.rank(), dense: vec![None; count], rows, apart }
    }

    /// What goes to each rank: its slice of dense gradients, unless they travel apart, and all sparse ones.
    pub fn pieces(&self, gradients: &[Option<Gradient>], apart: bool) -> Vec<Vec<u8>> {
        let mut pieces = vec![Vec::new(); self.portions.len()];
        for (number, gradient) in gradients.iter().enumerate() {
            let kind = Kind::of(gradient.as_ref(), apart);
            // Once for all ranks: a gradient on a GPU is copied here.
            let values = match gradient {
                Some(Gradient::Dense(tensor)) if !apart => Some(tensor.values()),
                _ => None,
            };
            for (piece, portions) in pieces.iter_mut().zip(&self.portions) {
                piece.push(kind as u8);
                match (gradient, &values) {
                    (Some(Gradient::Rows(rows)), _) => put_rows(piece, rows),
                    (_, Some(values)) => put_floats(piece, &values[portions[number].clone()]),
                    _ => {}
                }
            }
        }
        pieces
    }

    /// Adds what the ranks sent, in their order. Which ranks send the values of which gradients apart.
    pub fn add(&mut self, messages: &[Vec<u8>]) -> Result<Vec<(usize, usize)>> {
        let mut apart = Vec::new();
        for (rank, message) in messages.iter().enumerate() {
            let mut reader = Reader(message);
            for number in 0..self.bucket.parameters.len() {
                match reader.kind()? {
                    Kind::Absent => {}
                    Kind::Apart => {
                        self.apart[number].is_there = true;
                        apart.push((rank, number));
                    }
                    Kind::Dense => {
                        let values = reader.floats(self.portions[self.rank][number].len())?;
                        match &mut self.dense[number] {
                            Some(total) => {
                                total.iter_mut().zip(values).for_each(|(total, value)| *total += value);
                            }
                            none => *none = Some(values.collect()),
                        }
                    }
                    Kind::Rows => {
                        let shape = &self.bucket.shapes[number];
                        let rows = reader.rows((shape[0], shape.last()))?;
                        self.rows[number] = Some(match self.rows[number].take() {
                            Some(total) => total.plus(rows)?,
                            None => rows,
                        });
                    }
                }
                let (dense, rows) = (self.dense[number].is_some(), self.rows[number].is_some());
                if usize::from(dense) + usize::from(rows) + usize::from(self.apart[number].is_there) > 1 {
                    let problem =
                        "a gradient is sparse or on a GPU on some ranks, and dense in main memory on others";
                    return Err(Error::input("ranks", problem));
                }
            }
        }
        Ok(apart)
    }

    /// This rank's slice of the sum, as a message.
    pub fn slice(&self) -> Vec<u8> {
        let mut message = Vec::new();
        for values in &self.dense {
            message.push(if values.is_some() { Kind::Dense } else { Kind::Absent } as u8);
            put_floats(&mut message, values.as_deref().unwrap_or_default());
        }
        message
    }

    /// The whole sum, from the slices of all ranks.
    pub fn whole(&mut self, slices: &[Vec<u8>]) -> Result<Vec<Option<Gradient>>> {
        let shapes = &self.bucket.shapes;
        let mut values: Vec<Option<Vec<f32>>> = self
            .dense
            .iter()
            .zip(shapes)
            .map(|(dense, shape)| dense.as_ref().map(|_| Vec::with_capacity(shape.count())))
            .collect();
        for (slice, portions) in slices.iter().zip(&self.portions) {
            let mut reader = Reader(slice);
            for (values, portion) in values.iter_mut().zip(portions) {
                if let (Kind::Dense, Some(values)) = (reader.kind()?, values) {
                    values.extend(reader.floats(portion.len())?);
                }
            }
        }
        let rows = std::mem::take(&mut self.rows);
        let gradients = values.into_iter().zip(rows).zip(shapes).map(|((dense, rows), shape)| match dense {
            Some(values) => Ok(Some(Gradient::Dense(Tensor::new(&values, shape.clone())?))),
            None => Ok(rows),
        });
        gradients.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn portions_cover_every_value_once() {
        let shapes: Vec<Shape> = vec![[3, 5].into(), [1].into(), [0].into(), [7].into()];
        let buckets = Bucket::fill(&[3, 2, 1, 0], &shapes);
        assert_eq!(buckets.len(), 1);
        for ranks in 1..9 {
            let mut next = [0; 4];
            for rank in 0..ranks {
                for (next, portion) in next.iter_mut().zip(buckets[0].portions(rank, ranks)) {
                    assert!(portion.is_empty() || portion.start == *next, "{ranks} ranks");
                    *next = portion.end.max(*next);
                }
            }
            assert_eq!(next, [7, 0, 1, 15], "{ranks} ranks");
        }
    }

    #[test]
    fn a_bucket_is_full_at_a_million_values() {
        let shapes: Vec<Shape> = vec![[FULL].into(), [1].into(), [FULL - 1].into(), [1].into()];
        let buckets = Bucket::fill(&[0, 1, 2, 3], &shapes);
        assert_eq!(
            buckets.iter().map(|bucket| bucket.parameters.clone()).collect::<Vec<_>>(),
            [vec![0], vec![1, 2], vec![3]]
        );
    }
}
