//! `TensorBoard` event files: the curves of a run, as `tensorboard --logdir FOLDER` reads them.
//!
//! A file is a sequence of `TFRecord`s, each an `Event` message of Protocol Buffers:
//!
//! ```text
//! length: u64   masked crc32c of length: u32   data   masked crc32c of data: u32        little-endian
//! Event   { 1: wall_time double, 2: step int64, 3: file_version string, 5: summary Summary, 7: session_log SessionLog }
//! Summary { 1: value { 1: tag string, 2: simple_value float } }        SessionLog { 1: status enum, 1 is START }
//! ```

use anyhow::{Context as _, Result};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A file of events to which curves are added.
pub struct EventFile(File);

impl EventFile {
    /// A new file in a folder. Points after `step` that earlier files there have are void: the run begins from it.
    pub fn create(folder: &Path, step: u64) -> Result<Self> {
        let cannot = || format!("cannot write event files to {}", folder.display());
        std::fs::create_dir_all(folder).with_context(cannot)?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        // TensorBoard reads the files of a folder in the order of their names.
        let name = format!("events.out.tfevents.{:010}.{:09}.regard", now.as_secs(), now.subsec_nanos());
        let mut events = Self(File::create_new(folder.join(name)).with_context(cannot)?);
        events.write(&[string(3, b"brain.Event:2")]).with_context(cannot)?;
        let started = message(7, &varint_field(1, 1));
        events.write(&[varint_field(2, step + 1), started]).with_context(cannot)?;
        Ok(events)
    }

    /// Adds a point to each of some curves.
    pub fn add(&mut self, step: u64, points: &[(&str, f64)]) -> std::io::Result<()> {
        let values = points.iter().map(|(tag, value)| {
            let simple = [&[0x15][..], &(*value as f32).to_le_bytes()].concat();
            message(1, &[string(1, tag.as_bytes()), simple].concat())
        });
        let summary: Vec<u8> = values.flatten().collect();
        self.write(&[varint_field(2, step), message(5, &summary)])?;
        self.0.flush()
    }

    /// Writes an event, with the time.
    fn write(&mut self, fields: &[Vec<u8>]) -> std::io::Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let event = [&[0x09][..], &now.to_le_bytes(), &fields.concat()].concat();
        let length = (event.len() as u64).to_le_bytes();
        let record =
            [&length[..], &masked(&length).to_le_bytes(), &event, &masked(&event).to_le_bytes()].concat();
        self.0.write_all(&record)
    }
}

/// A number in groups of seven bits, the lowest first.
fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

fn varint_field(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

/// A field of bytes, with their length.
fn string(field: u64, bytes: &[u8]) -> Vec<u8> {
    [&varint(field << 3 | 2)[..], &varint(bytes.len() as u64), bytes].concat()
}

fn message(field: u64, bytes: &[u8]) -> Vec<u8> {
    string(field, bytes)
}

/// The checksum of a record: rotated and shifted, since data that hold their own checksums would be weakly protected.
fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// The cyclic redundancy check with the polynomial of Castagnoli, bit-reversed.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |sum, &byte| {
        (0..8).fold(sum ^ u32::from(byte), |sum, _| (sum >> 1) ^ (0x82f6_3b78 * (sum & 1)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_those_of_the_standard() {
        // RFC 3720, appendix B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn numbers_are_written_in_groups_of_seven_bits() {
        assert_eq!(varint(0), [0]);
        assert_eq!(varint(127), [0x7f]);
        assert_eq!(varint(300), [0xac, 0x02]);
        assert_eq!(varint_field(2, 1), [0x10, 1]);
    }
}
