//! Word counts, with words as a tokenizer's normalizer and pre-tokenizer split them.

use super::recipe::TokenizerRecipe;
use super::{files, guarded, threads};
use crate::error::Result;
use std::collections::{BTreeMap, HashMap};
use tokenizers::{
    NormalizedString, Normalizer, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer,
};

/// The amount of text in memory, in bytes: enough to keep all threads busy.
const AT_A_TIME: usize = 8 << 20;

/// The number of parts that are counted in parallel.
const PARTS: usize = 32;

/// How often each word occurs. Ordered by word, so that results do not depend on the order of a hash table.
pub(super) type Counts = BTreeMap<String, u64>;

/// Counts the words of `texts` as the recipe's normalizer and pre-tokenizer split them.
pub(super) fn words<T: AsRef<str>>(
    texts: impl IntoIterator<Item = T>,
    recipe: &TokenizerRecipe,
) -> Result<Counts> {
    // The model is not used.
    let model = super::recipe::word_level(&["<unk>".to_owned()], "<unk>");
    let cutter = files::build(&TokenizerRecipe { model, ..recipe.clone() }.to_json())?;
    let mut total: HashMap<String, u64> = HashMap::new();
    let mut texts = texts.into_iter();
    loop {
        let mut batch: Vec<String> = Vec::new();
        let mut bytes = 0;
        while bytes < AT_A_TIME
            && let Some(text) = texts.next()
        {
            let text = text.as_ref().to_owned();
            bytes += text.len().max(1);
            batch.push(text);
        }
        if batch.is_empty() {
            return Ok(total.into_iter().collect());
        }
        let parts: Vec<&[String]> = batch.chunks(batch.len().div_ceil(PARTS)).collect();
        let counts = threads::map(&parts, |texts| {
            let mut counts = HashMap::new();
            texts.iter().try_for_each(|text| count(&cutter, text, &mut counts))?;
            Ok(counts)
        })?;
        for (word, count) in counts.into_iter().flatten() {
            *total.entry(word).or_default() += count;
        }
    }
}

/// Adds the words of a text to the counts.
fn count(cutter: &tokenizers::Tokenizer, text: &str, counts: &mut HashMap<String, u64>) -> Result<()> {
    guarded("counting words", || {
        let mut normalized = NormalizedString::from(text);
        if let Some(normalizer) = cutter.get_normalizer() {
            normalizer.normalize(&mut normalized)?;
        }
        let mut cut = PreTokenizedString::from(normalized);
        if let Some(pre_tokenizer) = cutter.get_pre_tokenizer() {
            pre_tokenizer.pre_tokenize(&mut cut)?;
        }
        for (word, ..) in cut.get_splits(OffsetReferential::Original, OffsetType::None) {
            if let Some(count) = counts.get_mut(word) {
                *count += 1;
            } else {
                counts.insert(word.to_owned(), 1);
            }
        }
        Ok(())
    })
}

/// The words that occur at least `minimum` times, most frequent first, ties in the order of the words.
pub(super) fn most_frequent(counts: Counts, minimum: u64) -> Vec<String> {
    let mut words: Vec<(String, u64)> = counts.into_iter().filter(|&(_, count)| count >= minimum).collect();
    words.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
    words.into_iter().map(|(word, _)| word).collect()
}
