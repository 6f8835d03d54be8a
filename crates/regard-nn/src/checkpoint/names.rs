//! What a parameter is called here and in a file.

use super::part::Part;

/// In a name of theirs, the number of a row: of a parameter of ours they have each row as a tensor of its own.
pub(super) const ROW: char = '*';

/// Pairs of names, ours and theirs. A name stands for all that begins with it; `#` for a number; `@` in theirs for a
/// prefix that some files have and others have not.
pub struct Names {
    pairs: Vec<(&'static str, &'static str)>,
    prefix: &'static str,
    has_own_prefix: bool,
    /// Tensors of theirs that mean nothing to us, in the same notation.
    ignored: Vec<&'static str>,
    /// Tensors of theirs that repeat one of ours, with its name.
    copies: Vec<(&'static str, &'static str)>,
    /// Tensors of ours that have one more axis, of length 1, in front in the file.
    leading_axis: Vec<&'static str>,
    /// Tensors of ours that are a part of one of theirs.
    parts: Vec<(&'static str, Part)>,
}

impl Names {
    pub(super) fn new(pairs: &[(&'static str, &'static str)], ignored: &[&'static str]) -> Self {
        Self { pairs: pairs.to_vec(), ignored: ignored.to_vec(), ..Self::own() }
    }

    /// What `@` stands for, unless these names know better.
    pub(super) fn with_prefix(self, prefix: &'static str) -> Self {
        if self.has_own_prefix { self } else { Self { prefix, ..self } }
    }

    /// What `@` stands for, whatever the head.
    pub(super) fn with_own_prefix(self, prefix: &'static str) -> Self {
        Self { prefix, has_own_prefix: true, ..self }
    }

    /// Names tensors of ours that have one more axis, of length 1, in front in the file.
    pub(super) fn with_leading_axis(self, names: &[&'static str]) -> Self {
        Self { leading_axis: names.to_vec(), ..self }
    }

    /// Names tensors of ours that are a part of one of theirs.
    pub(super) fn with_parts(self, parts: Vec<(&'static str, Part)>) -> Self {
        Self { parts, ..self }
    }

    /// Where one of our parameters lies in theirs if it is a part of it, with the numbers in its name.
    pub(super) fn part(&self, ours: &str) -> Option<(&Part, Vec<usize>)> {
        self.parts.iter().find_map(|(pattern, part)| {
            let (numbers, rest) = fit(pattern, ours)?;
            let numbers = numbers.iter().map(|number| number.parse().ok()).collect::<Option<_>>()?;
            rest.is_empty().then_some((part, numbers))
        })
    }

    /// The shape in the file of one of our parameters.
    pub(super) fn their_shape(&self, ours: &str, shape: &[usize]) -> Vec<usize> {
        if let Some((part, _)) = self.part(ours) {
            return part.shape.clone();
        }
        let leading = self.leading_axis.contains(&ours);
        leading.then_some(1).into_iter().chain(shape.iter().copied()).collect()
    }

    /// Adds tensors of theirs that must be the same as one of ours, as tied weights are: (theirs, ours).
    pub(super) fn with_copies(mut self, copies: &[(&'static str, &'static str)]) -> Self {
        self.copies.extend(copies);
        self
    }

    /// The tensors that repeat others: their name and that of the original, both as the file has them.
    pub(super) fn copies(&self) -> impl Iterator<Item = (String, String)> + '_ {
        let named = |(copy, ours): &(&str, &str)| {
            let copy =
                copy.strip_prefix('@').map_or((*copy).to_owned(), |copy| format!("{}{copy}", self.prefix));
            Some((copy, self.theirs(ours)?))
        };
        self.copies.iter().filter_map(named)
    }

    /// Names that are the same on both sides.
    pub(super) fn own() -> Self {
        Self {
            pairs: Vec::new(),
            prefix: "",
            has_own_prefix: false,
            ignored: Vec::new(),
            copies: Vec::new(),
            leading_axis: Vec::new(),
            parts: Vec::new(),
        }
    }

    /// The name in the file of one of our parameters.
    pub fn theirs(&self, ours: &str) -> Option<String> {
        if self.pairs.is_empty() {
            return Some(ours.to_owned());
        }
        self.pairs.iter().find_map(|(from, to)| {
            let (numbers, rest) = fit(from, ours)?;
            let mut numbers = numbers.into_iter();
            let parts = to.strip_prefix('@').map_or(to.to_string(), |to| format!("{}{to}", self.prefix));
            let named: Vec<&str> = parts
                .split('.')
                .map(|part| if part == "#" { numbers.next().unwrap_or("#") } else { part })
                .collect();
            Some(named.join(".") + rest)
        })
    }

    /// Whether a tensor of theirs is known to be of no use.
    pub(super) fn ignores(&self, theirs: &str) -> bool {
        let bare = theirs.strip_prefix(self.prefix).unwrap_or(theirs);
        self.ignored.iter().any(|pattern| match pattern.strip_prefix('@') {
            Some(pattern) => fit(pattern, bare).is_some(),
            None => fit(pattern, theirs).is_some(),
        }) || self.copies().any(|(copy, _)| copy == theirs)
    }
}

/// The numbers that stand for `#`, and what is left of the name, if it begins as the pattern says.
fn fit<'a>(pattern: &str, name: &'a str) -> Option<(Vec<&'a str>, &'a str)> {
    let mut numbers = Vec::new();
    let mut rest = name;
    for (i, part) in pattern.split('.').enumerate() {
        if i > 0 {
            rest = rest.strip_prefix('.')?;
        }
        let end = rest.find('.').unwrap_or(rest.len());
        let (found, after) = rest.split_at(end);
        match part {
            "#" if found.bytes().all(|byte| byte.is_ascii_digit()) && !found.is_empty() => {
                numbers.push(found);
            }
            "#" => return None,
            part if part == found => {}
            _ => return None,
        }
        rest = after;
    }
    Some((numbers, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_translated_part_by_part() {
        let pairs = [("layers.#.ffn.up", "@h.#.mlp.c_fc"), ("head", "lm_head")];
        let names = Names::new(&pairs, &["@h.#.attn.bias"]).with_prefix("transformer.");
        assert_eq!(names.theirs("layers.11.ffn.up.weight").unwrap(), "transformer.h.11.mlp.c_fc.weight");
        assert_eq!(names.theirs("head.weight").unwrap(), "lm_head.weight");
        assert_eq!(names.theirs("header.weight"), None);
        assert!(names.ignores("transformer.h.0.attn.bias") && names.ignores("h.0.attn.bias"));
        assert!(!names.ignores("transformer.h.0.attn.c_attn.bias"));
    }
}
