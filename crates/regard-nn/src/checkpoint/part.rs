//! A parameter of ours that is a part of a larger tensor of theirs: fused projections, stacked experts.

use crate::models::form::{Attention, Form};
use std::ops::Range;

/// Which entries of a tensor of theirs are one of our parameters, in the order in which we have them.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Part {
    /// The shape of their tensor.
    pub shape: Vec<usize>,
    /// The axes along which it is cut, each with what is kept of it; together they hold as much as the shape.
    pub axes: Vec<(usize, Kept)>,
}

/// What is kept of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kept {
    /// Everything.
    All,
    /// Some entries.
    Some(Range<usize>),
    /// The entry that a `#` of our name counts, the first being 0.
    Number(usize),
}

impl Part {
    /// The axes that decide where runs of neighbouring entries begin, with what is kept of each, for a name with these
    /// numbers; and the length of one entry of the last: further axes are kept as a whole.
    fn cut(&self, numbers: &[usize]) -> (Vec<(usize, Range<usize>)>, usize) {
        let whole = self.axes.iter().rev().take_while(|(_, kept)| *kept == Kept::All).count();
        let (outer, inner) = self.axes.split_at(self.axes.len() - whole);
        let range = |(length, kept): &(usize, Kept)| match kept {
            Kept::All => (*length, 0..*length),
            Kept::Some(range) => (*length, range.clone()),
            Kept::Number(which) => {
                let number = numbers.get(*which).copied().unwrap_or(usize::MAX);
                (*length, number..number.saturating_add(1))
            }
        };
        (outer.iter().map(range).collect(), product(inner.iter().map(|(length, _)| *length)))
    }

    /// Where what is kept begins and how long it is, if it lies in one piece.
    pub fn one_run(&self, numbers: &[usize]) -> Option<(usize, usize)> {
        let (axes, inner) = self.cut(numbers);
        let (_, before) = axes.split_last().unwrap_or((&(0, 0..0), &[]));
        if before.iter().any(|(_, kept)| kept.len() != 1) {
            return None;
        }
        let mut run = None;
        each_run(&axes, 0, inner, &mut |first, length| {
            run = Some((first, length));
            Some(())
        });
        run
    }

    /// Copies what is kept out of their values, each of which takes `size` bytes. None if they are too few.
    pub fn take(&self, theirs: &[u8], size: usize, numbers: &[usize]) -> Option<Vec<u8>> {
        let (axes, inner) = self.cut(numbers);
        let kept = product(axes.iter().map(|(_, kept)| kept.len()));
        let count = kept.saturating_mul(inner).saturating_mul(size);
        let mut ours = Vec::with_capacity(count.min(theirs.len()));
        each_run(&axes, 0, inner, &mut |first, length| {
            let end = first.checked_add(length)?.checked_mul(size)?;
            ours.extend_from_slice(theirs.get(first.checked_mul(size)?..end)?);
            Some(())
        })?;
        Some(ours)
    }

    /// Copies our values to where they lie in theirs.
    pub fn put(&self, theirs: &mut [f32], mut ours: &[f32], numbers: &[usize]) -> Option<()> {
        let (axes, inner) = self.cut(numbers);
        each_run(&axes, 0, inner, &mut |first, length| {
            let (now, rest) = ours.split_at_checked(length)?;
            theirs.get_mut(first..first.checked_add(length)?)?.copy_from_slice(now);
            ours = rest;
            Some(())
        })
    }
}

fn product(lengths: impl Iterator<Item = usize>) -> usize {
    lengths.fold(1, usize::saturating_mul)
}

/// Calls `f` with the first entry and the length of each run of neighbouring entries that are kept, until it gives up.
fn each_run(
    axes: &[(usize, Range<usize>)],
    first: usize,
    inner: usize,
    f: &mut impl FnMut(usize, usize) -> Option<()>,
) -> Option<()> {
    let Some(((_, kept), rest)) = axes.split_first() else { return f(first, inner) };
    let after = product(rest.iter().map(|(length, _)| *length)).saturating_mul(inner);
    let place = |at: usize| first.saturating_add(at.saturating_mul(after));
    if rest.is_empty() {
        return f(place(kept.start), kept.len().saturating_mul(after));
    }
    kept.clone().try_for_each(|at| each_run(rest, place(at), inner, f))
}

/// Queries, keys and values that are one tensor, those of each key-value head side by side: (key-value heads, query heads of
/// each + 2, width). With one query head for each it is GPT-NeoX's, BLOOM's and Falcon's first; with a single key-value head
/// that of multi-query attention.
pub(super) fn side_by_side(form: &Form) -> Vec<(&'static str, Part)> {
    let attention =
        form.decoder.as_ref().and_then(|stack| stack.layers.first()).map(|layer| &layer.attention);
    let Some(Attention { n_heads, n_kv_heads, d_head, .. }) = attention else { return Vec::new() };
    let each = n_heads / n_kv_heads.max(&1) + 2;
    let rows = n_kv_heads.saturating_mul(each).saturating_mul(*d_head);
    let part = |range: Range<usize>, inputs: Option<usize>| Part {
        shape: [rows].into_iter().chain(inputs).collect(),
        axes: [(*n_kv_heads, Kept::All), (each, Kept::Some(range)), (*d_head, Kept::All)]
            .into_iter()
            .chain(inputs.map(|inputs| (inputs, Kept::All)))
            .collect(),
    };
    let width = Some(form.d_model);
    let (query, key, value) = (0..each - 2, each - 2..each - 1, each - 1..each);
    vec![
        ("layers.#.attention.query.weight", part(query.clone(), width)),
        ("layers.#.attention.key.weight", part(key.clone(), width)),
        ("layers.#.attention.value.weight", part(value.clone(), width)),
        ("layers.#.attention.query.bias", part(query, None)),
        ("layers.#.attention.key.bias", part(key, None)),
        ("layers.#.attention.value.bias", part(value, None)),
    ]
}

