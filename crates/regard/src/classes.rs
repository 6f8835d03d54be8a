//! Matching the classes of a model with those of data, by their names.

use anyhow::{Result, bail};

/// For each class of the data, which of the model's it is; and what was assumed, if the names are not the same.
pub fn matched(model: &[String], data: &[String]) -> Result<(Vec<usize>, Option<String>)> {
    let find = |same: &dyn Fn(&str, &str) -> bool| -> Option<Vec<usize>> {
        let one = |name: &String| {
            let mut fitting =
                (0..model.len()).filter(|&class| same(&model[class].to_lowercase(), &name.to_lowercase()));
            fitting.next().filter(|_| fitting.next().is_none())
        };
        let found: Vec<usize> = data.iter().map(one).collect::<Option<_>>()?;
        // Two names for one class would be a mistake.
        let twice = found.iter().enumerate().any(|(i, class)| found[..i].contains(class));
        (!twice).then_some(found)
    };
    if let Some(found) = find(&|ours, theirs| ours == theirs) {
        return Ok((found, None));
    }
    let pairs = |found: &[usize]| -> String {
        let names: Vec<String> =
            data.iter().zip(found).map(|(name, &class)| format!("{name} for {}", model[class])).collect();
        names.join(", ")
    };
    // IMDb's "neg" is the "negative" of others.
    if let Some(found) = find(&|ours, theirs| ours.starts_with(theirs) || theirs.starts_with(ours)) {
        let remark = format!("the classes have other names in the data: taking {}", pairs(&found));
        return Ok((found, Some(remark)));
    }
    let nameless = model.iter().all(|name| is_number(name)) || data.iter().all(|name| is_number(name));
    if nameless && model.len() == data.len() {
        let found: Vec<usize> = (0..data.len()).collect();
        let remark = format!("classes without names are taken in their order: {}", pairs(&found));
        return Ok((found, Some(remark)));
    }
    let unknown: Vec<&String> =
        data.iter().filter(|name| !model.iter().any(|known| known.eq_ignore_ascii_case(name))).collect();
    bail!(
        "the data has the {} {}, which the model does not know; it knows {}",
        if unknown.len() == 1 { "class" } else { "classes" },
        listed(unknown.into_iter()),
        listed(model.iter())
    )
}

/// Whether a name says no more than which class it is: `1`, or `LABEL_1` as Hugging Face fills in.
fn is_number(name: &str) -> bool {
    name.strip_prefix("LABEL_").unwrap_or(name).parse::<i64>().is_ok()
}

/// Some names, not all if they are many or long.
fn listed<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| name.chars().take(40).collect()).collect();
    match names.len() {
        0..=10 => names.join(", "),
        count => format!("{}, and {} more", names[..10].join(", "), count - 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matched(model: &[&str], data: &[&str]) -> Result<(Vec<usize>, Option<String>)> {
        let owned = |names: &[&str]| -> Vec<String> { names.iter().map(ToString::to_string).collect() };
        super::matched(&owned(model), &owned(data))
    }

    #[test]
    fn names_decide_not_their_order() {
        assert_eq!(
            matched(&["positive", "negative"], &["negative", "positive"]).unwrap(),
            (vec![1, 0], None)
        );
        // A file need not have all of a model's classes.
        assert_eq!(matched(&["0", "1", "2"], &["0", "2"]).unwrap(), (vec![0, 2], None));
        assert_eq!(matched(&["NEG", "POS"], &["pos", "neg"]).unwrap().0, [1, 0]);
    }

    #[test]
    fn assumptions_are_reported() {
        let (found, remark) = matched(&["positive", "negative"], &["neg", "pos"]).unwrap();
        assert_eq!(found, [1, 0]);
        assert!(remark.unwrap().contains("neg for negative, pos for positive"));
        let (found, remark) = matched(&["LABEL_0", "LABEL_1"], &["bad", "good"]).unwrap();
        assert_eq!(found, [0, 1]);
        assert!(remark.unwrap().contains("bad for LABEL_0, good for LABEL_1"));
        let (_, remark) = matched(&["negative", "positive"], &["0", "1"]).unwrap();
        assert!(remark.unwrap().contains("1 for positive"));
    }

    #[test]
    fn unknown_names_are_errors() {
        let problem = matched(&["negative", "positive"], &["negative", "neutral", "positive"]).unwrap_err();
        assert_eq!(
            problem.to_string(),
            "the data has the class neutral, which the model does not know; it knows negative, positive"
        );
        // It is not known which of three the two are.
        assert!(matched(&["LABEL_0", "LABEL_1", "LABEL_2"], &["bad", "good"]).is_err());
    }
}
