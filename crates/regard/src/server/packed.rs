//! Answers with many numbers: the length of a JSON text in four bytes, little-endian, the JSON, then the numbers.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

/// A JSON text with bytes behind it.
pub struct Packed {
    bytes: Vec<u8>,
}

impl Packed {
    /// With bytes.
    pub fn bytes(about: &impl Serialize, bytes: &[u8]) -> Self {
        let mut about = serde_json::to_vec(about).unwrap_or_else(|_| b"{}".to_vec());
        // Numbers of four bytes begin at a multiple of four.
        about.resize(about.len().next_multiple_of(4), b' ');
        let mut all = (about.len() as u32).to_le_bytes().to_vec();
        all.append(&mut about);
        all.extend_from_slice(bytes);
        Self { bytes: all }
    }

    /// With `f32` numbers, little-endian.
    pub fn reals(about: &impl Serialize, values: &[f32]) -> Self {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        Self::bytes(about, &bytes)
    }
}

impl IntoResponse for Packed {
    fn into_response(self) -> Response {
        ([(header::CONTENT_TYPE, "application/octet-stream")], self.bytes).into_response()
    }
}
