//! One small model of every kind and form, with something for it to learn.

use crate::numbers::normal;
use regard_nn::attention::{AttentionKind, Biases, QueryKeyNorm};
use regard_nn::block::Placement;
use regard_nn::layers::{Activation, MixtureConfig, NormConfig, NormKind};
use regard_nn::models::form::{
    self, AttentionPositions, Form, Input, Output, Pooler, Positions, Projection, TokenScores, Tokens, Window,
};
use regard_nn::models::{
    Bag, BagConfig, BertConfig, GptConfig, Inputs, LlamaConfig, Model, Pooling, Predicts, Reads, Sentiment,
    SentimentConfig, T5Config, Tagger, TaggerConfig, Transformer, VitConfig,
};
use regard_nn::position::{Position, RotaryConfig, RotaryScaling};
use regard_nn::tensor::ops::{CrossEntropy, Function, Layout};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Module, Result};

/// A model, its name here, and how far off it is on a few examples.
pub struct Specimen {
    pub name: &'static str,
    pub model: Box<dyn Model>,
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

/// A transformer with random weights.
pub fn transformer(form: Form) -> Box<dyn Model> {
    Box::new(Transformer::new(form, 1).unwrap())
}

/// A BERT that counts positions as RoBERTa does: from the row `offset`, with the id before it as padding.
pub fn shifted(config: &BertConfig, offset: usize) -> Form {
    let mut form = config.form();
    let positions = Positions::Learned { context: config.context, offset, skips_padding: true };
    form.encoder.as_mut().unwrap().positions = positions;
    form
}

/// Which heads a BERT has: masked words, a pooler with its activation, classes.
pub fn with_heads(
    mut form: Form,
    words: Option<TokenScores>,
    pooler: Option<Activation>,
    classes: Option<usize>,
) -> Form {
    form.output.tokens = words;
    form.output.pooler = pooler.map(Pooler::new);
    form.output.classes = classes;
    form
}

fn sentiment(pooling: Pooling) -> Box<dyn Model> {
    let sizes =
        SentimentConfig { vocabulary: VOCABULARY, d_embedding: 6, d_hidden: 8, ..SentimentConfig::default() };
    Box::new(Sentiment::new(SentimentConfig { pooling, n_heads: 2, ..sizes }, 1).unwrap())
}

fn bag(n_heads: usize, positions: Position, residual: bool, trained: bool) -> Box<dyn Model> {
    let sizes = BagConfig { vocabulary: VOCABULARY, d_embedding: 8, context: 9, ..BagConfig::default() };
    Box::new(Bag::new(BagConfig { n_heads, positions, residual, trained, ..sizes }, 1).unwrap())
}

/// Every kind and form.
pub fn all() -> Vec<Specimen> {
    let entries = [gpts(), berts(), others(), newer()].into_iter().flatten();
    entries.map(|(name, model)| Specimen { name, model }).collect()
}

/// The model of one of them.
pub fn named(name: &str) -> Box<dyn Model> {
    all().into_iter().find(|specimen| specimen.name == name).unwrap().model
}

fn gpts() -> Vec<(&'static str, Box<dyn Model>)> {
    let gpt = |positions, attention, change: &dyn Fn(&mut GptConfig)| {
        let mut config = GptConfig { positions, attention, ..gpt_config() };
        change(&mut config);
        transformer(config.form())
    };
    let post = |config: &mut GptConfig| (config.norm, config.tied) = (Placement::Post, false);
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

fn berts() -> Vec<(&'static str, Box<dyn Model>)> {
    let classes = BertConfig { classes: Some(3), ..bert_config() };
    let bare = with_heads(bert_config().form(), None, Some(Activation::Tanh), None);
    let roberta = shifted(&BertConfig { n_types: 1, ..bert_config() }, 2);
    let distilbert = BertConfig { n_types: 0, ..classes.clone() }.form();
    vec![
        ("bert", transformer(bert_config().form())),
        ("bert, classifier", transformer(classes.form())),
        ("bert, bare", transformer(bare)),
        ("bert, like roberta", transformer(roberta)),
        ("bert, like distilbert", transformer(with_heads(distilbert, None, Some(Activation::Relu), Some(3)))),
    ]
}

fn others() -> Vec<(&'static str, Box<dyn Model>)> {
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
        ("t5", transformer(t5_config().form())),
        ("t5, gated", transformer(T5Config { scale_output: false, ..gated }.form())),
        ("llama", transformer(llama_config().form())),
        (
            "llama, tied, with biases",
            transformer(LlamaConfig { tied: true, d_head: Some(6), ..biased }.form()),
        ),
        ("vit", transformer(vit_config().form())),
        ("sentiment, max", sentiment(Pooling::Max)),
        ("sentiment, additive", sentiment(Pooling::Additive)),
        ("sentiment, heads", sentiment(Pooling::Heads)),
        ("bag", bag(0, Position::None, false, true)),
        ("bag, attention", bag(2, Position::Learned, true, true)),
        ("bag, relative, frozen", bag(2, Position::Relative, true, false)),
        ("tagger", Box::new(Tagger::new(tagger, 1).unwrap())),
    ]
}

/// Forms that no family of checkpoints has.
fn newer() -> Vec<(&'static str, Box<dyn Model>)> {
    let forms = [
        ("gpt, sandwich, capped, normed queries", sandwich()),
        ("gpt, parallel, partly rotary, windows by turns", parallel()),
        ("gpt, shared norm, narrow embeddings", narrow()),
        ("llama, norms of outputs, one layer for all", one_layer()),
        ("llama, experts, capped logits", experts()),
        ("gpt, experts by turns, norms by head", experts_by_turns()),
        ("llama, classes by the last token", last_token()),
    ];
    forms.into_iter().map(|(name, form)| (name, transformer(form))).collect()
}

/// The only stack of a form.
pub fn stack(form: &mut Form) -> &mut form::Stack {
    form.decoder.as_mut().or(form.encoder.as_mut()).unwrap()
}

/// Norms on both sides of each sublayer, scores with a soft cap, queries and keys normed in each head.
pub fn sandwich() -> Form {
    let mut form = gpt_config().form();
    let layer = &mut stack(&mut form).layers[0];
    layer.placement = Placement::Sandwich;
    layer.residual_scale = 0.7;
    layer.attention.soft_cap = Some(3.0);
    layer.attention.query_key_norm = Some((QueryKeyNorm::Head, NormConfig::rms(1e-5)));
    form
}

/// Sublayers side by side; half of a head's features rotated; a window in every other layer.
pub fn parallel() -> Form {
    let mut form = GptConfig { positions: Position::Rotary, ..gpt_config() }.form();
    let rotary = RotaryConfig { width: Some(4), ..RotaryConfig::default() };
    let stack = stack(&mut form);
    stack.layers[0].placement = Placement::Parallel;
    stack.layers[0].attention.positions = Some(AttentionPositions::Rotary(rotary));
    stack.layers.push(stack.layers[0].clone());
    stack.layers[0].attention.window = Some(Window { before: 2, after: 0 });
    stack.order = vec![0, 1];
    form
}

/// Sublayers side by side through one norm; embeddings of width 6.
pub fn narrow() -> Form {
    let mut form = GptConfig { positions: Position::Sinusoidal, tied: false, ..gpt_config() }.form();
    stack(&mut form).layers[0].placement = Placement::ParallelShared;
    form.input = Input::Tokens(Tokens { d_embedding: Some(6), scale: 1.5, ..Tokens::new(VOCABULARY) });
    form
}

/// Norms on outputs only, queries and keys normed over all heads, biases in some projections, one layer used twice.
pub fn one_layer() -> Form {
    let mut form = llama_config().form();
    let stack = stack(&mut form);
    stack.shared = true;
    stack.layers[0].placement = Placement::Output;
    stack.layers[0].attention.query_key_norm = Some((QueryKeyNorm::All, NormConfig::rms(1e-6)));
    stack.layers[0].attention.bias = Biases { query: true, value: true, ..Biases::default() };
    form
}

/// Two of three experts for each token, norms around 1, logits with a soft cap.
pub fn experts() -> Form {
    let mut form = llama_config().form();
    let norm = NormConfig { kind: NormKind::RootMeanSquareAroundOne, epsilon: 1e-5 };
    let mixture = MixtureConfig { experts: 3, active: 2, normalised: true, router_bias: false };
    let stack = stack(&mut form);
    (stack.norm, stack.layers[0].norm) = (Some(norm), norm);
    stack.layers[0].feed_forward.mixture = Some(mixture);
    form.output.tokens.as_mut().unwrap().soft_cap = Some(4.0);
    form
}

/// One of two experts, not renormalised, in every other layer, with a gate that is cut off far out; queries and keys normed
/// with weights of their own for each head; norms without biases, the last with nothing learned; embeddings projected before
/// positions are added, and hidden states back.
pub fn experts_by_turns() -> Form {
    let mut form = gpt_config().form();
    let norm = NormConfig { kind: NormKind::LayerWithoutBias, epsilon: 1e-5 };
    let stack = stack(&mut form);
    stack.norm = Some(NormConfig { kind: NormKind::LayerPlain, ..norm });
    stack.layers[0].norm = norm;
    stack.layers[0].attention.query_key_norm = Some((QueryKeyNorm::EachHead, norm));
    stack.layers[0].attention.clip = Some(20.0);
    let mut sparse = stack.layers[0].clone();
    let mixture = MixtureConfig { experts: 2, active: 1, normalised: false, router_bias: true };
    sparse.feed_forward.mixture = Some(mixture);
    (sparse.feed_forward.gated, sparse.feed_forward.clamp) = (true, Some(9.0));
    sparse.feed_forward.activation = Activation::QuickGelu;
    stack.layers.push(sparse);
    stack.order = vec![1, 0];
    let projection = Projection::BeforePositions;
    form.input = Input::Tokens(Tokens { d_embedding: Some(6), projection, ..Tokens::new(VOCABULARY) });
    form.output.tokens.as_mut().unwrap().projected = true;
    form
}

/// Classes by the last token that is not padding.
pub fn last_token() -> Form {
    let mut form = llama_config().form();
    form.output = Output { classes: Some(3), pooling: form::Pooling::Last, ..Output::default() };
    form
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
        loss(&*self.model, context)
    }
}

