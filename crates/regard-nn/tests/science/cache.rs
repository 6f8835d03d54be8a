//! With a cache and without, the same comes out.

use crate::causality::gpts;
use crate::golden::agree;
use crate::numbers::{ids, same_bits};
use crate::zoo;
use regard_nn::attention::Cache;
use regard_nn::generate::{Answer, Continue, NextToken};
use regard_nn::models::{Inputs, LlamaConfig, Model, T5Config, Transformer};
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Error, Probe};

const TIME: usize = 12;

/// Some columns of ids (batch, time).
fn columns(ids: &Ids, from: usize, count: usize) -> Ids {
    let time = ids.shape()[1];
    let values: Vec<u32> =
        ids.values().chunks(time).flat_map(|row| row[from..from + count].to_vec()).collect();
    Ids::new(&values, [ids.shape()[0], count]).unwrap()
}

/// Reads a text in pieces of these lengths, and compares with the text at once. The model's scores are asked for in two
/// ways: after every token, and after the last.
fn check(
    what: &str,
    model: &impl NextToken,
    scores: impl Fn(&Context, &Ids) -> Tensor,
    text: &Ids,
    pieces: &[usize],
) {
    let whole = scores(&Context::inference(), text);
    let cache = Cache::new();
    let context = Context::inference().with_cache(&cache);
    let mut from = 0;
    for &length in pieces {
        let found = scores(&context, &columns(text, from, length));
        agree(what, &found, &whole.slice(1, from, length).unwrap(), 1e-5);
        let last = model.next_scores(&Context::inference(), &columns(text, 0, from + length), None).unwrap();
        agree(what, &last, &whole.slice(1, from + length - 1, 1).unwrap(), 1e-5);
        from += length;
        assert_eq!(cache.length(), from);
    }
}

fn llama() -> Transformer {
    Transformer::new(LlamaConfig { context: 200, ..zoo::llama_config() }.form(), 1).unwrap()
}

fn t5(gated: bool) -> Transformer {
    Transformer::new(T5Config { gated, n_decoder_layers: 2, ..zoo::t5_config() }.form(), 1).unwrap()
}

fn forward(model: &dyn Model, context: &Context, ids: &Ids) -> Tensor {
    model.forward(context, &Inputs::ids(ids)).unwrap()
}

/// The same for a model that continues texts.
pub fn check_causal(model: &Transformer, text: &Ids, pieces: &[usize]) {
    let scores = |context: &Context, ids: &Ids| forward(model, context, ids);
    check(&format!("{:?}", model.form()), &Continue::new(model).unwrap(), scores, text, pieces);
}

#[test]
fn token_by_token_and_piece_by_piece() {
    let text = ids("text", zoo::VOCABULARY, [2, TIME]);
    for pieces in [&[1; TIME][..], &[3, 1, 5, 1, 1, 1], &[TIME]] {
        for gpt in gpts(TIME) {
            check_causal(&gpt, &text, pieces);
        }
        check_causal(&llama(), &text, pieces);
        for gated in [false, true] {
            let (t5, source) = (t5(gated), ids("source", zoo::VOCABULARY, [2, 5]));
            let present = Mask::from_fn([2, 5], |at| at != [1, 4]);
            let read = Inputs::masked(&source, Some(&present));
            let memory = Some(t5.encode(&Context::inference(), &read).unwrap());
            let read = Inputs { memory, present: Some(present.clone()), ..Inputs::default() };
            let scores = |context: &Context, ids: &Ids| {
                t5.forward(context, &read.clone().answered(ids, None)).unwrap()
            };
            let answer = Answer::new(&t5, &Context::inference(), &source, Some(&present), 1).unwrap();
            check("t5", &answer, scores, &text, pieces);
        }
    }
}

#[test]
fn a_long_text_outgrows_its_room() {
    let text = ids("text", zoo::VOCABULARY, [1, 150]);
    let one_by_one = [&[60][..], &[1; 90]].concat();
    check_causal(&llama(), &text, &one_by_one);
    check_causal(&gpts(150).swap_remove(0), &text, &one_by_one);
}

