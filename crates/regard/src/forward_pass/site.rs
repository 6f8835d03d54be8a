//! One attention of a model: where it is, and which tokens are its queries and keys.

use regard_nn::attention::{AttentionConfig, AttentionKind};
use regard_nn::models::{AttentionSite, Model, Part, Reads, Visibility};
use serde::{Deserialize, Serialize};

/// Which tokens are queries and which are keys.
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
    pub fn queries_target(self) -> bool {
        matches!(self, Self::Decoder | Self::Cross)
    }

    /// Whether keys are tokens of the target.
    pub fn keys_target(self) -> bool {
        self == Self::Decoder
    }
}

/// An attention.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Site {
    /// Its name, such as `layers.0.self`.
    pub name: String,
    /// Which tokens are queries and which are keys.
    pub group: Group,
    /// Its number in its group.
    pub layer: usize,
    /// How many heads it has.
    pub heads: usize,
    /// How many heads share keys and values with others.
    pub shared: usize,
    /// The width of a head.
    pub width: usize,
    /// The factor of dot products.
    pub scale: f32,
    /// Whether a query sees only itself and earlier keys.
    pub causal: bool,
    /// How far back it sees, if not to the beginning.
    pub window: Option<usize>,
    /// How far ahead it sees, if it has a window and looks ahead.
    pub ahead: Option<usize>,
    /// Scores s are cap·tanh(s / cap).
    pub soft_cap: Option<f32>,
    /// Whether a logit without a value takes a share of the weight.
    pub sink: bool,
    /// Whether queries and keys are rotated by their positions.
    pub rotary: bool,
    /// Which keys a query may attend to.
    #[serde(skip)]
    pub visibility: Visibility,
    /// Whether something is added to the scores by distance.
    pub biased: bool,
    /// Whether weights are a softmax of scaled dot products, with or without a soft cap, a bias or a sink.
    pub softmax: bool,
    /// Whether queries, keys and values are known: not for weights that another program computed.
    pub projected: bool,
}

impl Site {
    /// Its layer, such as `layers.5`.
    pub fn layer_name(&self) -> &str {
        self.name.rsplit_once('.').map_or(&self.name, |(layer, _)| layer)
    }

    /// The attentions of a model, in order.
    pub fn all(model: &dyn Model) -> Vec<Self> {
        let both = model.abilities().reads == Reads::Source;
        let mut counts = [0; 4];
        let site = |site: AttentionSite| {
            let (n_heads, d_head) = (site.n_heads, site.d_head);
            let config = site
                .attention
                .map_or_else(|| AttentionConfig::new(n_heads * d_head, n_heads), |own| *own.config());
            let AttentionConfig { n_kv_heads, scale, soft_cap, kind, .. } = config;
            let group = match site.part {
                Part::Cross => Group::Cross,
                Part::Decoder => Group::Decoder,
                Part::Reader if both => Group::Encoder,
                Part::Reader => Group::Itself,
            };
            let layer = counts[group as usize];
            counts[group as usize] += 1;
            Self {
                group,
                layer,
                heads: n_heads,
                shared: n_heads / n_kv_heads.max(1),
                width: d_head,
                scale: scale.factor(d_head),
                causal: site.visibility.causal,
                window: site.visibility.window.map(|window| window.before),
                ahead: site.visibility.window.filter(|_| !site.visibility.causal).map(|window| window.after),
                soft_cap,
                sink: site.has_sink(),
                visibility: site.visibility,
                rotary: site.rotary,
                biased: site.biased,
                softmax: kind == AttentionKind::Softmax || site.has_sink(),
                projected: site.attention.is_some(),
                name: site.name,
            }
        };
        model.attentions().into_iter().map(site).collect()
    }
}
