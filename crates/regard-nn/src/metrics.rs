//! Metrics: accuracy, precision, recall, F1, ROC-AUC, confusion matrix, perplexity, BLEU.
//!
//! ```
//! use regard_nn::metrics::{Confusion, RocCurve, perplexity};
//!
//! let confusion = Confusion::of(2, &[1, 1, 1, 0], &[1, 1, 0, 0])?;
//! assert_eq!(confusion.accuracy(), 0.75);
//! assert_eq!(confusion.recall(1), 2.0 / 3.0);
//! assert_eq!(RocCurve::of(&[false, true, true], &[0.2, 0.7, 0.4])?.area(), 1.0);
//! assert_eq!(perplexity(3.0 * 8_f64.ln(), 3)?, 8_f64.ln().exp());
//! # Ok::<(), regard_nn::Error>(())
//! ```

mod bleu;
mod classification;
mod ranking;

pub use bleu::{Bleu, BleuScore, tokenize_13a};
pub use classification::Confusion;
pub use ranking::{RocCurve, RocPoint};

use crate::error::{Error, Result};

/// exp(total loss ÷ number of tokens), where the loss of a token is −ln of its probability.
///
/// Infinite if the exponential overflows.
pub fn perplexity(total_loss: f64, tokens: u64) -> Result<f64> {
    if tokens == 0 {
        return Err(Error::metric("perplexity", "there are no tokens"));
    }
    if total_loss.is_nan() {
        return Err(Error::metric("perplexity", "the loss is not a number"));
    }
    Ok((total_loss / tokens as f64).exp())
}
