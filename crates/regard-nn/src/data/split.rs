//! Validation splits.

use super::idx::Images;
use super::{Example, Labelled};
use crate::error::{Error, Result};
use regard_tensor::random::Key;
use std::collections::HashMap;

impl Labelled {
    /// Splits into training and held-out examples: the given share of every class is held out, drawn by `key`. Examples
    /// with the same text are never on both sides. Both sides keep the order of the file.
    ///
    /// ```
    /// use regard_nn::data::{Example, Labelled};
    /// use regard_nn::tensor::random::Key;
    /// let example = |i: usize| Example { text: format!("text {i}"), second: None, label: i % 2 };
    /// let all = Labelled { classes: vec!["no".into(), "yes".into()], examples: (0..100).map(example).collect() };
    /// let (train, validation) = all.hold_out(0.1, Key::new(7))?;
    /// assert_eq!(train.class_counts(), [45, 45]);
    /// assert_eq!(validation.class_counts(), [5, 5]);
    /// # Ok::<(), regard_nn::Error>(())
    /// ```
    pub fn hold_out(self, share: f64, key: Key) -> Result<(Self, Self)> {
        ensure_share(share)?;
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

impl Images {
    /// Splits into training and held-out images: the given share of every class is held out, drawn by `key`. Both sides keep
    /// the order of the file.
    pub fn hold_out(&self, share: f64, key: Key) -> Result<(Self, Self)> {
        ensure_share(share)?;
        let mut room = [0_usize; 256];
        for &label in &self.labels {
            room[usize::from(label)] += 1;
        }
        let mut room = room.map(|count| (count as f64 * share).round() as usize);
        let mut chosen = vec![false; self.len()];
        for index in key.site("data.split").permutation(0, self.len()) {
            let left = &mut room[usize::from(self.labels[index])];
            if *left > 0 {
                *left -= 1;
                chosen[index] = true;
            }
        }
        let side = |held: bool| -> Vec<usize> {
            chosen.iter().enumerate().filter(|(_, chosen)| **chosen == held).map(|(index, _)| index).collect()
        };
        let (left, held) = (side(false), side(true));
        if left.is_empty() || held.is_empty() {
            let problem = format!("{} images are too few to hold out a share of {share}", self.len());
            return Err(Error::data("split", problem));
        }
        Ok((self.some(&left), self.some(&held)))
    }
}

fn ensure_share(share: f64) -> Result<()> {
    if share > 0.0 && share < 1.0 {
        return Ok(());
    }
    Err(Error::data("split", format!("the share to hold out must be between 0 and 1, got {share}")))
}

/// Selects the held-out examples: whole groups of equal texts, in random order, as long as they fit each class's quota.
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
