//! How values are stored: as they are, or in blocks of a few bits each with scales.
//!
//! A block of `Q8_0` and `Q4_0` has 32 values and one scale d: value = d·q, the 4-bit q from −8 to 7. A block of `Q4_K` and `Q6_K` has
//! 256 values, in groups with scales of their own, which are themselves quantised: value = d·s·q − m·t·1 (`Q4_K`: 8 groups of 32, s and
//! t of 6 bits) or d·s·q (`Q6_K`: 16 groups of 16, s of 8 bits, q from −32 to 31). Each value is computed in f32, in the order that
//! ggml's own conversion has, so that all bits agree.

/// The values of a block of `Q4_K` or `Q6_K`.
const SUPER: usize = 256;

/// How the values of a tensor are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BlockType {
    F32,
    F16,
    Bf16,
    Q8_0,
    Q4_0,
    Q4K,
    Q6K,
}

/// The codes of files, the names of the types, the values of a block and its bytes.
const TYPES: [(u32, BlockType, &str, usize, usize); 7] = [
    (0, BlockType::F32, "F32", 1, 4),
    (1, BlockType::F16, "F16", 1, 2),
    (30, BlockType::Bf16, "BF16", 1, 2),
    (8, BlockType::Q8_0, "Q8_0", 32, 34),
    (2, BlockType::Q4_0, "Q4_0", 32, 18),
    (12, BlockType::Q4K, "Q4_K", SUPER, 144),
    (14, BlockType::Q6K, "Q6_K", SUPER, 210),
];

/// Types that are not supported, to name them in errors.
const OTHERS: [(u32, &str); 12] = [
    (3, "Q4_1"),
    (6, "Q5_0"),
    (7, "Q5_1"),
    (9, "Q8_1"),
    (10, "Q2_K"),
    (11, "Q3_K"),
    (13, "Q5_K"),
    (15, "Q8_K"),
    (20, "IQ4_NL"),
    (23, "IQ4_XS"),
    (28, "F64"),
    (39, "MXFP4"),
];

impl BlockType {
    /// The type that files give a number; the name of another type, if it is none of these.
    pub fn from_code(code: u32) -> Result<Self, String> {
        if let Some(found) = TYPES.iter().find(|found| found.0 == code) {
            return Ok(found.1);
        }
        let other = OTHERS.iter().find(|other| other.0 == code);
        Err(other.map_or_else(|| format!("type {code}"), |other| other.1.to_owned()))
    }

    /// The names of all types that can be read.
    pub fn names() -> String {
        TYPES.map(|found| found.2).join(", ")
    }

    /// What the type is called.
    pub fn name(self) -> &'static str {
        TYPES.iter().find(|found| found.1 == self).map_or("", |found| found.2)
    }

    /// Whether values are stored in blocks with a scale.
    pub fn is_quantised(self) -> bool {
        !matches!(self, Self::F32 | Self::F16 | Self::Bf16)
    }

    /// The bytes of a row of values; none if they do not fill whole blocks.
    pub fn row_bytes(self, values: usize) -> Option<usize> {
        let (_, _, _, size, bytes) = TYPES.iter().find(|found| found.1 == self)?;
        values.is_multiple_of(*size).then(|| (values / size).checked_mul(*bytes)).flatten()
    }

    /// Appends the values of a row.
    pub fn widen(self, row: &[u8], values: &mut Vec<f32>) {
        match self {
            Self::F32 => values.extend(row.as_chunks::<4>().0.iter().map(|&word| f32::from_le_bytes(word))),
            Self::F16 => values.extend(row.as_chunks::<2>().0.iter().map(|&word| half(word))),
            Self::Bf16 => values.extend(row.as_chunks::<2>().0.iter().map(|&word| brain(word))),
            Self::Q8_0 => row.as_chunks::<34>().0.iter().for_each(|block| q8_0(block, values)),
            Self::Q4_0 => row.as_chunks::<18>().0.iter().for_each(|block| q4_0(block, values)),
            Self::Q4K => row.as_chunks::<144>().0.iter().for_each(|block| q4_k(block, values)),
            Self::Q6K => row.as_chunks::<210>().0.iter().for_each(|block| q6_k(block, values)),
        }
    }
}