/// The gate of each feed-forward layer and what it gates as the halves of one tensor, with their biases.
pub(super) fn halves(d_model: usize, d_hidden: usize) -> Vec<(&'static str, Part)> {
    let half = |which: usize, inner: &[usize]| one_of(2, which, &[&[d_hidden], inner].concat());
    vec![
        ("layers.#.ffn.gate.weight", half(0, &[d_model])),
        ("layers.#.ffn.up.weight", half(1, &[d_model])),
        ("layers.#.ffn.gate.bias", half(0, &[])),
        ("layers.#.ffn.up.bias", half(1, &[])),
    ]
}

/// The queries, keys and values of an attention that pools as the thirds of one tensor, with their biases.
pub(super) fn pooler_thirds(d_model: usize) -> Vec<(&'static str, Part)> {
    let third = |which: usize, inner: &[usize]| one_of(3, which, &[&[d_model], inner].concat());
    vec![
        ("attention_pooler.attention.query.weight", third(0, &[d_model])),
        ("attention_pooler.attention.key.weight", third(1, &[d_model])),
        ("attention_pooler.attention.value.weight", third(2, &[d_model])),
        ("attention_pooler.attention.query.bias", third(0, &[])),
        ("attention_pooler.attention.key.bias", third(1, &[])),
        ("attention_pooler.attention.value.bias", third(2, &[])),
    ]
}

/// One of several tensors of a shape that lie one after the other.
fn one_of(count: usize, which: usize, shape: &[usize]) -> Part {
    let rows = shape.first().copied().unwrap_or(1).saturating_mul(count);
    let all = shape.iter().map(|&length| (length, Kept::All));
    Part {
        shape: std::iter::once(rows).chain(shape.iter().skip(1).copied()).collect(),
        axes: std::iter::once((count, Kept::Some(which..which + 1))).chain(all).collect(),
    }
}

/// All of a tensor that has another shape here.
pub(super) fn whole(shape: Vec<usize>) -> Part {
    let axes = shape.iter().map(|&length| (length, Kept::All)).collect();
    Part { shape, axes }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_taken_can_be_put_back() {
        // Two experts of (2, 3·2) values, of which gate and up are neighbours.
        let part = |which: usize| Part {
            shape: vec![2, 2, 6],
            axes: vec![
                (2, Kept::Number(1)),
                (2, Kept::All),
                (3, Kept::All),
                (2, Kept::Some(which..which + 1)),
            ],
        };
        let theirs: Vec<u8> = (0..24).collect();
        assert_eq!(part(0).take(&theirs, 1, &[9, 0]).unwrap(), [0, 2, 4, 6, 8, 10]);
        assert_eq!(part(1).take(&theirs, 1, &[9, 1]).unwrap(), [13, 15, 17, 19, 21, 23]);
        assert_eq!(part(1).take(&theirs, 1, &[9, 2]), None);
        let mut back = vec![0.0; 24];
        for (expert, which) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let ours = part(which).take(&theirs, 1, &[9, expert]).unwrap();
            let ours: Vec<f32> = ours.into_iter().map(f32::from).collect();
            part(which).put(&mut back, &ours, &[9, expert]).unwrap();
        }
        assert_eq!(back, theirs.into_iter().map(f32::from).collect::<Vec<_>>());
    }

    #[test]
    fn neighbouring_entries_are_one_run() {
        let part =
            Part { shape: vec![6, 4], axes: vec![(3, Kept::Some(1..3)), (2, Kept::All), (4, Kept::All)] };
        assert_eq!(part.one_run(&[]), Some((8, 16)));
        let whole = Part { shape: vec![6, 4], axes: vec![(6, Kept::All), (4, Kept::All)] };
        assert_eq!(whole.one_run(&[]), Some((0, 24)));
        // One expert of several, and the queries where a single head has keys and values, are of one piece; of several heads
        // they are not.
        let expert = Part { shape: vec![5, 2, 3], axes: vec![(5, Kept::Number(1)), (6, Kept::All)] };
        assert_eq!(expert.one_run(&[7, 3]), Some((18, 6)));
        let queries = |heads: usize| Part {
            shape: vec![heads * 6, 4],
            axes: vec![(heads, Kept::All), (3, Kept::Some(0..2)), (2, Kept::All), (4, Kept::All)],
        };
        assert_eq!((queries(1).one_run(&[]), queries(2).one_run(&[])), (Some((0, 16)), None));
    }
}
