//! The operations, one idea a file: what it is, its value, its gradient.

pub(crate) mod arithmetic;
mod attention;
mod decode;
mod dropout;
mod embedding;
mod layout;
mod linear;
mod loss;
mod lstm;
mod matmul;
mod norm;
mod patches;
mod pointwise;
mod reduce;
mod rotary;
mod softmax;

pub use crate::kernels::linear::Layout;
pub use crate::kernels::pointwise::Function;
pub use crate::kernels::rotary::Pairing;
pub use attention::{Allowed, Attended, Attention, Bias, Projections, attend};
pub use decode::{Decoding, decode};
pub use dropout::Dropout;
pub use layout::concatenate;
pub use loss::CrossEntropy;
pub use lstm::{LstmWeights, lstm};
