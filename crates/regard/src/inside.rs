//! What there is to see when a model reads something: the numbers behind the page and behind `regard view`.
//!
//! A [`Reading`] is one input read by one model. It keeps what the kernels leave behind, from which a [`Grid`] computes any
//! part of any head's weights when someone looks at it; nothing of the size of all pairs is kept. [`vectors`] has queries,
//! keys and values of one attention, [`flow`] the way through the layers, [`answer`] what the model says.

pub mod answer;
mod axis;
pub mod flow;
mod grid;
mod input;
mod measures;
mod pixels;
mod reading;
mod site;
mod token;
mod top;
pub mod vectors;

pub use axis::{Axis, Shown};
pub use grid::{Grid, Scale, Which};
pub use input::Input;
pub use measures::{HeadMeasures, measure};
pub use pixels::{TILE, Thumbnails, Tile, thumbnails, tile};
pub use reading::Reading;
pub use site::{Group, Site};
pub use token::{Token, meet};
pub use top::Top;
