//! Holding examples out for validation.

use super::{Example, Labelled};
use crate::error::{Error, Result};
use saccade_tensor::random::Key;
use std::collections::HashMap;

impl Labelled {
    /// Splits into what is left and what is held out: the given share of every class, drawn by `key`. Examples with the same
    /// text are never on both sides. Both keep the order of the file.
    ///
    /// ```
    /// use saccade::data::{Example, Labelled};
    /// use saccade::tensor::random::Key;
    /// let example = |i: usize| Example { text: format!("text {i}"), second: None, label: i % 2 };
    /// let all = Labelled { classes: vec!["no".into(), "yes".into()], examples: (0..100).map(example).collect() };
    /// let (train, validation) = all.hold_out(0.1, Key::new(7))?;
    /// assert_eq!(train.class_counts(), [45, 45]);
    /// assert_eq!(validation.class_counts(), [5, 5]);
    /// # Ok::<(), saccade::Error>(())
    /// ```
    pub fn hold_out(self, share: f64, key: Key) -> Result<(Self, Self)> {
        if !(share > 0.0 && share < 1.0) {
            return Err(Error::data(
                "split",
                format!("the share to hold out must be between 0 and 1, got {share}"),
            ));
        }
        let quotas: Vec<usize> =
            self.class_counts().iter().map(|&count| (count as f64 * share).round() as usize).collect();
        let chosen = choose(&self.examples, &quotas, key);
        let Self { classes, examples } = self;
        let mut left = Self { classes: classes.clone(), examples: Vec::with_capacity(examples.len()) };
        let mut held_out = Self { classes, examples: Vec::new() };
        for (example, chosen) in examples.into_iter().zip(chosen) {
            if chosen { &mut held_out } else { &mut left }.examples.push(example);
        }
        for (side, what) in [(&left, "left"), (&held_out, "held out")] {
            if let Some(class) = side.class_counts().iter().position(|&count| count == 0) {
                let problem = format!(
                    "too few examples: with a share of {share}, none of class {:?} is {what}",
                    side.classes[class]
                );
                return Err(Error::data("split", problem));
            }
        }
        Ok((left, held_out))
    }
}

/// Which examples are held out: whole groups of equal texts, in a random order, as long as they fit every class's quota.
fn choose(examples: &[Example], quotas: &[usize], key: Key) -> Vec<bool> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    let mut known: HashMap<(&str, Option<&str>), usize> = HashMap::new();
    for (index, example) in examples.iter().enumerate() {
        let group = *known.entry((&example.text, example.second.as_deref())).or_insert_with(|| {
            groups.push(Vec::new());
            groups.len() - 1
        });
        groups[group].push(index);
    }
    let mut room = quotas.to_vec();
    let mut chosen = vec![false; examples.len()];
    for group in key.site("data.split").permutation(0, groups.len()) {
        let mut after = room.clone();
        let fits = groups[group].iter().all(|&index| match after.get_mut(examples[index].label) {
            Some(room) if *room > 0 => {
                *room -= 1;
                true
            }
            _ => false,
        });
        if fits {
            room = after;
            for &index in &groups[group] {
                chosen[index] = true;
            }
        }
    }
    chosen
}