/// The upper half of an f32.
fn brain(word: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(word)) << 16)
}

/// IEEE half precision: 1 sign, 5 exponent and 10 fraction bits.
fn half(word: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(word));
    let (sign, exponent, fraction) = ((bits >> 15) << 31, (bits >> 10) & 31, bits & 0x3ff);
    match exponent {
        // Below the smallest normal number: a multiple of 2⁻²⁴.
        0 => f32::from_bits(sign | (fraction as f32 * 2_f32.powi(-24)).to_bits()),
        31 => f32::from_bits(sign | 0x7f80_0000 | fraction << 13),
        _ => f32::from_bits(sign | (exponent + 112) << 23 | fraction << 13),
    }
}

/// The scale, then 32 values of 8 bits.
fn q8_0(block: &[u8; 34], values: &mut Vec<f32>) {
    let scale = half([block[0], block[1]]);
    values.extend(block[2..].iter().map(|&q| f32::from(q.cast_signed()) * scale));
}

/// The scale, then 16 bytes: the low halves are the first 16 values, the high halves the last.
fn q4_0(block: &[u8; 18], values: &mut Vec<f32>) {
    let scale = half([block[0], block[1]]);
    let value = |q: u8| scale * (f32::from(q) - 8.0);
    values.extend(block[2..].iter().map(|&byte| value(byte & 15)));
    values.extend(block[2..].iter().map(|&byte| value(byte >> 4)));
}

/// Two scales, 8 pairs of 6-bit scales in 12 bytes, then 4 × 32 bytes of two groups each.
fn q4_k(block: &[u8; 144], values: &mut Vec<f32>) {
    let (scale, least) = (half([block[0], block[1]]), half([block[2], block[3]]));
    let (packed, quants) = (&block[4..16], &block[16..]);
    // The first four pairs lie in the low 6 bits of bytes 0–3 and 4–7; of the others the low 4 bits lie in bytes 8–11 and the
    // high 2 bits at the top of bytes 0–3 and 4–7.
    let group = |i: usize| match i {
        0..4 => (packed[i] & 63, packed[i + 4] & 63),
        _ => ((packed[i + 4] & 15) | (packed[i - 4] >> 6) << 4, (packed[i + 4] >> 4) | (packed[i] >> 6) << 4),
    };
    for (pair, bytes) in quants.chunks_exact(32).enumerate() {
        for (member, shift) in [(0, 0), (1, 4)] {
            let (s, m) = group(2 * pair + member);
            let (s, m) = (scale * f32::from(s), least * f32::from(m));
            values.extend(bytes.iter().map(|&byte| s * f32::from((byte >> shift) & 15) - m));
        }
    }
}

/// 128 bytes of low halves, 64 of high quarters, 16 scales, and the scale of those. Each half of the block has 64 low bytes and 32
/// high ones: the low halves of the former are its first 64 values, the high halves the last.
fn q6_k(block: &[u8; 210], values: &mut Vec<f32>) {
    let (low, high, scales) = (&block[..128], &block[128..192], &block[192..208]);
    let scale = half([block[208], block[209]]);
    for (half_block, (low, high)) in low.chunks_exact(64).zip(high.chunks_exact(32)).enumerate() {
        for quarter in 0..4 {
            for place in 0..32 {
                let four = (low[(quarter & 1) * 32 + place] >> (4 * (quarter >> 1))) & 15;
                let two = (high[place] >> (2 * quarter)) & 3;
                let q = f32::from(four | two << 4) - 32.0;
                let group = half_block * 8 + quarter * 2 + place / 16;
                values.push(scale * f32::from(scales[group].cast_signed()) * q);
            }
        }
    }
}
