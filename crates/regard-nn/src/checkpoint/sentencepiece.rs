//! SentencePiece's byte-pair encoding in the terms of Hugging Face's: merges in an order instead of scores.

use std::collections::HashMap;

/// Every way to make a piece of two others, the best score first; equal scores in the order of ids. `None` stands for pieces that are
/// neither joined nor the result of joining: special ones and bytes.
pub(super) fn merges(pieces: &[Option<(f32, String)>]) -> Vec<(String, String)> {
    let ids: HashMap<&str, usize> =
        pieces.iter().enumerate().filter_map(|(id, piece)| Some((piece.as_ref()?.1.as_str(), id))).collect();
    let mut found: Vec<(f32, usize, usize)> = Vec::new();
    for (id, piece) in pieces.iter().enumerate() {
        let Some((score, text)) = piece else { continue };
        let cuts = text.char_indices().map(|(cut, _)| cut).skip(1);
        let ways = cuts.filter(|&cut| ids.contains_key(&text[..cut]) && ids.contains_key(&text[cut..]));
        found.extend(ways.map(|cut| (*score, id, cut)));
    }
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
    let pair = |(_, id, cut): (f32, usize, usize)| {
        let (left, right) = pieces[id].as_ref()?.1.split_at(cut);
        Some((left.to_owned(), right.to_owned()))
    };
    found.into_iter().filter_map(pair).collect()
}