/// The target of places that have none.
pub const IGNORED: u32 = u32::MAX;

/// What each model reads and should say. Every target is told by its example, so that all can be learned by heart.
pub fn question(model: &dyn Model) -> Result<(Inputs, Ids)> {
    let (ids, next) = texts();
    // Padding is nobody's target.
    let hidden = |id: usize| if present().values()[id] { next.values()[id] } else { IGNORED };
    let words = Ids::new(&(0..21).map(hidden).collect::<Vec<_>>(), [3, 7])?;
    let padded = Inputs::padded(&ids, &LENGTHS)?;
    let abilities = model.abilities();
    Ok(match (abilities.reads, abilities.predicts) {
        (Reads::Source, _) => {
            // The decoder reads the start token, then what it is to say but for the last.
            let known = |id: &u32| if *id == IGNORED { 0 } else { *id };
            let rows = words.values().chunks(7);
            let answer: Vec<u32> =
                rows.flat_map(|row| [0].into_iter().chain(row[..6].iter().map(known))).collect();
            (padded.answered(&Ids::new(&answer, [3, 7])?, None), words)
        }
        (Reads::Pictures(_), _) => (Inputs::pictures(&images()), Ids::new(&[2, 0, 1], [3])?),
        (_, Predicts::NextToken) => (Inputs::ids(&ids), next),
        (_, Predicts::TokenClass) => {
            let class = |&id: &u32| if id == IGNORED { id } else { id % 2 };
            (padded, Ids::new(&words.values().iter().map(class).collect::<Vec<_>>(), [3, 7])?)
        }
        (_, Predicts::Class) if abilities.classes == 2 => (padded, Ids::new(&[1, 0, 1], [3])?),
        (_, Predicts::Class) => (padded, Ids::new(&[2, 0, 1], [3])?),
        _ => (padded, words),
    })
}

