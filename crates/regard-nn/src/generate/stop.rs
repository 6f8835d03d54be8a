//! Strings at which a text stops, looked for in text that comes in pieces.

/// Lets text through up to the first stop string, which may come in several pieces and is itself not let through.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    strings: Vec<String>,
    /// The end of what came, as far as it may be the beginning of a stop string.
    held: String,
    stopped: bool,
}

impl Stop {
    /// Stops at any of some strings; empty ones never come.
    pub fn new(strings: &[String]) -> Self {
        let strings = strings.iter().filter(|string| !string.is_empty()).cloned().collect();
        Self { strings, held: String::new(), stopped: false }
    }

    /// Whether a stop string has come.
    pub fn stopped(&self) -> bool {
        self.stopped
    }

    /// What may be shown, now that a piece has come.
    pub fn push(&mut self, piece: &str) -> String {
        if self.stopped {
            return String::new();
        }
        let mut text = std::mem::take(&mut self.held) + piece;
        // The one that begins first counts; everything before what is held is known to have none.
        if let Some(end) = self.strings.iter().filter_map(|string| text.find(string)).min() {
            text.truncate(end);
            self.stopped = true;
            return text;
        }
        let held = self.strings.iter().map(|string| overlap(&text, string)).max().unwrap_or(0);
        self.held = text.split_off(text.len() - held);
        text
    }

    /// What was held back, now that nothing more comes.
    pub fn finish(self) -> String {
        self.held
    }
}

/// The length of the longest end of a text that is a beginning of a string, but not all of it.
fn overlap(text: &str, string: &str) -> usize {
    let beginnings = string.char_indices().map(|(end, _)| end).rev();
    beginnings.into_iter().find(|&end| text.ends_with(&string[..end])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::Stop;
    use proptest::prelude::*;

    /// What is shown of pieces, and whether they were stopped.
    fn shown(pieces: &[String], strings: &[String]) -> (String, bool) {
        let mut stop = Stop::new(strings);
        let mut text: String = pieces.iter().map(|piece| stop.push(piece)).collect();
        let stopped = stop.stopped();
        text += &stop.finish();
        (text, stopped)
    }

    #[test]
    fn a_string_over_several_pieces_is_found_and_not_shown() {
        let pieces = ["The e", "n", "d. And"].map(str::to_owned);
        assert_eq!(shown(&pieces, &["end".to_owned()]), ("The ".to_owned(), true));
        assert_eq!(shown(&pieces, &["ends".to_owned()]), ("The end. And".to_owned(), false));
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(
            pieces in prop::collection::vec("[abé]{0,4}", 0..12),
            strings in prop::collection::vec("[abé]{0,4}", 0..3),
        ) {
            let whole = pieces.concat();
            let first = strings.iter().filter(|s| !s.is_empty()).filter_map(|s| whole.find(s.as_str())).min();
            let (text, stopped) = shown(&pieces, &strings);
            prop_assert_eq!(stopped, first.is_some());
            // Piece by piece, a short string may be seen before a longer one that began earlier is complete.
            match first {
                None => prop_assert_eq!(text, whole),
                Some(_) if strings.len() > 1 => prop_assert!(whole.starts_with(&text)),
                Some(end) => prop_assert_eq!(text, &whole[..end]),
            }
        }
    }
}
