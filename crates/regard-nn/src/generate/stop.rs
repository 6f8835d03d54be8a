//! Stop strings in a text that arrives in pieces.

/// Passes text through up to the first stop string, which may be split over several pieces and is itself left out.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    strings: Vec<String>,
    /// The end of the text so far, if it may be the beginning of a stop string.
    held: String,
    stopped: bool,
}

impl Stop {
    /// Stops at any of these strings; empty ones are ignored.
    pub fn new(strings: &[String]) -> Self {
        let strings = strings.iter().filter(|string| !string.is_empty()).cloned().collect();
        Self { strings, held: String::new(), stopped: false }
    }

    /// Whether a stop string was found.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// Adds a piece, and returns the text that is certain to come before any stop string.
    pub fn push(&mut self, piece: &str) -> String {
        if self.stopped {
            return String::new();
        }
        let mut text = std::mem::take(&mut self.held) + piece;
        // The stop string that begins first counts; text before the held part contains none.
        if let Some(end) = self.strings.iter().filter_map(|string| text.find(string)).min() {
            text.truncate(end);
            self.stopped = true;
            return text;
        }
        let held = self.strings.iter().map(|string| overlap(&text, string)).max().unwrap_or(0);
        self.held = text.split_off(text.len() - held);
        text
    }

    /// The text held back, at the end of the input.
    pub fn finish(self) -> String {
        self.held
    }
}

/// The length of the longest suffix of a text that is a proper prefix of a string.
fn overlap(text: &str, string: &str) -> usize {
    let beginnings = string.char_indices().map(|(end, _)| end).rev();
    beginnings.into_iter().find(|&end| text.ends_with(&string[..end])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Stop;
    use proptest::prelude::*;

    /// The text that passes, and whether a stop string was found.
    fn passed(pieces: &[String], strings: &[String]) -> (String, bool) {
        let mut stop = Stop::new(strings);
        let mut text: String = pieces.iter().map(|piece| stop.push(piece)).collect();
        let stopped = stop.stopped();
        text += &stop.finish();
        (text, stopped)
    }

    #[test]
    fn a_stop_string_split_over_pieces_is_found_and_removed() {
        let pieces = ["The e", "n", "d. And"].map(str::to_owned);
        assert_eq!(passed(&pieces, &["end".to_owned()]), ("The ".to_owned(), true));
        assert_eq!(passed(&pieces, &["ends".to_owned()]), ("The end. And".to_owned(), false));
    }

    proptest! {
        #[test]
        fn the_split_into_pieces_has_no_effect(
            pieces in prop::collection::vec("[abé]{0,4}", 0..12),
            strings in prop::collection::vec("[abé]{0,4}", 0..3),
        ) {
            let whole = pieces.concat();
            let first = strings.iter().filter(|s| !s.is_empty()).filter_map(|s| whole.find(s.as_str())).min();
            let (text, stopped) = passed(&pieces, &strings);
            prop_assert_eq!(stopped, first.is_some());
            // Piece by piece, a short string may be found before a longer one that began earlier is complete.
            match first {
                None => prop_assert_eq!(text, whole),
                Some(_) if strings.len() > 1 => prop_assert!(whole.starts_with(&text)),
                Some(end) => prop_assert_eq!(text, &whole[..end]),
            }
        }
    }
}
