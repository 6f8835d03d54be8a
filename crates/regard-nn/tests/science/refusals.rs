//! What a model cannot take is refused in words that say what was expected and what came.

use crate::numbers::ids;
use crate::zoo;
use regard_nn::attention::{Additive, AttentionConfig, AttentionKind, MultiHead, Pattern, Rules};
use regard_nn::models::form::Form;
use regard_nn::models::{
    Bag, BagConfig, GptConfig, Inputs, LlamaConfig, Model, Sentiment, SentimentConfig, T5Config, Tagger,
    TaggerConfig, Transformer, VitConfig,
};
use regard_nn::position::{Position, RotaryScaling};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Result};

fn refused<T>(what: Result<T>, text: &str) {
    match what {
        Ok(_) => panic!("accepted; expected: {text}"),
        Err(error) => assert_eq!(error.to_string(), text),
    }
}

fn build(form: Form) -> Result<Transformer> {
    Transformer::new(form, 0)
}

#[test]
fn configurations_of_gpt() {
    let gpt = |config: GptConfig| build(config.form());
    let base = zoo::gpt_config();
    let sizes = "must be from 1 to 1073741824, got";
    refused(gpt(GptConfig { vocabulary: 0, ..base.clone() }), &format!("transformer: vocabulary {sizes} 0"));
    refused(gpt(GptConfig { context: 0, ..base.clone() }), &format!("transformer: context {sizes} 0"));
    refused(gpt(GptConfig { d_model: 0, ..base.clone() }), &format!("transformer: d_model {sizes} 0"));
    refused(gpt(GptConfig { n_heads: 0, ..base.clone() }), &format!("attention: n_heads {sizes} 0"));
    refused(
        gpt(GptConfig { d_hidden: Some(0), ..base.clone() }),
        &format!("transformer: d_hidden {sizes} 0"),
    );
    refused(
        gpt(GptConfig { d_model: usize::MAX, ..base.clone() }),
        "transformer: d_model must be from 1 to 1073741824, got 18446744073709551615",
    );
    refused(
        gpt(GptConfig { n_heads: 3, ..base.clone() }),
        "multi-head attention: the width (16) must be divisible by the number of heads (3)",
    );
    refused(
        gpt(GptConfig { d_model: 6, positions: Position::Rotary, ..base.clone() }),
        "rotary positions: the width of a head (3) must be even",
    );
    refused(
        gpt(GptConfig { positions: Position::Alibi, attention: AttentionKind::Linear, ..base.clone() }),
        "attention: linear attention has no scores that alibi or relative positions could be added to",
    );
    for dropout in [-0.1, 1.0, f32::NAN] {
        let text = format!("transformer: dropout must be at least 0 and below 1, got {dropout}");
        refused(gpt(GptConfig { dropout, ..base.clone() }), &text);
    }
    refused(
        gpt(GptConfig { norm_epsilon: f32::NAN, ..base.clone() }),
        "transformer: norm_epsilon must be a number of at least 0, got NaN",
    );
    for deviation in [-0.1, f32::NAN, f32::INFINITY] {
        let text = format!("transformer: deviation must be a number of at least 0, got {deviation}");
        refused(gpt(GptConfig { deviation, ..base.clone() }), &text);
    }
    let absurd = gpt(GptConfig { vocabulary: 1 << 30, d_model: 1 << 22, n_layers: 0, ..base });
    refused(absurd, "parameter: tokens.weight of [1073741824×4194304] is too large for this machine");
}

