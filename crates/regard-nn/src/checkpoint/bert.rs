//! The configurations and names of BERT, RoBERTa and DistilBERT.

use super::names::Names;
use super::options::{Options, object};
use super::{Plan, StoredWeights};
use crate::error::{Error, Result};
use crate::layers::Activation;
use crate::models::{Bert, BertConfig, BertHeads, Model};
use serde_json::{Map, Value, json};

/// A model that is a BERT but for its names.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Family {
    Bert,
    Roberta,
    DistilBert,
}

/// BERT's and RoBERTa's body.
const BODY: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions", "@embeddings.position_embeddings"),
    ("types", "@embeddings.token_type_embeddings"),
    ("norm", "@embeddings.LayerNorm"),
    ("layers.#.attention.query", "@encoder.layer.#.attention.self.query"),
    ("layers.#.attention.key", "@encoder.layer.#.attention.self.key"),
    ("layers.#.attention.value", "@encoder.layer.#.attention.self.value"),
    ("layers.#.attention.output", "@encoder.layer.#.attention.output.dense"),
    ("layers.#.attention_norm", "@encoder.layer.#.attention.output.LayerNorm"),
    ("layers.#.ffn.up", "@encoder.layer.#.intermediate.dense"),
    ("layers.#.ffn.down", "@encoder.layer.#.output.dense"),
    ("layers.#.ffn_norm", "@encoder.layer.#.output.LayerNorm"),
];

const BERT_HEADS: &[(&str, &str)] = &[
    ("pooler", "@pooler.dense"),
    ("words.transform", "cls.predictions.transform.dense"),
    ("words.norm", "cls.predictions.transform.LayerNorm"),
    ("words.bias", "cls.predictions.bias"),
    ("classifier", "classifier"),
];

const ROBERTA_HEADS: &[(&str, &str)] = &[
    ("words.transform", "lm_head.dense"),
    ("words.norm", "lm_head.layer_norm"),
    ("words.bias", "lm_head.bias"),
    ("classifier", "classifier.out_proj"),
];

const DISTILBERT: &[(&str, &str)] = &[
    ("tokens", "@embeddings.word_embeddings"),
    ("positions", "@embeddings.position_embeddings"),
    ("norm", "@embeddings.LayerNorm"),
    ("layers.#.attention.query", "@transformer.layer.#.attention.q_lin"),
    ("layers.#.attention.key", "@transformer.layer.#.attention.k_lin"),
    ("layers.#.attention.value", "@transformer.layer.#.attention.v_lin"),
    ("layers.#.attention.output", "@transformer.layer.#.attention.out_lin"),
    ("layers.#.attention_norm", "@transformer.layer.#.sa_layer_norm"),
    ("layers.#.ffn.up", "@transformer.layer.#.ffn.lin1"),
    ("layers.#.ffn.down", "@transformer.layer.#.ffn.lin2"),
    ("layers.#.ffn_norm", "@transformer.layer.#.output_layer_norm"),
    ("words.transform", "vocab_transform"),
    ("words.norm", "vocab_layer_norm"),
    ("words.bias", "vocab_projector.bias"),
    ("pooler", "pre_classifier"),
    ("classifier", "classifier"),
];

