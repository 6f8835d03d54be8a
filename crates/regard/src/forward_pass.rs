//! One forward pass, for display: the numbers behind the page and behind `regard view`.
//!
//! A [`ForwardPass`] is one input read by one model. It keeps what the kernels leave behind, from which an [`AttentionMap`]
//! computes any part of any head's weights on demand; nothing of the size of all pairs is kept. [`vectors`] has queries, keys
//! and values of one attention, [`flow`] and [`ribbons`] the attention flow through the layers, [`search`] the texts on which a head does most, [`prediction`] what the model predicts,
//! [`lens`] what each layer would predict, [`intervention`] the changes that a pass may make inside the model,
//! [`head_names`] what heads are called by tested rules.

mod attention_map;
pub mod blank_out;
mod colour_limit;
pub mod flow;
pub mod head_names;
mod input;
pub mod intervention;
pub mod lens;
mod measures;
mod pass;
mod pixels;
pub mod prediction;
mod residual;
pub mod ribbons;
pub mod score_parts;
pub mod search;
mod site;
mod token;
mod token_axis;
pub mod vectors;

pub use attention_map::{AttentionMap, MapKey, MapScale};
pub use colour_limit::ColourLimit;
pub use input::{EncodedInput, Input};
pub use intervention::Intervention;
pub use measures::{HeadMeasures, measure};
pub use pass::{ForwardPass, Interventions};
pub use pixels::{TILE, Thumbnails, Tile, thumbnails, tile};
pub use residual::Residuals;
pub use site::{Group, Site};
pub use token::{ShownToken, Token, meet};
pub use token_axis::{TokenAxis, TokenDisplay};
