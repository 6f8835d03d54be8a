//! One small model of every kind and form, with something for it to learn.

use crate::numbers::normal;
use regard_nn::attention::AttentionKind;
use regard_nn::block::NormPlacement;
use regard_nn::layers::Activation;
use regard_nn::models::{
    Bag, BagConfig, Bert, BertConfig, BertHeads, Gpt, GptConfig, Llama, LlamaConfig, Model, Pooling,
    Sentiment, SentimentConfig, T5, T5Config, Tagger, TaggerConfig, Vit, VitConfig,
};
use regard_nn::position::{Position, RotaryScaling};
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Result};

/// A model, its name here, and how far off it is on a few examples.
pub struct Specimen {
    pub name: &'static str,
    pub model: Model,
}

pub const VOCABULARY: usize = 13;

pub fn gpt_config() -> GptConfig {
    GptConfig {
        vocabulary: VOCABULARY,
        context: 9,
        n_layers: 2,
        n_heads: 2,
        d_model: 16,
        ..GptConfig::default()
    }
}

pub fn bert_config() -> BertConfig {
    BertConfig {
        vocabulary: VOCABULARY,
        context: 9,
        n_layers: 2,
        n_heads: 2,
        d_model: 16,
        d_hidden: 24,
        ..BertConfig::default()
    }
}

pub fn t5_config() -> T5Config {
    let sizes = T5Config {
        vocabulary: VOCABULARY,
        n_layers: 2,
        n_decoder_layers: 1,
        n_heads: 2,
        ..T5Config::default()
    };
    T5Config { d_model: 16, d_head: 6, d_hidden: 24, buckets: 8, max_distance: 12, ..sizes }
}

pub fn llama_config() -> LlamaConfig {
    let sizes = LlamaConfig {
        vocabulary: VOCABULARY,
        context: 9,
        n_layers: 2,
        d_model: 16,
        ..LlamaConfig::default()
    };
    LlamaConfig { n_heads: 4, n_kv_heads: 2, d_hidden: 24, ..sizes }
}

pub fn vit_config() -> VitConfig {
    let sizes = VitConfig { image: [6, 4], patch: 2, channels: 2, classes: 3, ..VitConfig::default() };
    VitConfig { n_layers: 2, n_heads: 2, d_model: 16, d_hidden: 24, ..sizes }
}

fn sentiment(pooling: Pooling) -> Model {
    let sizes =
        SentimentConfig { vocabulary: VOCABULARY, d_embedding: 6, d_hidden: 8, ..SentimentConfig::default() };
    Model::Sentiment(Sentiment::new(SentimentConfig { pooling, n_heads: 2, ..sizes }, 1).unwrap())
}

fn bag(n_heads: usize, positions: Position, residual: bool, trained: bool) -> Model {
    let sizes = BagConfig { vocabulary: VOCABULARY, d_embedding: 8, context: 9, ..BagConfig::default() };
    Model::Bag(Bag::new(BagConfig { n_heads, positions, residual, trained, ..sizes }, 1).unwrap())
}

/// Every kind and form.
pub fn all() -> Vec<Specimen> {
    let entries = [gpts(), berts(), others()].into_iter().flatten();
    entries.map(|(name, model)| Specimen { name, model }).collect()
}

fn gpts() -> Vec<(&'static str, Model)> {
    let gpt = |positions, attention, change: &dyn Fn(&mut GptConfig)| {
        let mut config = GptConfig { positions, attention, ..gpt_config() };
        change(&mut config);
        Model::Gpt(Gpt::new(config, 1).unwrap())
    };
    let post = |config: &mut GptConfig| (config.norm, config.tied) = (NormPlacement::Post, false);
    let softmax = AttentionKind::Softmax;
    vec![
        ("gpt", gpt(Position::Learned, softmax, &|_| {})),
        ("gpt, rotary, post-norm, untied", gpt(Position::Rotary, softmax, &post)),
        ("gpt, relative, learned sink", gpt(Position::Relative, AttentionKind::LearnedSink, &|_| {})),
        (
            "gpt, alibi, additive, window",
            gpt(Position::Alibi, AttentionKind::Additive, &|config| config.window = Some(4)),
        ),
        ("gpt, sinusoidal, linear", gpt(Position::Sinusoidal, AttentionKind::Linear, &|_| {})),
        (
            "gpt, no positions, sigmoid, unscaled",
            gpt(Position::None, AttentionKind::Sigmoid, &|config| config.scaled = false),
        ),
    ]
}

fn berts() -> Vec<(&'static str, Model)> {
    let bert = |config: BertConfig| Model::Bert(Bert::new(config, 1).unwrap());
    let classes = BertHeads { words: false, pooler: true, classes: Some(3) };
    let bare = BertHeads { classes: None, ..classes };
    let distilbert = BertConfig { n_types: 0, pooler_activation: Activation::Relu, ..bert_config() };
    vec![
        ("bert", bert(bert_config())),
        ("bert, classifier", bert(BertConfig { heads: classes, ..bert_config() })),
        ("bert, bare", bert(BertConfig { heads: bare, ..bert_config() })),
        ("bert, like roberta", bert(BertConfig { position_offset: 2, n_types: 1, ..bert_config() })),
        ("bert, like distilbert", bert(BertConfig { heads: classes, ..distilbert })),
    ]
}

