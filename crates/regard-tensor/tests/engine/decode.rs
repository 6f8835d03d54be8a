//! The step of a generation: one new token over a cache.

use crate::device;
use regard_tensor::ops::{Attention, Decoding, Projections, attend, decode};
use regard_tensor::random::Key;
use regard_tensor::{Ids, Shape, Tensor};

fn draw(name: &str, shape: impl Into<Shape>) -> Tensor {
    let shape = shape.into();
    device::new(&Key::new(3).site(name).normal(shape.count(), 1.0), shape).unwrap()
}

/// Appends tokens one by one and compares each with attention over all so far.
fn follows(name: &str, [batch, heads, kv_heads, width]: [usize; 4], soft_cap: Option<f32>, sink: bool) {
    let (room, first, tokens) = (150, 61, 8);
    let sink = sink.then(|| draw(&format!("{name} sink"), [heads]));
    let scale = (width as f32).sqrt().recip();
    let how = Decoding { scale, soft_cap, sink: sink.clone() };
    let attention = Attention { soft_cap, sink, ..Attention::scaled(scale) };
    let new = |what: &str, step: usize, heads: usize| {
        draw(&format!("{name} {what} {step}"), [batch, 1, heads, width])
    };
    let [mut keys, mut values] =
        ["keys", "values"].map(|what| draw(&format!("{name} {what}"), [batch, room, kv_heads, width]));
    for step in 0..tokens {
        let length = first + step;
        let (query, key, value) =
            (new("query", step, heads), new("key", step, kv_heads), new("value", step, kv_heads));
        let at = Ids::new(&vec![length as u32; batch], [batch, 1]).unwrap();
        let got = decode([&query, &key, &value], [&mut keys, &mut values], &at, &how).unwrap();
        let row = |cache: &Tensor| cache.slice(1, length, 1).unwrap().to_vec();
        assert_eq!((row(&keys), row(&values)), (key.to_vec(), value.to_vec()), "{name}, step {step}");
        let all = Projections::Cached { query: &query, key: &keys, value: &values, length: length + 1 };
        let expected = attend(all, &attention).unwrap().output;
        assert_eq!(got.shape(), expected.shape());
        for (got, expected) in got.to_vec().iter().zip(expected.to_vec()) {
            assert!((got - expected).abs() < 1e-5, "{name}, step {step}: {got}, not {expected}");
        }
    }
}

#[test]
fn a_new_token_attends_as_the_last_row_of_the_whole_text() {
    follows("one head", [1, 1, 1, 8], None, false);
    follows("heads and texts", [3, 4, 4, 64], None, false);
    follows("groups", [2, 6, 2, 16], None, false);
    follows("a soft cap and sinks", [2, 4, 1, 128], Some(2.0), true);
    follows("wide heads", [1, 2, 2, 256], None, true);
}

#[test]
fn texts_of_a_batch_may_stand_at_different_places() {
    let [mut keys, mut values] = ["k", "v"].map(|what| draw(what, [2, 70, 1, 8]));
    let [query, key, value] = ["query", "key", "value"].map(|what| draw(what, [2, 1, 1, 8]));
    let at = Ids::new(&[0, 69], [2, 1]).unwrap();
    let how = Decoding { scale: 1.0, ..Decoding::default() };
    let got = decode([&query, &key, &value], [&mut keys, &mut values], &at, &how).unwrap().to_vec();
    // The first text has one token, whose value is the output.
    assert_eq!(got[..8], value.to_vec()[..8]);
    let second = |x: &Tensor| x.slice(0, 1, 1).unwrap();
    let (query, keys, values) = (second(&query), second(&keys), second(&values));
    let all = Projections::Separate { query: &query, key: &keys, value: &values };
    let expected = attend(all, &Attention::scaled(1.0)).unwrap().output.to_vec();
    assert!(got[8..].iter().zip(expected).all(|(got, expected)| (got - expected).abs() < 1e-5));
}

#[test]
fn what_does_not_fit_is_rejected() {
    let cache = || draw("cache", [1, 4, 1, 8]);
    let new = draw("new", [1, 1, 1, 8]);
    let how = Decoding { scale: 1.0, ..Decoding::default() };
    let attempt = |new: &Tensor, at: &[u32], how: &Decoding| {
        let (mut keys, mut values) = (cache(), cache());
        let at = Ids::new(at, [at.len(), 1]).unwrap();
        decode([new, new, new], [&mut keys, &mut values], &at, how).map_err(|error| error.to_string())
    };
    assert!(attempt(&new, &[3], &how).is_ok());
    assert!(attempt(&new, &[4], &how).unwrap_err().contains('4'));
    assert!(attempt(&new, &[0, 0], &how).is_err());
    assert!(attempt(&new.slice(3, 0, 4).unwrap(), &[0], &how).is_err());
    assert!(attempt(&new, &[0], &Decoding { scale: f32::NAN, ..how.clone() }).is_err());
    assert!(attempt(&new, &[0], &Decoding { sink: Some(draw("sink", [2])), ..how.clone() }).is_err());
    assert!(attempt(&new.clone().tracked(), &[0], &how).is_err());
}
