//! What a model cannot take is refused in words that say what was expected and what came.

use crate::numbers::ids;
use crate::zoo;
use regard_nn::attention::{Additive, AttentionConfig, AttentionKind, MultiHead, Pattern, Rules};
use regard_nn::models::{
    Bag, BagConfig, Bert, BertConfig, BertHeads, Gpt, GptConfig, Llama, LlamaConfig, Sentiment,
    SentimentConfig, T5, T5Config, Tagger, TaggerConfig, Vit, VitConfig,
};
use regard_nn::position::{Position, RotaryScaling};
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Draw, Initial, Result};

fn refused<T>(what: Result<T>, text: &str) {
    match what {
        Ok(_) => panic!("accepted; expected: {text}"),
        Err(error) => assert_eq!(error.to_string(), text),
    }
}

#[test]
fn configurations_of_gpt() {
    let gpt = |config: GptConfig| Gpt::new(config, 0);
    let base = zoo::gpt_config();
    let sizes = "must be from 1 to 1073741824, got";
    refused(gpt(GptConfig { vocabulary: 0, ..base.clone() }), &format!("gpt: vocabulary {sizes} 0"));
    refused(gpt(GptConfig { context: 0, ..base.clone() }), &format!("gpt: context {sizes} 0"));
    refused(gpt(GptConfig { d_model: 0, ..base.clone() }), &format!("gpt: d_model {sizes} 0"));
    refused(gpt(GptConfig { n_heads: 0, ..base.clone() }), &format!("gpt: n_heads {sizes} 0"));
    refused(gpt(GptConfig { d_hidden: Some(0), ..base.clone() }), &format!("gpt: d_hidden {sizes} 0"));
    refused(
        gpt(GptConfig { d_model: usize::MAX, ..base.clone() }),
        "gpt: d_model must be from 1 to 1073741824, got 18446744073709551615",
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
        "gpt: linear attention has no scores that alibi or relative positions could be added to",
    );
    for dropout in [-0.1, 1.0, f32::NAN] {
        let text = format!("gpt: dropout must be at least 0 and below 1, got {dropout}");
        refused(gpt(GptConfig { dropout, ..base.clone() }), &text);
    }
    refused(
        gpt(GptConfig { norm_epsilon: f32::NAN, ..base.clone() }),
        "gpt: norm_epsilon must be a number of at least 0, got NaN",
    );
    for deviation in [-0.1, f32::NAN, f32::INFINITY] {
        let text = format!("gpt: deviation must be a number of at least 0, got {deviation}");
        refused(gpt(GptConfig { deviation, ..base.clone() }), &text);
    }
    let absurd = gpt(GptConfig { vocabulary: 1 << 30, d_model: 1 << 22, n_layers: 0, ..base });
    refused(absurd, "parameter: tokens.weight of [1073741824×4194304] is too large for this machine");
}

