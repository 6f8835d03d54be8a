//! Batches in slots, on a device that records nothing: what a replay would write, and that a step reads no value.

use super::*;
use crate::models::{
    Bag, BagConfig, BertConfig, GptConfig, LlamaConfig, Pooling, Sentiment, SentimentConfig, T5Config,
    Tagger, TaggerConfig, Transformer, VitConfig,
};
use crate::position::Position;
use std::sync::{Mutex, PoisonError};

const VOCABULARY: usize = 13;
const TEXTS: [usize; 2] = [3, 7];
/// What `settings()` ignores.
const IGNORED: u32 = crate::data::batches::IGNORED;

fn drawn(name: &str, seed: u64, count: usize, limit: usize) -> Vec<u32> {
    let key = Key::new(seed).site(name);
    (0..count).map(|i| key.below(i as u64, 0, limit) as u32).collect()
}

fn ids(name: &str, seed: u64) -> Ids {
    Ids::new(&drawn(name, seed, TEXTS[0] * TEXTS[1], VOCABULARY), TEXTS).unwrap()
}

/// Texts of other lengths for each seed.
fn padded(seed: u64) -> Inputs {
    let lengths: Vec<usize> =
        drawn("lengths", seed, TEXTS[0], TEXTS[1]).iter().map(|&length| length as usize + 1).collect();
    Inputs::padded(&ids("ids", seed), &lengths).unwrap()
}

/// A target for each token, some of which do not count: other ones for each seed, but for the first.
fn targets(seed: u64, classes: usize) -> Ids {
    let count = TEXTS[0] * TEXTS[1];
    let counts = drawn("counts", seed, count, 3);
    let targets = drawn("targets", seed, count, classes).into_iter().zip(counts).enumerate();
    let targets: Vec<u32> =
        targets.map(|(i, (id, counts))| if i == 0 || counts == 0 { id } else { IGNORED }).collect();
    Ids::new(&targets, TEXTS).unwrap()
}

fn labels(seed: u64, count: usize, classes: usize) -> Ids {
    Ids::new(&drawn("labels", seed, count, classes), [count]).unwrap()
}

fn part(inputs: Inputs, targets: Ids) -> Part {
    Part { inputs, targets, share: 1.0, first_example: 0 }
}

