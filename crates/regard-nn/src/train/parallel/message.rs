//! Numbers as bytes, and gradients inside messages.

use crate::error::{Error, Result};
use regard_tensor::{Gradient, RowGradient, Tensor};

/// How a gradient stands in a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Absent = 0,
    Dense = 1,
    Rows = 2,
    /// Its values travel between the devices.
    Apart = 3,
}

impl Kind {
    pub fn of(gradient: Option<&Gradient>, apart: bool) -> Self {
        match gradient {
            None => Self::Absent,
            Some(Gradient::Dense(_)) if apart => Self::Apart,
            Some(Gradient::Dense(_)) => Self::Dense,
            Some(Gradient::Rows(_)) => Self::Rows,
        }
    }
}

/// 32-bit integers in bytes.
pub(super) fn numbers(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes.chunks_exact(4).map(|four| u32::from_le_bytes([four[0], four[1], four[2], four[3]]))
}

/// 32-bit floats in bytes.
pub(super) fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    numbers(bytes).map(f32::from_bits)
}

/// Appends floats.
pub(super) fn put_floats(message: &mut Vec<u8>, values: &[f32]) {
    let start = message.len();
    message.resize(start + 4 * values.len(), 0);
    // A loop that becomes one copy, which a chain of bytes does not.
    for (four, value) in message[start..].chunks_exact_mut(4).zip(values) {
        four.copy_from_slice(&value.to_le_bytes());
    }
}

/// Appends the rows of a sparse gradient.
pub(super) fn put_rows(message: &mut Vec<u8>, rows: &RowGradient) {
    message.extend((rows.rows().len() as u32).to_le_bytes());
    message.extend(rows.rows().iter().flat_map(|row| row.to_le_bytes()));
    put_floats(message, &rows.values().values());
}

/// Reads a message from its beginning on.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count).ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(first)
    }

    pub fn kind(&mut self) -> Result<Kind> {
        match self.bytes(1)? {
            [0] => Ok(Kind::Absent),
            [1] => Ok(Kind::Dense),
            [2] => Ok(Kind::Rows),
            [3] => Ok(Kind::Apart),
            _ => Err(cut_short()),
        }
    }

    pub fn floats(&mut self, count: usize) -> Result<impl Iterator<Item = f32> + 'a> {
        Ok(floats(self.bytes(4 * count)?))
    }

    /// A sparse gradient of a table with this many rows and columns.
    pub fn rows(&mut self, (table_rows, width): (usize, usize)) -> Result<Gradient> {
        let count = numbers(self.bytes(4)?).next().unwrap_or_default() as usize;
        if count > table_rows {
            return Err(cut_short());
        }
        let rows: Vec<u32> = numbers(self.bytes(4 * count)?).collect();
        let values: Vec<f32> = self.floats(count * width)?.collect();
        let values = Tensor::new(&values, [count, width])?;
        Ok(Gradient::Rows(RowGradient::new(&rows, &values, table_rows)?))
    }
}

fn cut_short() -> Error {
    Error::input("ranks", "a message has another form than expected: do all ranks run the same program?")
}