#[test]
fn configurations_of_the_others() {
    refused(
        Llama::new(LlamaConfig { n_kv_heads: 3, ..zoo::llama_config() }, 0),
        "multi-head attention: 4 query heads cannot share 3 key-value heads evenly",
    );
    refused(
        Llama::new(LlamaConfig { n_kv_heads: 0, ..zoo::llama_config() }, 0),
        "llama: n_kv_heads must be from 1 to 1073741824, got 0",
    );
    refused(
        Llama::new(LlamaConfig { d_head: Some(3), ..zoo::llama_config() }, 0),
        "llama: the width of a head (3) must be even for rotary positions",
    );
    refused(
        Llama::new(LlamaConfig { rotary_base: -1.0, ..zoo::llama_config() }, 0),
        "rotary positions: the base must be a number above 0, got -1",
    );
    let scaling = RotaryScaling::Llama3 { factor: 8.0, low: 4.0, high: 4.0, original: 32 };
    refused(
        Llama::new(LlamaConfig { rotary_scaling: scaling, ..zoo::llama_config() }, 0),
        "rotary positions: the low limit must be above 0 and below the high one, got 4 and 4",
    );
    let heads = BertHeads { words: false, pooler: false, classes: Some(2) };
    refused(Bert::new(BertConfig { heads, ..zoo::bert_config() }, 0), "bert: a classifier needs a pooler");
    refused(
        Bert::new(BertConfig { position_offset: usize::MAX, ..zoo::bert_config() }, 0),
        "bert: position_offset must be from 1 to 1073741824, got 18446744073709551615",
    );
    refused(T5::new(T5Config { buckets: 3, ..zoo::t5_config() }, 0), "t5: buckets must be at least 4, got 3");
    refused(
        T5::new(T5Config { start: 13, ..zoo::t5_config() }, 0),
        "t5: start is 13, which is none of its 13 tokens",
    );
    refused(
        Vit::new(VitConfig { image: [7, 4], ..zoo::vit_config() }, 0),
        "vit: an image of 7×4 is not made of patches of 2×2",
    );
    refused(
        Vit::new(VitConfig { channels: 0, ..zoo::vit_config() }, 0),
        "vit: channels must be from 1 to 1073741824, got 0",
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
    let gpt = Gpt::new(zoo::gpt_config(), 0).unwrap();
    let forward = |ids: &Ids, present: Option<&Mask>| gpt.forward(&context, ids, present);
    refused(forward(&ids("x", 13, [4]), None), "gpt: ids must be (batch, time), got [4]");
    refused(forward(&ids("x", 13, [1, 2, 3]), None), "gpt: ids must be (batch, time), got [1×2×3]");
    refused(forward(&ids("x", 13, [0, 3]), None), "gpt: there is nothing to read: ids are [0×3]");
    refused(forward(&ids("x", 13, [2, 0]), None), "gpt: there is nothing to read: ids are [2×0]");
    refused(forward(&ids("x", 13, [1, 10]), None), "gpt: 10 tokens do not fit its context of 9");
    refused(
        forward(&Ids::new(&[3, 13], [1, 2]).unwrap(), None),
        "embedding: id 13 is out of range, there are 13",
    );
    let mask = Mask::from_fn([2, 3], |_| true);
    refused(forward(&ids("x", 13, [2, 4]), Some(&mask)), "gpt: the mask must be [2×4], got [2×3]");
    refused(
        gpt.loss(&context, &ids("x", 13, [2, 4]), &ids("y", 13, [2, 3])),
        "scored_cross_entropy: expected a weight of (classes, 16) and 8 targets, got [13×16] and [2×3]",
    );
    let llama = Llama::new(zoo::llama_config(), 0).unwrap();
    refused(
        llama.forward(&context, &ids("x", 13, [1, 10]), None),
        "llama: 10 tokens do not fit its context of 9",
    );
    // Without a table of positions, a longer text is only unusual.
    let rotary = Gpt::new(GptConfig { positions: Position::Rotary, ..zoo::gpt_config() }, 0).unwrap();
    assert_eq!(rotary.forward(&context, &ids("x", 13, [1, 20]), None).unwrap().shape()[..], [1, 20, 13]);
}

#[test]
fn inputs_of_the_others() {
    let context = Context::inference();
    let bert = Bert::new(zoo::bert_config(), 0).unwrap();
    let text = ids("x", 13, [2, 4]);
    refused(
        bert.encode(&context, &text, Some(&ids("types", 2, [2, 3])), None),
        "bert: types must be [2×4] as the ids are, got [2×3]",
    );
    refused(
        bert.encode(&context, &ids("x", 13, [1, 10]), None, None),
        "bert: 10 tokens do not fit its context of 9",
    );
    let encoded = bert.encode(&context, &text, None, None).unwrap();
    refused(bert.pool(&context, &encoded), "bert: this model has no pooler");
    refused(bert.classify(&context, &encoded), "bert: this model has no classifier");
    let t5 = T5::new(zoo::t5_config(), 0).unwrap();
    let mask = Mask::from_fn([2, 5], |_| true);
    let encoded = t5.encode(&context, &text, None).unwrap();
    refused(
        t5.decode(&context, &text, None, (&encoded, Some(&mask))),
        "t5: 2 texts cannot be answered from what was encoded, [2×4×16], under a mask of [2×5]",
    );
    refused(
        t5.decode(&context, &ids("x", 13, [3, 2]), None, (&encoded, None)),
        "t5: 3 texts cannot be answered from what was encoded, [2×4×16], under a mask of [2×4]",
    );
    refused(
        t5.decode(&context, &text, None, (&Tensor::zeros([2, 4]), None)),
        "t5: what was encoded must be (batch, time, width), got [2×4]",
    );
    let vit = Vit::new(zoo::vit_config(), 0).unwrap();
    refused(
        vit.forward(&context, &Tensor::zeros([1, 1, 6, 4])),
        "vit: images must be (batch, 2, 6, 4), got [1×1×6×4]",
    );
    refused(
        vit.forward(&context, &Tensor::zeros([0, 2, 6, 4])),
        "vit: there is nothing to look at: images are 0",
    );
    let bag =
        Bag::new(BagConfig { positions: Position::Learned, context: 3, ..BagConfig::default() }, 0).unwrap();
    refused(bag.forward(&context, &text, None), "bag: 4 words do not fit its context of 3");
    refused(
        bag.forward(&context, &text, Some(&[4, 0])),
        "bag: 2 lengths between 1 and 4 are needed, got [4, 0]",
    );
    let tagger = Tagger::new(TaggerConfig { context: 3, ..TaggerConfig::default() }, 0).unwrap();
    refused(tagger.forward(&context, &text, None), "tagger: 4 words do not fit its context of 3");
    let sentiment =
        Sentiment::new(SentimentConfig { vocabulary: 13, ..SentimentConfig::default() }, 0).unwrap();
    refused(
        sentiment.forward(&context, &text, Some(&[4, 5])),
        "sentiment: 2 lengths between 1 and 4 are needed, got [4, 5]",
    );
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