#[test]
fn texts_of_unequal_length_are_read_as_if_alone() {
    let texts = [ids("a", 13, [1, 7]), ids("b", 13, [1, 3]), ids("c", 13, [1, 6])];
    let (mut values, mut real) = (Vec::new(), Vec::new());
    for text in &texts {
        let length = text.shape()[1];
        values.extend(vec![5; 7 - length]); // padding before the text: any id will do
        values.extend(text.values());
        real.extend((0..7).map(|column| column >= 7 - length));
    }
    let (together, present) = (Ids::new(&values, [3, 7]).unwrap(), Mask::new(&real, [3, 7]).unwrap());
    let new = ids("new", 13, [3, 4]);
    for model in gpts(TIME).into_iter().chain([llama()]) {
        let scores = |context: &Context, ids: &Ids, present: Option<&Mask>| {
            model.forward(context, &Inputs::masked(ids, present)).unwrap()
        };
        let cache = Cache::new();
        let context = Context::inference().with_cache(&cache);
        let first = scores(&context, &together, Some(&present));
        let second = scores(&context, &columns(&new, 0, 3), None);
        let third = scores(&context, &columns(&new, 3, 1), None);
        for (row, text) in texts.iter().enumerate() {
            let length = text.shape()[1];
            let whole: Vec<u32> =
                text.values().iter().chain(&new.values()[row * 4..][..4]).copied().collect();
            let whole = Ids::new(&whole, [1, length + 4]).unwrap();
            let alone = scores(&Context::inference(), &whole, None);
            let row = |x: &Tensor| x.slice(0, row, 1).unwrap();
            agree(
                "prompt",
                &row(&first).slice(1, 7 - length, length).unwrap(),
                &alone.slice(1, 0, length).unwrap(),
                1e-5,
            );
            agree("next", &row(&second), &alone.slice(1, length, 3).unwrap(), 1e-5);
            agree("last", &row(&third), &alone.slice(1, length + 3, 1).unwrap(), 1e-5);
        }
    }
}

#[test]
fn rows_of_a_cache_can_change_places() {
    let llama = llama();
    let text = ids("text", 13, [3, 5]);
    let next = ids("next", 13, [4, 2]);
    let present = Mask::from_fn([3, 5], |at| at != [1, 0]);
    let cache = Cache::new();
    let context = Context::inference().with_cache(&cache);
    llama.forward(&context, &Inputs::masked(&text, Some(&present))).unwrap();
    let order = [2, 1, 1, 0];
    // What cannot be done is not half done.
    assert!(cache.reorder(&[0, 3]).is_err() && cache.reorder(&[]).is_err());
    cache.reorder(&order).unwrap();
    let got = forward(&llama, &context, &next);
    let mut values = Vec::new();
    for (row, &from) in order.iter().enumerate() {
        values.extend(&text.values()[from * 5..][..5]);
        values.extend(&next.values()[row * 2..][..2]);
    }
    let present = Mask::from_fn([4, 7], |at| !(order[at[0]] == 1 && at[1] == 0));
    let whole = Inputs::masked(&Ids::new(&values, [4, 7]).unwrap(), Some(&present));
    let whole = llama.forward(&Context::inference(), &whole).unwrap();
    agree("reordered", &got, &whole.slice(1, 5, 2).unwrap(), 1e-5);
}

#[test]
fn a_pass_that_fails_leaves_the_cache_as_it_was() {
    let text = ids("text", 13, [2, 6]);
    let failing = Probe::new().change("layers.1.residual.before", |_, _| Err(Error::Cancelled));
    for gpt in gpts(TIME) {
        let cache = Cache::new();
        let context = Context::inference().with_cache(&cache);
        let read = |context: &Context, ids: &Ids| gpt.forward(context, &Inputs::ids(ids));
        read(&context, &columns(&text, 0, 3)).unwrap();
        let stopped = read(&context.clone().with_probe(&failing), &columns(&text, 3, 2));
        assert_eq!(stopped.unwrap_err(), Error::Cancelled);
        let error = read(&context, &ids("other", 13, [1, 2])).unwrap_err().to_string();
        assert_eq!(error, "transformer: a cache of 2 texts cannot go on with 1");
        assert_eq!(cache.length(), 3);
        let got = read(&context, &columns(&text, 3, 3)).unwrap();
        let whole = read(&Context::inference(), &text).unwrap();
        agree(&format!("{:?}", gpt.form()), &got, &whole.slice(1, 3, 3).unwrap(), 1e-5);
    }
}

#[test]
fn the_context_counts_what_was_read_before() {
    let gpt = zoo::named("gpt");
    let cache = Cache::new();
    let context = Context::inference().with_cache(&cache);
    forward(&*gpt, &context, &ids("text", 13, [1, 8]));
    let error = gpt.forward(&context, &Inputs::ids(&ids("more", 13, [1, 2]))).unwrap_err().to_string();
    assert_eq!(error, "transformer: 10 tokens do not fit its context of 9");
}

#[test]
fn models_that_read_everything_at_once_need_no_cache() {
    for specimen in zoo::all() {
        if specimen.model.form().is_some_and(|form| form.decoder.is_some()) {
            continue;
        }
        let cache = Cache::new();
        let plain = specimen.loss(&Context::inference()).unwrap();
        for _ in 0..2 {
            let cached = specimen.loss(&Context::inference().with_cache(&cache)).unwrap();
            same_bits(specimen.name, &cached, &plain);
        }
        assert_eq!(cache.length(), 0);
    }
    // Nor does the encoder of one that does.
    let (t5, text) = (t5(false), Inputs::ids(&ids("text", 13, [2, 5])));
    let cache = Cache::new();
    let plain = t5.encode(&Context::inference(), &text).unwrap();
    for _ in 0..2 {
        same_bits("encoder", &t5.encode(&Context::inference().with_cache(&cache), &text).unwrap(), &plain);
    }
}