#[test]
fn configurations_of_the_others() {
    let llama = |config: LlamaConfig| build(config.form());
    refused(
        llama(LlamaConfig { n_kv_heads: 3, ..zoo::llama_config() }),
        "multi-head attention: 4 query heads cannot share 3 key-value heads evenly",
    );
    refused(
        llama(LlamaConfig { n_kv_heads: 0, ..zoo::llama_config() }),
        "attention: n_kv_heads must be from 1 to 1073741824, got 0",
    );
    refused(
        llama(LlamaConfig { d_head: Some(3), ..zoo::llama_config() }),
        "rotary positions: the width of a head (3) must be even",
    );
    refused(
        llama(LlamaConfig { rotary_base: -1.0, ..zoo::llama_config() }),
        "rotary positions: the base must be a number above 0, got -1",
    );
    let scaling = RotaryScaling::Llama3 { factor: 8.0, low: 4.0, high: 4.0, original: 32 };
    refused(
        llama(LlamaConfig { rotary_scaling: scaling, ..zoo::llama_config() }),
        "rotary positions: the low limit must be above 0 and below the high one, got 4 and 4",
    );
    refused(
        build(zoo::shifted(&zoo::bert_config(), usize::MAX)),
        "transformer: position_offset must be from 1 to 1073741824, got 18446744073709551615",
    );
    refused(
        build(T5Config { buckets: 3, ..zoo::t5_config() }.form()),
        "attention: buckets must be at least 4, got 3",
    );
    refused(
        build(T5Config { start: 13, ..zoo::t5_config() }.form()),
        "transformer: start is 13, which is none of its 13 tokens",
    );
    refused(
        build(VitConfig { image: [7, 4], ..zoo::vit_config() }.form()),
        "transformer: an image of 7×4 is not made of patches of 2×2",
    );
    refused(
        build(VitConfig { channels: 0, ..zoo::vit_config() }.form()),
        "transformer: channels must be from 1 to 1073741824, got 0",
    );
    refused(
        Sentiment::new(SentimentConfig { d_hidden: 0, ..SentimentConfig::default() }, 0),
        "sentiment: d_hidden must be from 1 to 1073741824, got 0",
    );
    refused(
        Bag::new(BagConfig { positions: Position::Alibi, ..BagConfig::default() }, 0),
        "bag: rotary, alibi and relative positions are seen by attention only: give it heads",
    );
    refused(
        Tagger::new(TaggerConfig { classes: 1, ..TaggerConfig::default() }, 0),
        "tagger: classes must be at least 2, got 1",
    );
    let draw = (Draw::Normal(0.1), Draw::Normal(0.1));
    let grouped =
        AttentionConfig { n_kv_heads: 2, kind: AttentionKind::Additive, ..AttentionConfig::new(8, 4) };
    refused(
        MultiHead::new(&Initial::new(0), grouped, draw),
        "multi-head attention: additive scores need a key head for each query head",
    );
    let narrow = AttentionConfig { d_head: 0, ..AttentionConfig::new(8, 4) };
    refused(
        MultiHead::new(&Initial::new(0), narrow, draw),
        "multi-head attention: the width of a head must be at least 1",
    );
}

#[test]
fn inputs_of_causal_models() {
    let context = Context::inference();
    let gpt = build(zoo::gpt_config().form()).unwrap();
    let forward = |ids: &Ids, present: Option<&Mask>| gpt.forward(&context, &Inputs::masked(ids, present));
    refused(forward(&ids("x", 13, [4]), None), "transformer: ids must be (batch, time), got [4]");
    refused(forward(&ids("x", 13, [1, 2, 3]), None), "transformer: ids must be (batch, time), got [1×2×3]");
    refused(forward(&ids("x", 13, [0, 3]), None), "transformer: there is nothing to read: ids are [0×3]");
    refused(forward(&ids("x", 13, [2, 0]), None), "transformer: there is nothing to read: ids are [2×0]");
    refused(forward(&ids("x", 13, [1, 10]), None), "transformer: 10 tokens do not fit its context of 9");
    refused(
        forward(&Ids::new(&[3, 13], [1, 2]).unwrap(), None),
        "embedding: id 13 is out of range, there are 13",
    );
    let mask = Mask::from_fn([2, 3], |_| true);
    refused(forward(&ids("x", 13, [2, 4]), Some(&mask)), "transformer: the mask must be [2×4], got [2×3]");
    let hidden = gpt.hidden(&context, &Inputs::ids(&ids("x", 13, [2, 4]))).unwrap();
    refused(
        gpt.loss(&context, &hidden, &ids("y", 13, [2, 3]), CrossEntropy::default()),
        "scored_cross_entropy: expected a weight of (classes, 16) and 8 targets, got [13×16] and [2×3]",
    );
    refused(
        gpt.forward(&context, &Inputs::pictures(&zoo::images())),
        "transformer: this model reads text, not pictures",
    );
    refused(
        gpt.encode(&context, &Inputs::ids(&ids("x", 13, [2, 4]))),
        "transformer: a gpt has no encoder that a decoder could read",
    );
    // Without a table of positions, a longer text is only unusual.
    let rotary = GptConfig { positions: Position::Rotary, ..zoo::gpt_config() };
    for form in [rotary.form(), zoo::llama_config().form()] {
        let scores = build(form).unwrap().forward(&context, &Inputs::ids(&ids("x", 13, [1, 20]))).unwrap();
        assert_eq!(scores.shape()[..], [1, 20, 13]);
    }
}

