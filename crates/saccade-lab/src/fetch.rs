//! Downloads.
