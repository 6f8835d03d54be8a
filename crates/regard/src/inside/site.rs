//! One attention of a model: where it is and what it looks at.

use regard_nn::analysis::Sight;
use regard_nn::attention::{AttentionConfig, AttentionKind};
use regard_nn::models::Model;
use regard_nn::position::Position;
use serde::{Deserialize, Serialize};

/// Who looks at whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Group {
    /// Everything in models that read one text.
    #[serde(rename = "self")]
    Itself,
    /// The source at itself.
    Encoder,
    /// The target at itself.
    Decoder,
    /// The target at the source.
    Cross,
}

impl Group {
    /// Whether queries are tokens of the target.
    pub fn asks_from_target(self) -> bool {
        matches!(self, Self::Decoder | Self::Cross)
    }

    /// Whether keys are tokens of the target.
    pub fn looks_at_target(self) -> bool {
        self == Self::Decoder
    }
}

/// An attention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Site {
    /// Its name, such as `layers.0.self`.
    pub name: String,
    /// Who looks at whom.
    pub group: Group,
    /// Its number in its group.
    pub layer: usize,
    /// How many heads it has.
    pub heads: usize,
    /// How many heads share keys and values with others.
    pub shared: usize,
    /// The width of a head.
    pub width: usize,
    /// What dot products are multiplied with.
    pub scale: f32,
    /// Whether a query sees only what came before it.
    pub causal: bool,
    /// How far back it sees, if not to the beginning.
    pub window: Option<usize>,
    /// Whether queries and keys are turned by their place.
    pub rotary: bool,
    /// Whether something is added to the scores by distance.
    pub biased: bool,
    /// Whether weights are a softmax of scaled dot products.
    pub softmax: bool,
}

impl Site {
    /// The attentions of a model, in order.
    pub fn all(model: &Model) -> Vec<Self> {
        let sight = Sight::of(model);
        let (rotary, biased) = match model {
            Model::Gpt(gpt) => positions(gpt.config().positions),
            Model::Tagger(tagger) => positions(tagger.config().positions),
            Model::Bag(bag) => positions(bag.config().positions),
            Model::Llama(_) => (true, false),
            Model::T5(_) => (false, true),
            _ => (false, false),
        };
        let mut counts = [0; 4];
        let site = |(name, attention): (String, &regard_nn::attention::MultiHead)| {
            let AttentionConfig { n_heads, n_kv_heads, d_head, scale, kind, .. } = *attention.config();
            let group = group(&name);
            let layer = counts[group as usize];
            counts[group as usize] += 1;
            Self {
                group,
                layer,
                heads: n_heads,
                shared: n_heads / n_kv_heads.max(1),
                width: d_head,
                scale: scale.factor(d_head),
                causal: sight.causal || group == Group::Decoder,
                window: sight.window,
                rotary,
                biased: biased && group != Group::Cross,
                softmax: kind == AttentionKind::Softmax,
                name,
            }
        };
        model.attentions().into_iter().map(site).collect()
    }

    /// Which keys a query may see.
    pub fn sight(&self) -> Sight {
        Sight { causal: self.causal, window: self.window }
    }
}

/// Whether positions turn queries and keys, and whether they are added to scores.
fn positions(positions: Position) -> (bool, bool) {
    (positions.pairing().is_some(), matches!(positions, Position::Alibi | Position::Relative))
}

fn group(name: &str) -> Group {
    match name {
        name if name.rsplit('.').next() == Some("cross") => Group::Cross,
        name if name.starts_with("encoder.") => Group::Encoder,
        name if name.starts_with("decoder.") => Group::Decoder,
        _ => Group::Itself,
    }
}
