//! Training the tokenizer of a configuration from texts.

use super::config::{TokensConfig, TokensKind};
use anyhow::Result;
use regard_nn::tokens::{
    BytePairSettings, Tokenizer, UnknownCharacter, WhitespaceSettings, WordPieceSettings, WordSettings,
};

/// Makes a tokenizer; with a mask for models that guess words, with an end token for those that must predict the end.
pub fn make_tokenizer(
    config: &TokensConfig,
    texts: &mut dyn Iterator<Item = String>,
    mask: bool,
    ends: bool,
) -> Result<Tokenizer> {
    let TokensConfig { size, minimum_count, lowercase, punctuation, .. } = *config;
    Ok(match config.kind {
        TokensKind::Words => Tokenizer::words(
            texts,
            &WordSettings { maximum: size, minimum_count, lowercase, punctuation, mask },
        )?,
        TokensKind::Whitespace => {
            Tokenizer::whitespace_words(texts, &WhitespaceSettings { maximum: size, minimum_count })?
        }
        TokensKind::Characters => Tokenizer::characters(texts, UnknownCharacter::Error)?,
        TokensKind::WordPieces => {
            let settings =
                WordPieceSettings { size, minimum_count: minimum_count.max(2), lowercase, alphabet: 1_000 };
            Tokenizer::word_pieces(texts, &settings)?
        }
        TokensKind::BytePairs => {
            let mut settings =
                BytePairSettings { size, minimum_count: minimum_count.max(2), ..Default::default() };
            if ends {
                settings.special = vec!["<pad>".to_owned(), "</s>".to_owned()];
                settings.end = Some("</s>".to_owned());
            }
            Tokenizer::byte_pairs(texts, &settings)?
        }
    })
}