impl Family {
    fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::Roberta => "roberta.",
            Self::DistilBert => "distilbert.",
        }
    }

    fn names(self, prefix: &'static str, heads: BertHeads) -> Names {
        let mut ignored = vec!["@embeddings.position_ids", "@embeddings.token_type_ids"];
        let mut copies = Vec::new();
        let pairs = match self {
            Self::Bert => {
                ignored.push("cls.seq_relationship");
                copies.extend([
                    ("cls.predictions.decoder.weight", "tokens.weight"),
                    ("cls.predictions.decoder.bias", "words.bias"),
                ]);
                [BODY, BERT_HEADS].concat()
            }
            Self::Roberta => {
                copies.extend([
                    ("lm_head.decoder.weight", "tokens.weight"),
                    ("lm_head.decoder.bias", "words.bias"),
                ]);
                // A classifier has a layer of its own before it; the pooler is that of a bare model.
                let pooler = if heads.classes.is_some() { "classifier.dense" } else { "@pooler.dense" };
                [BODY, ROBERTA_HEADS, &[("pooler", pooler)]].concat()
            }
            Self::DistilBert => {
                copies.push(("vocab_projector.weight", "tokens.weight"));
                DISTILBERT.to_vec()
            }
        };
        if !heads.pooler {
            ignored.push("@pooler.dense");
        }
        Names::new(&pairs, prefix, &ignored).with_copies(&copies)
    }

    /// What the file has on top of the body.
    fn heads(self, weights: &StoredWeights, prefix: &str) -> BertHeads {
        let (words, pooler, classifier) = match self {
            Self::Bert => (
                "cls.predictions.transform.dense.weight",
                format!("{prefix}pooler.dense.weight"),
                "classifier.weight",
            ),
            Self::Roberta => {
                ("lm_head.dense.weight", format!("{prefix}pooler.dense.weight"), "classifier.out_proj.weight")
            }
            Self::DistilBert => {
                ("vocab_transform.weight", "pre_classifier.weight".to_owned(), "classifier.weight")
            }
        };
        let classes = weights.rows(classifier);
        let pooler = weights.contains(&pooler) || self == Self::Roberta && classes.is_some();
        BertHeads { words: weights.contains(words), pooler, classes }
    }
}

pub(super) fn plan(family: Family, mut options: Options, weights: &StoredWeights) -> Result<Plan> {
    let prefix = if weights.any_starts_with(family.prefix()) { family.prefix() } else { "" };
    let heads = family.heads(weights, prefix);
    let config = match family {
        Family::DistilBert => distilbert(&mut options, heads)?,
        _ => bert(family, &mut options, heads)?,
    };
    options.only("tie_word_embeddings", true)?;
    options.ensure_labels(heads.classes)?;
    options.finish()?;
    Ok(Plan {
        names: family.names(prefix, heads),
        build: Box::new(move |initial| Ok(Model::Bert(Bert::build(config.clone(), initial)?))),
    })
}

fn bert(family: Family, options: &mut Options, heads: BertHeads) -> Result<BertConfig> {
    let rows = options.size("max_position_embeddings")?;
    let pad: u32 = options.take_or("pad_token_id", u32::from(family == Family::Roberta))?;
    // RoBERTa counts from the place after the padding's.
    let position_offset = if family == Family::Roberta { pad as usize + 1 } else { 0 };
    let Some(context) = rows.checked_sub(position_offset).filter(|&context| context > 0) else {
        return Err(Error::checkpoint(format!(
            "config.json: {rows} positions are too few for a padding token of {pad}"
        )));
    };
    let activation = options.take_or("hidden_act", Activation::Gelu)?;
    for (key, implemented) in [("is_decoder", false), ("add_cross_attention", false)] {
        options.only(key, implemented)?;
    }
    options.only("position_embedding_type", "absolute")?;
    options.only("embedding_size", Value::Null)?;
    Ok(BertConfig {
        vocabulary: options.size("vocab_size")?,
        context,
        position_offset,
        n_types: options.optional_size("type_vocab_size")?.unwrap_or(2),
        n_layers: options.size("num_hidden_layers")?,
        n_heads: options.size("num_attention_heads")?,
        d_model: options.size("hidden_size")?,
        d_hidden: options.size("intermediate_size")?,
        activation,
        words_activation: if family == Family::Roberta { Activation::Gelu } else { activation },
        pooler_activation: Activation::Tanh,
        norm_epsilon: options.real("layer_norm_eps", 1e-12)?,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("hidden_dropout_prob", 0.1)?,
        heads,
        checkpointing: false,
    })
}