type Case = (&'static str, Box<dyn Model>, fn(u64) -> Part);

fn transformer(form: crate::models::Form) -> Box<dyn Model> {
    Box::new(Transformer::new(form, 1).unwrap())
}

fn cases() -> Vec<Case> {
    let gpt = GptConfig {
        vocabulary: VOCABULARY,
        context: 9,
        n_layers: 2,
        n_heads: 2,
        d_model: 16,
        ..GptConfig::default()
    };
    let sizes = BertConfig {
        vocabulary: VOCABULARY,
        context: 9,
        n_layers: 2,
        n_heads: 2,
        d_model: 16,
        ..BertConfig::default()
    };
    let bert = BertConfig { d_hidden: 24, dropout: 0.1, ..sizes };
    let classifier = BertConfig { classes: Some(3), ..bert.clone() };
    let sizes = T5Config {
        vocabulary: VOCABULARY,
        n_layers: 2,
        n_decoder_layers: 1,
        n_heads: 2,
        ..T5Config::default()
    };
    let t5 = T5Config { d_model: 16, d_head: 6, d_hidden: 24, buckets: 8, max_distance: 12, ..sizes };
    let sizes = LlamaConfig {
        vocabulary: VOCABULARY,
        context: 9,
        n_layers: 2,
        d_model: 16,
        ..LlamaConfig::default()
    };
    let llama = LlamaConfig { n_heads: 4, n_kv_heads: 2, d_hidden: 24, ..sizes };
    let sizes = VitConfig { image: [6, 4], patch: 2, channels: 2, classes: 3, ..VitConfig::default() };
    let vit = VitConfig { n_layers: 2, n_heads: 2, d_model: 16, d_hidden: 24, ..sizes };
    let sentiment = |pooling| -> Box<dyn Model> {
        let sizes = SentimentConfig {
            vocabulary: VOCABULARY,
            d_embedding: 6,
            d_hidden: 8,
            ..SentimentConfig::default()
        };
        Box::new(Sentiment::new(SentimentConfig { pooling, n_heads: 2, ..sizes }, 1).unwrap())
    };
    let bag = BagConfig {
        vocabulary: VOCABULARY,
        d_embedding: 8,
        context: 9,
        n_heads: 2,
        positions: Position::Rotary,
        ..BagConfig::default()
    };
    let tagger = TaggerConfig {
        vocabulary: VOCABULARY,
        d_model: 16,
        n_heads: 2,
        classes: 5,
        context: 9,
        ..TaggerConfig::default()
    };
    let text: fn(u64) -> Part = |seed| part(padded(seed), labels(seed, TEXTS[0], 2));
    let window: fn(u64) -> Part = |seed| part(Inputs::ids(&ids("ids", seed)), ids("targets", seed));
    let masked: fn(u64) -> Part = |seed| part(padded(seed), targets(seed, VOCABULARY));
    vec![
        ("gpt", transformer(gpt.form()), window),
        ("gpt with padding", transformer(gpt.form()), masked),
        (
            "gpt, sinusoidal, with padding",
            transformer(GptConfig { positions: Position::Sinusoidal, ..gpt }.form()),
            masked,
        ),
        ("llama with padding", transformer(llama.form()), masked),
        ("bert", transformer(bert.form()), |seed| {
            let types = Ids::new(&drawn("types", seed, TEXTS[0] * TEXTS[1], 2), TEXTS).unwrap();
            part(Inputs { types: Some(types), ..padded(seed) }, targets(seed, VOCABULARY))
        }),
        ("bert for texts", transformer(classifier.form()), |seed| {
            part(padded(seed), labels(seed, TEXTS[0], 3))
        }),
        ("t5", transformer(t5.form()), |seed| {
            part(padded(seed).answered(&ids("answer", seed), None), targets(seed, VOCABULARY))
        }),
        ("vit", transformer(vit.form()), |seed| {
            let pixels = Key::new(seed).site("pixels").normal(4 * 2 * 6 * 4, 1.0);
            part(Inputs::pictures(&Tensor::new(&pixels, [4, 2, 6, 4]).unwrap()), labels(seed, 4, 3))
        }),
        ("bilstm, largest", sentiment(Pooling::Max), text),
        ("bilstm, additive", sentiment(Pooling::Additive), text),
        ("bilstm, heads", sentiment(Pooling::Heads), text),
        ("bag", Box::new(Bag::new(bag, 1).unwrap()), text),
        ("tagger", Box::new(Tagger::new(tagger, 1).unwrap()), |seed| part(padded(seed), targets(seed, 5))),
    ]
}

/// The loss and all gradients.
fn learned(model: &dyn Model, part: &Part) -> Vec<f32> {
    let context = Context::training(Key::new(3), part.first_example);
    let loss = model.loss_of(&context, &part.inputs, &part.targets, settings()).unwrap();
    let gradients = loss.backward().unwrap();
    let mut all = loss.to_vec();
    for (_, parameter) in model.parameters() {
        all.extend(gradients.get(parameter.tensor()).map(|gradient| gradient.to_vec()).into_iter().flatten());
    }
    all
}

/// Traffic is counted for all threads.
static ALONE: Mutex<()> = Mutex::new(());

#[test]
fn a_batch_in_slots_gives_the_same_gradients_and_is_not_read() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, mut model, batch) in cases() {
        model.to(Device::Apart).unwrap();
        let part = batch(1);
        let slots = part.in_slots(Device::Apart).unwrap();
        let before = traffic::snapshot();
        let context = Context::training(Key::new(3), 0);
        // Gradients of embeddings are sparse on this device, which takes reading the ids.
        model.loss_of(&context, &slots.inputs, &slots.targets, settings()).unwrap();
        let reads = traffic::snapshot().since(&before).host_reads;
        assert_eq!(reads, 0, "{name}: a step that reads values cannot be recorded");
        for (a, b) in learned(&*model, &slots).iter().zip(&learned(&*model, &part)) {
            assert!((a - b).abs() < 1e-5 * b.abs().max(0.1), "{name}: {a} instead of {b}");
        }
    }
}

#[test]
fn a_replay_writes_what_the_batch_itself_would_have() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, mut model, batch) in cases() {
        model.to(Device::Apart).unwrap();
        let written = |slots_of: &Part, with: &Part| {
            let slots = slots_of.in_slots(Device::Apart).unwrap();
            learned(&*model, &slots);
            let mut exchange = Exchange::new();
            assert!(slots.exchange(with, &mut exchange), "{name}: a batch of the same kind fits");
            exchange.bytes().map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let (first, second) = (batch(1), batch(2));
        let expected = written(&second, &second);
        assert!(written(&first, &second) == expected, "{name}");
        assert!(written(&first, &first) != expected, "{name}: the batches differ");
    }
}

#[test]
fn a_batch_of_another_shape_or_beyond_the_vocabulary_does_not_fit() {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let (_, mut model, batch) = cases().swap_remove(1);
    model.to(Device::Apart).unwrap();
    let slots = batch(1).in_slots(Device::Apart).unwrap();
    learned(&*model, &slots);
    let fits = |change: &dyn Fn(&mut Part)| {
        let mut part = batch(2);
        change(&mut part);
        slots.exchange(&part, &mut Exchange::new())
    };
    assert!(fits(&|_| ()));
    assert!(!fits(&|part| part.inputs.present = None));
    assert!(!fits(&|part| part.share = 0.5));
    assert!(!fits(&|part| part.first_example = 8));
    assert!(!fits(&|part| part.inputs.ids = Some(Ids::new(&[13; 21], TEXTS).unwrap())));
    assert!(!fits(&|part| part.targets = Ids::new(&[IGNORED - 1; 21], TEXTS).unwrap()));
    assert!(!fits(&|part| part.targets = Ids::new(&[1; 20], [4, 5]).unwrap()));
}
