//! SentencePiece's table of character replacements, which `tokenizer.json` files of T5 and others contain.
//!
//! Base64 of: the trie's length in bytes (32 bits), the trie as 32-bit units of a double array, then replacements, each
//! ended by a zero byte. A leaf's value is an offset into the replacements. The library that uses the table does not check
//! its offsets; here every node that a text could reach is visited once.

/// Rejects a table with offsets outside of it.
pub(super) fn check(text: &str) -> Result<(), String> {
    let bytes = decode(text).ok_or("not base64")?;
    // An empty table would change nothing, but the library cannot read it.
    let (head, rest) = bytes.split_at_checked(4).ok_or("shorter than its own length field")?;
    let length = u32::from_le_bytes([head[0], head[1], head[2], head[3]]) as usize;
    let (units, replacements) =
        rest.split_at_checked(length / 4 * 4).ok_or("the trie is longer than the table")?;
    let units: Vec<Unit> = units
        .chunks_exact(4)
        .map(|unit| Unit(u32::from_le_bytes([unit[0], unit[1], unit[2], unit[3]])))
        .collect();
    let replacements = str::from_utf8(replacements).map_err(|_| "the replacements are not UTF-8")?;
    walk(&units, replacements)
}

/// A unit of a double array, as in Darts: a label, whether a leaf follows, and the distance to the children.
#[derive(Clone, Copy)]
struct Unit(u32);

impl Unit {
    fn label(self) -> usize {
        self.0 as usize & ((1 << 31) | 0xff)
    }

    fn has_leaf(self) -> bool {
        self.0 >> 8 & 1 == 1
    }

    fn value(self) -> usize {
        self.0 as usize & 0x7fff_ffff
    }

    fn offset(self) -> usize {
        (self.0 as usize >> 10) << ((self.0 & (1 << 9)) >> 6)
    }
}

fn walk(units: &[Unit], replacements: &str) -> Result<(), String> {
    let outside = || "the trie points outside of itself".to_owned();
    let root = units.first().ok_or("the trie is empty")?;
    let mut visited = vec![false; units.len()];
    let mut bases = vec![root.offset()];
    while let Some(base) = bases.pop() {
        for byte in 1..256 {
            let place = base ^ byte;
            let unit = *units.get(place).ok_or_else(outside)?;
            if unit.label() != byte || std::mem::replace(&mut visited[place], true) {
                continue;
            }
            let children = place ^ unit.offset();
            if unit.has_leaf() {
                let leaf = units.get(children).ok_or_else(outside)?;
                if !replacements.is_char_boundary(leaf.value()) {
                    return Err("a leaf points outside of the replacements".into());
                }
            }
            bases.push(children);
        }
    }
    Ok(())
}

/// Bytes of base64 with the usual alphabet and padding.
fn decode(text: &str) -> Option<Vec<u8>> {
    let digits = text.trim_end_matches('=').as_bytes();
    let mut bytes = Vec::with_capacity(digits.len() / 4 * 3 + 3);
    for group in digits.chunks(4) {
        let mut word = 0_u32;
        for &digit in group {
            let value = match digit {
                b'A'..=b'Z' => digit - b'A',
                b'a'..=b'z' => digit - b'a' + 26,
                b'0'..=b'9' => digit - b'0' + 52,
                b'+' => 62,
                b'/' => 63,
                _ => return None,
            };
            word = word << 6 | u32::from(value);
        }
        let count = group.len();
        word <<= 6 * (4 - count);
        bytes.extend_from_slice(&word.to_be_bytes()[1..count]);
    }
    (digits.len() % 4 != 1).then_some(bytes)
}