fn distilbert(options: &mut Options, heads: BertHeads) -> Result<BertConfig> {
    let activation = options.take_or("activation", Activation::Gelu)?;
    // A table of waves is stored like any other.
    options.take::<bool>("sinusoidal_pos_embds")?;
    Ok(BertConfig {
        vocabulary: options.size("vocab_size")?,
        context: options.size("max_position_embeddings")?,
        position_offset: 0,
        n_types: 0,
        n_layers: options.size("n_layers")?,
        n_heads: options.size("n_heads")?,
        d_model: options.size("dim")?,
        d_hidden: options.size("hidden_dim")?,
        activation,
        words_activation: activation,
        pooler_activation: Activation::Relu,
        norm_epsilon: 1e-12,
        deviation: options.real("initializer_range", 0.02)?,
        dropout: options.real("dropout", 0.1)?,
        heads,
        checkpointing: false,
    })
}

/// The family that a model belongs to: DistilBERT has no types, RoBERTa counts positions from another place.
fn family(config: &BertConfig) -> Family {
    match (config.n_types, config.position_offset) {
        (0, _) => Family::DistilBert,
        (_, 0) => Family::Bert,
        _ => Family::Roberta,
    }
}

/// Whether a model is one that its family at Hugging Face can be: some of its settings have no place there.
pub(super) fn writes(config: &BertConfig) -> bool {
    let family = family(config);
    let of_pooler = if family == Family::DistilBert { Activation::Relu } else { Activation::Tanh };
    let of_words = if family == Family::Roberta { Activation::Gelu } else { config.activation };
    (!config.heads.pooler || config.pooler_activation == of_pooler)
        && (!config.heads.words || config.words_activation == of_words)
        && (family != Family::DistilBert || config.position_offset == 0 && config.norm_epsilon == 1e-12)
}

pub(super) fn written(config: &BertConfig) -> (Map<String, Value>, Names) {
    let family = family(config);
    let body = match family {
        Family::Bert => "Bert",
        Family::Roberta => "Roberta",
        Family::DistilBert => "DistilBert",
    };
    let (task, bare) = match config.heads {
        BertHeads { classes: Some(_), .. } => ("ForSequenceClassification", false),
        BertHeads { words: true, .. } => ("ForMaskedLM", false),
        _ => ("Model", true),
    };
    let mut value = if family == Family::DistilBert {
        json!({
            "model_type": "distilbert",
            "n_layers": config.n_layers,
            "n_heads": config.n_heads,
            "dim": config.d_model,
            "hidden_dim": config.d_hidden,
            "activation": config.activation,
            "max_position_embeddings": config.context,
            "dropout": config.dropout,
            "attention_dropout": config.dropout,
        })
    } else {
        json!({
            "model_type": if family == Family::Bert { "bert" } else { "roberta" },
            "num_hidden_layers": config.n_layers,
            "num_attention_heads": config.n_heads,
            "hidden_size": config.d_model,
            "intermediate_size": config.d_hidden,
            "hidden_act": config.activation,
            "type_vocab_size": config.n_types,
            "max_position_embeddings": config.context + config.position_offset,
            "layer_norm_eps": config.norm_epsilon,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.dropout,
        })
    };
    value["architectures"] = json!([format!("{body}{task}")]);
    value["vocab_size"] = json!(config.vocabulary);
    value["initializer_range"] = json!(config.deviation);
    value["torch_dtype"] = json!("float32");
    if family == Family::Roberta {
        value["pad_token_id"] = json!(config.position_offset - 1);
    }
    if let Some(classes) = config.heads.classes {
        let label = |class: usize| format!("LABEL_{class}");
        value["id2label"] = (0..classes).map(|class| (class.to_string(), json!(label(class)))).collect();
        value["label2id"] = (0..classes).map(|class| (label(class), json!(class))).collect();
    }
    let prefix = if bare { "" } else { family.prefix() };
    (object(value), family.names(prefix, config.heads))
}