fn others() -> Vec<(&'static str, Model)> {
    let t5 = |config: T5Config| Model::T5(T5::new(config, 1).unwrap());
    let llama = |config: LlamaConfig| Model::Llama(Llama::new(config, 1).unwrap());
    let gated = T5Config { gated: true, activation: Activation::GeluNew, tied: false, ..t5_config() };
    let rotary_scaling = RotaryScaling::Llama3 { factor: 2.0, low: 1.0, high: 4.0, original: 8 };
    let biased = LlamaConfig { attention_bias: true, ffn_bias: true, rotary_scaling, ..llama_config() };
    let tagger = TaggerConfig {
        vocabulary: VOCABULARY,
        d_model: 12,
        n_heads: 2,
        context: 9,
        ..TaggerConfig::default()
    };
    vec![
        ("t5", t5(t5_config())),
        ("t5, gated", t5(T5Config { scale_output: false, ..gated })),
        ("llama", llama(llama_config())),
        ("llama, tied, with biases", llama(LlamaConfig { tied: true, d_head: Some(6), ..biased })),
        ("vit", Model::Vit(Vit::new(vit_config(), 1).unwrap())),
        ("sentiment, max", sentiment(Pooling::Max)),
        ("sentiment, additive", sentiment(Pooling::Additive)),
        ("sentiment, heads", sentiment(Pooling::Heads)),
        ("bag", bag(0, Position::None, false, true)),
        ("bag, attention", bag(2, Position::Learned, true, true)),
        ("bag, relative, frozen", bag(2, Position::Relative, true, false)),
        ("tagger", Model::Tagger(Tagger::new(tagger, 1).unwrap())),
    ]
}

/// Three texts of seven tokens that begin differently and repeat none (of words that are all the same, attention without
/// a table of positions cannot tell how many there are), and the tokens one place on.
pub fn texts() -> (Ids, Ids) {
    let mut rows: Vec<Vec<u32>> = Vec::new();
    for row in 0..3 {
        let order = Key::new(1).permutation(row, VOCABULARY - 3);
        rows.push([row as u32].into_iter().chain(order.iter().map(|&id| id as u32 + 3)).take(8).collect());
    }
    let cut = |from: usize| rows.iter().flat_map(|row| row[from..from + 7].to_vec()).collect::<Vec<u32>>();
    (Ids::new(&cut(0), [3, 7]).unwrap(), Ids::new(&cut(1), [3, 7]).unwrap())
}

pub const LENGTHS: [usize; 3] = [7, 4, 6];

pub fn present() -> Mask {
    Mask::from_fn([3, 7], |at| at[1] < LENGTHS[at[0]])
}

pub fn images() -> Tensor {
    normal("images", [3, 2, 6, 4])
}

impl Specimen {
    /// How far off the model is on its examples: near 0 once it knows them.
    pub fn loss(&self, context: &Context) -> Result<Tensor> {
        loss(&self.model, context)
    }
}

/// Every target is told by its example, so that all can be learned by heart.
pub fn loss(model: &Model, context: &Context) -> Result<Tensor> {
    let (ids, next) = texts();
    let classes = Ids::new(&[2, 0, 1], [3])?;
    let yes_or_no = Tensor::new(&[1.0, 0.0, 1.0], [3])?;
    let ignored = u32::MAX;
    // Padding is nobody's target.
    let hidden = |id: usize| if present().values()[id] { next.values()[id] } else { ignored };
    let words = Ids::new(&(0..21).map(hidden).collect::<Vec<_>>(), [3, 7])?;
    match model {
        Model::Gpt(model) => model.loss(context, &ids, &next),
        Model::Llama(model) => model.loss(context, &ids, &next),
        Model::T5(model) => {
            // The decoder reads the start token, then what it is to say but for the last.
            let known = |id: &u32| if *id == ignored { 0 } else { *id };
            let rows = words.values().chunks(7);
            let input: Vec<u32> =
                rows.flat_map(|row| [0].into_iter().chain(row[..6].iter().map(known))).collect();
            model.loss(context, (&ids, Some(&present())), (&Ids::new(&input, [3, 7])?, &words), ignored)
        }
        Model::Vit(model) => model.loss(context, &images(), &classes),
        Model::Sentiment(model) => model.loss(context, &ids, Some(&LENGTHS), &yes_or_no),
        Model::Bag(model) => model.loss(context, &ids, Some(&LENGTHS), &yes_or_no),
        Model::Tagger(model) => {
            let classes: Vec<u32> =
                words.values().iter().map(|&id| if id == ignored { id } else { id % 2 }).collect();
            model.loss(context, &ids, Some(&LENGTHS), &Ids::new(&classes, [3, 7])?, ignored)
        }
        Model::Bert(model) => {
            let heads = model.config().heads;
            let encoded = model.encode(context, &ids, None, Some(&present()))?;
            if heads.classes.is_some() {
                return Ok(model
                    .classify(context, &encoded)?
                    .cross_entropy(&classes, CrossEntropy::default())?);
            }
            if !heads.words {
                let off = model.pool(context, &encoded)?.subtract(&normal("pooled", [3, 16]).tanh()?)?;
                return Ok(off.multiply(&off)?.mean_all()?);
            }
            model.loss(context, &ids, Some(&present()), &words, ignored)
        }
    }
}

/// Gives every parameter values wide enough that all of them matter; those of norms stay near 1.
pub fn widen(model: &mut Model) {
    for (name, parameter) in model.module_mut().parameters_mut() {
        let norm = name.contains("norm") && name.ends_with("weight");
        let around = if norm { 1.0 } else { 0.0 };
        let values = normal(&name, parameter.tensor().shape()).affine(0.3, around).unwrap();
        parameter.tensor_mut().set_values(&values.values()).unwrap();
    }
}