#[test]
fn inputs_of_the_others() {
    let context = Context::inference();
    let bert = build(zoo::bert_config().form()).unwrap();
    let text = ids("x", 13, [2, 4]);
    refused(
        bert.hidden(&context, &Inputs { types: Some(ids("types", 2, [2, 3])), ..Inputs::ids(&text) }),
        "transformer: types must be [2×4] as the ids are, got [2×3]",
    );
    refused(
        bert.hidden(&context, &Inputs::ids(&ids("x", 13, [1, 10]))),
        "transformer: 10 tokens do not fit its context of 9",
    );
    let bare = zoo::named("bert, bare");
    let hidden = bare.hidden(&context, &Inputs::ids(&text)).unwrap();
    let nothing = "transformer: this bert has no head that scores anything";
    refused(bare.scores(&context, &hidden), nothing);
    refused(bare.loss(&context, &hidden, &text, CrossEntropy::default()), nothing);
    refused(bare.lens(&context, &hidden), "logit lens: a bert does not score tokens from a residual stream");
    let t5 = build(zoo::t5_config().form()).unwrap();
    let mask = Mask::from_fn([2, 5], |_| true);
    let encoded = t5.encode(&context, &Inputs::ids(&text)).unwrap();
    let answer = |ids: &Ids, memory: &Tensor, present: Option<&Mask>| {
        let memory = Some(memory.clone());
        let read = Inputs { memory, present: present.cloned(), ..Inputs::default() };
        t5.forward(&context, &read.answered(ids, None))
    };
    refused(
        answer(&text, &encoded, Some(&mask)),
        "transformer: 2 texts cannot be answered from an encoder's output of [2×4×16] under a mask of [2×5]",
    );
    refused(
        answer(&ids("x", 13, [3, 2]), &encoded, None),
        "transformer: 3 texts cannot be answered from an encoder's output of [2×4×16] under a mask of [2×4]",
    );
    refused(
        answer(&text, &Tensor::zeros([2, 4]), None),
        "transformer: the encoder's output must be (batch, time, width), got [2×4]",
    );
    let vit = build(zoo::vit_config().form()).unwrap();
    refused(
        vit.forward(&context, &Inputs::pictures(&Tensor::zeros([1, 1, 6, 4]))),
        "transformer: pictures must be (batch, 2, 6, 4), got [1×1×6×4]",
    );
    refused(
        vit.forward(&context, &Inputs::pictures(&Tensor::zeros([0, 2, 6, 4]))),
        "transformer: pictures must be (batch, 2, 6, 4), got [0×2×6×4]",
    );
    refused(vit.forward(&context, &Inputs::ids(&text)), "transformer: this model reads pictures, not text");
    refused(Inputs::padded(&text, &[4, 0]), "inputs: 2 lengths between 1 and 4 are needed, got [4, 0]");
    refused(Inputs::padded(&text, &[4, 5]), "inputs: 2 lengths between 1 and 4 are needed, got [4, 5]");
    let bag =
        Bag::new(BagConfig { positions: Position::Learned, context: 3, ..BagConfig::default() }, 0).unwrap();
    refused(bag.forward(&context, &Inputs::ids(&text)), "bag: 4 words do not fit its context of 3");
    let tagger = Tagger::new(TaggerConfig { context: 3, ..TaggerConfig::default() }, 0).unwrap();
    refused(tagger.forward(&context, &Inputs::ids(&text)), "tagger: 4 words do not fit its context of 3");
    let sentiment =
        Sentiment::new(SentimentConfig { vocabulary: 13, ..SentimentConfig::default() }, 0).unwrap();
    let nowhere = Mask::from_fn([2, 4], |at| at[0] == 0);
    let in_front = Mask::from_fn([2, 4], |at| at != [1, 0]);
    let bag = Bag::new(BagConfig { vocabulary: 13, ..BagConfig::default() }, 0).unwrap();
    for model in [&sentiment as &dyn Model, &bag] {
        for mask in [&nowhere, &in_front] {
            refused(
                model.forward(&context, &Inputs::masked(&text, Some(mask))),
                &format!("{}: this model takes padding at the end of a text only", model.kind()),
            );
        }
    }
}

#[test]
fn vectors_for_attention() {
    let context = Context::inference();
    let additive = Additive::new(&Initial::new(0), (Some(4), 4, 6), Draw::Normal(0.1)).unwrap();
    let flat = "additive attention: vectors must be (batch, time, width), got [4]";
    refused(additive.importance(&context, &Tensor::zeros([4])), flat);
    refused(additive.pool(&context, &Tensor::zeros([4]), None), flat);
    refused(additive.scores(&context, &Tensor::zeros([1, 2, 4]), &Tensor::zeros([4])), flat);
    refused(additive.scores(&context, &Tensor::zeros([4]), &Tensor::zeros([1, 2, 4])), flat);
    let draw = (Draw::Normal(0.1), Draw::Normal(0.1));
    let heads = MultiHead::new(&Initial::new(0), AttentionConfig::new(8, 2), draw).unwrap();
    let rules = Rules::new(Pattern::Full, 3, 3).unwrap();
    refused(
        heads.forward(&context, &Tensor::zeros([3, 8]), None, &rules),
        "multi-head attention: vectors must be (batch, time, width), got [3×8]",
    );
    let memory = Tensor::zeros([1, 5, 8]);
    refused(
        heads.forward(&context, &Tensor::zeros([1, 3, 8]), Some(&memory), &rules),
        "multi-head attention: fused projections cannot attend to other vectors",
    );
}