/// How far off a model is on its examples.
pub fn loss(model: &dyn Model, context: &Context) -> Result<Tensor> {
    let (inputs, targets) = question(model)?;
    let hidden = model.hidden(context, &inputs)?;
    if model.abilities().predicts == Predicts::Nothing {
        let off = pool(model, context, &hidden)?.subtract(&normal("pooled", [3, 16]).tanh()?)?;
        return Ok(off.multiply(&off)?.mean_all()?);
    }
    model.loss(context, &hidden, &targets, CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 })
}

/// The first position through the pooler, (batch, width), written out: a model without a classifier has no use for it.
pub fn pool(model: &dyn Model, context: &Context, hidden: &Tensor) -> Result<Tensor> {
    let all = model.parameters();
    let parameter = |name: &str| all.iter().find(|(known, _)| known == name).map(|(_, parameter)| *parameter);
    let [weight, bias] =
        ["pooler.weight", "pooler.bias"].map(|name| context.parameter(parameter(name).unwrap()));
    Ok(hidden.select(1, 0)?.linear(&weight, Some(&bias), Layout::OutIn, Some(Function::Tanh))?)
}

/// Gives every parameter values wide enough that all of them matter; those of norms stay near 1.
pub fn widen(module: &mut (impl Module + ?Sized)) {
    for (name, parameter) in module.parameters_mut() {
        let norm = name.contains("norm") && name.ends_with("weight");
        let around = if norm { 1.0 } else { 0.0 };
        // With these draws no ReLU of a T5 has its corner within the steps that gradients are compared over.
        let draw = name.replace("coder.positions.relative", "coder.distances");
        let values = normal(&draw, parameter.tensor().shape()).affine(0.3, around).unwrap();
        parameter.tensor_mut().set_values(&values.values()).unwrap();
    }
}
