//! The tokens along one side of an attention map: all of them, words instead of pieces, or special ones left out.

use super::token::Token;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Which tokens are shown, and how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TokenDisplay {
    /// Pieces of a word become one: as keys their weights are added, as queries averaged.
    #[serde(default)]
    pub merge: bool,
    /// Special tokens are left out. The weights of the others stay as they are.
    #[serde(default)]
    pub hide: bool,
}

/// The cells along one side of a map, each of which stands for some tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenAxis {
    places: Vec<Range<usize>>,
    plain: bool,
}

impl TokenAxis {
    /// The cells of some tokens. If none would be left, all are shown.
    pub fn new(tokens: &[Token], shown: TokenDisplay) -> Self {
        let mut places: Vec<Range<usize>> = Vec::with_capacity(tokens.len());
        for (i, token) in tokens.iter().enumerate() {
            if shown.hide && token.special {
                continue;
            }
            let goes_on = |place: &Range<usize>| {
                shown.merge && place.end == i && !token.special && tokens[place.start].word == token.word
            };
            match places.last_mut() {
                Some(place) if goes_on(place) => place.end = i + 1,
                _ => places.push(i..i + 1),
            }
        }
        if places.is_empty() {
            places = (0..tokens.len()).map(|i| i..i + 1).collect();
        }
        let plain = places.len() == tokens.len();
        Self { places, plain }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Whether each cell is one token and none is left out.
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    /// The tokens of each cell.
    pub fn places(&self) -> &[Range<usize>] {
        &self.places
    }

    /// The label of each cell.
    pub fn labels(&self, tokens: &[Token]) -> Vec<String> {
        let label = |place: &Range<usize>| {
            let texts: Vec<&str> =
                tokens[place.clone()].iter().map(|t| t.text.trim_start_matches("##")).collect();
            match texts.as_slice() {
                [_] => tokens[place.start].text.clone(),
                several => several.concat(),
            }
        };
        self.places.iter().map(label).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str, special: bool, word: usize) -> Token {
        Token { id: 0, text: text.to_owned(), special, word }
    }

    #[test]
    fn pieces_become_words_and_special_tokens_go() {
        let tokens =
            [token("[CLS]", true, 0), token("un", false, 1), token("##do", false, 1), token(".", false, 2)];
        let axis = |merge, hide| TokenAxis::new(&tokens, TokenDisplay { merge, hide });
        assert_eq!(axis(false, false).places(), [0..1, 1..2, 2..3, 3..4]);
        assert_eq!(axis(true, false).labels(&tokens), ["[CLS]", "undo", "."]);
        assert_eq!(axis(true, true).places(), [1..3, 3..4]);
        assert!(axis(false, false).is_plain() && !axis(false, true).is_plain());
        assert_eq!(
            TokenAxis::new(&tokens[..1], TokenDisplay { merge: true, hide: true }).len(),
            1,
            "never nothing"
        );
    }
}
