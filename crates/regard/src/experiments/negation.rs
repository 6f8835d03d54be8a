//! Does self-attention capture negation: "not good", and "not … good" over a longer distance?

use super::models::sentiment::{self as models, Variant};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Sweep, Table, Verdict, charts, facts, named,
    those_that_apply,
};
use crate::figure::{Axis, Bars, Chart, ColourScale, HeatMap, Matrix, Picture, Series};
use crate::model::Opened;
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::heads::record_weights;
use regard_nn::data::builtin::{Corpus, CorpusSettings, SentenceKind, Split};
use regard_nn::tokens::Encoding;
use serde::{Deserialize, Serialize};
use std::ops::{Range, RangeInclusive};

pub const EXPERIMENT: Experiment = Experiment {
    name: "negation",
    claims: &["C3"],
    question: "Does self-attention capture negation better than the same model without attention?",
    prediction: "On sentences with a negated sentiment word, the model with self-attention is more accurate than chance and than the max \
        pool, and one of its heads attends from the sentiment word to its negator more than to other words. Each is a part. The claim is \
        testable if the models with self-attention and with the max pool classify plain sentences better than chance.",
    design: "The models of `three-models` classify single sentences about a film: plain ones, and ones in which a negator reverses the \
        sentiment word over a distance of one to many words (known by construction; in real data, texts with a negator within 8 words \
        before a sentiment word). The head is chosen on one half of the sentences and measured on the other.",
    changed: None,
    data: Data::Text("a folder with train.tsv and dev.tsv, such as SST-2's; or IMDb"),
    conditions: &["model"],
    seeds: models::SEEDS,
    seconds: Sizes::quick(4.0).standard(20.0).full(300.0),
    trains: |lab| {
        Variant::THREE.map(|variant| models::config(lab, variant, lab.first_seed())).into_iter().collect()
    },
    run,
};

/// Distances from the negator to the word it reverses, in groups.
const DISTANCES: [(&str, RangeInclusive<usize>); 4] =
    [("1", 1..=1), ("2", 2..=2), ("3–4", 3..=4), ("5 or more", 5..=usize::MAX)];
/// Below so many equal shares of the weight, a word gets hardly more than any other.
const HARDLY: f64 = 1.2;
/// In real data, how far before a sentiment word a negator may stand.
const REACH: usize = 8;
/// The weight from a negated word on its negator, of the head that was chosen on other sentences.
const ON_NEGATOR: &str = "weight on the negator ÷ equal share, chosen head";

named! {
    pub enum Kind { Plain = "plain", Negated = "negated" }
}

facts! {
    pub ACCURACY(kind: Kind, model: Variant) = "{kind}: {model}";
    SENTENCES = "negated sentences";
}

/// Byte ranges of a negator and of the word it reverses, and the words between them plus one.
type Negation = (Range<usize>, Range<usize>, usize);

struct Sentence {
    text: String,
    label: usize,
    negation: Option<Negation>,
}

/// A sentence as the chosen head reads it.
#[derive(Serialize, Deserialize)]
struct Example {
    words: Vec<String>,
    weights: Vec<f32>,
    head: usize,
    /// The negated word and its negator, and the weight of the one on the other ÷ an equal share.
    negation: (String, String),
    share: f64,
}

fn run(lab: &Lab) -> Result<Findings> {
    let sentences = sentences(lab)?;
    let Sweep { table, runs } = lab.sweep("runs", lab.each(Variant::THREE), |variant, seed, rows| {
        measure(lab, (variant, seed), &sentences, rows)
    })?;
    let mut findings = Findings::default();
    draw(&mut findings, &table, runs.iter().find_map(|run| run.result.as_ref()));
    findings.verdicts = vec![judge(&table)];
    for variant in Variant::THREE {
        findings.facts(ACCURACY, Kind::ALL.map(|kind| (kind, variant)), |(kind, variant)| {
            table.mean_if_measured(variant, accuracy(kind)).mean
        });
    }
    findings.fact(SENTENCES, sentences.iter().filter(|one| one.negation.is_some()).count() as f64);
    findings.finish(lab, table)
}

/// The measure of the accuracy on some sentences.
fn accuracy(of: impl std::fmt::Display) -> String {
    format!("accuracy, {of}")
}

fn at_distance(distance: &str) -> String {
    accuracy(format_args!("negator at {distance}"))
}

fn sentences(lab: &Lab) -> Result<Vec<Sentence>> {
    if lab.setup.data.is_some() {
        let texts = models::test_texts(lab)?.into_iter();
        return Ok(texts
            .map(|(text, label)| Sentence { negation: find_negation(&text), text, label })
            .collect());
    }
    let settings = CorpusSettings {
        fewest_sentences: 1,
        most_sentences: 1,
        opinions: 1.0,
        dissent: 0.0,
        near_negation: 0.4,
        far_negation: 0.2,
        contrast: 0.0,
        decoys: 0.0,
        ..CorpusSettings::default()
    };
    let corpus = Corpus::new(settings, 1)?.split(Split::Test);
    let texts = corpus.texts().take(lab.setting("sentences", Sizes::quick(800).smoke(60).standard(2_000)));
    let kept = texts.filter_map(|text| {
        let sentence = text.sentences.first()?;
        let negation = text
            .negations()
            .next()
            .map(|found| (found.negator.span.clone(), found.sentiment.span.clone(), found.distance));
        let fits = match sentence.kind {
            SentenceKind::Plain => negation.is_none(),
            SentenceKind::NearNegation | SentenceKind::FarNegation => negation.is_some(),
            _ => false,
        };
        fits.then(|| Sentence { text: text.text().to_owned(), label: text.label.class(), negation })
    });
    Ok(kept.collect())
}

/// The first sentiment word of a text with a negator shortly before it.
fn find_negation(text: &str) -> Option<Negation> {
    let lexicon = models::lexicon();
    let mut words = Vec::new();
    let mut start = None;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        let inside = character.is_alphanumeric() || character == '\'' || character == '’';
        match (start, inside) {
            (None, true) => start = Some(at),
            (Some(from), false) => {
                words.push(from..at);
                start = None;
            }
            _ => {}
        }
    }
    let lower: Vec<String> = words.iter().map(|span| text[span.clone()].to_lowercase()).collect();
    (0..words.len()).filter(|&i| lexicon.contains(&lower[i])).find_map(|i| {
        let negator = (i.saturating_sub(REACH)..i).rev().find(|&j| models::is_negator(&lower[j]))?;
        Some((words[negator].clone(), words[i].clone(), i - negator))
    })
}

/// Measures one model. Returns a sentence to show, of the first seed of the model with heads.
fn measure(
    lab: &Lab,
    (variant, seed): (Variant, u64),
    sentences: &[Sentence],
    rows: &mut Rows<Variant>,
) -> Result<Option<Example>> {
    let config = models::config(lab, variant, seed)?;
    let opened = models::trained(lab, variant, seed)?.open()?;
    let encodings: Vec<Encoding> = sentences
        .iter()
        .map(|sentence| models::encode(&opened, &config, &sentence.text))
        .collect::<Result<_>>()?;
    let tokens: Vec<Tokens> = encodings.iter().map(|encoding| Tokens::new(encoding.ids.clone())).collect();
    let margins = models::margins(&opened, &tokens)?;
    let right: Vec<bool> =
        margins.iter().zip(sentences).map(|(&margin, one)| (margin > 0.0) == (one.label == 1)).collect();
    // Nothing where there is no such sentence.
    let share = |wanted: &dyn Fn(&Sentence) -> bool| {
        let chosen: Vec<bool> =
            right.iter().zip(sentences).filter(|(_, one)| wanted(one)).map(|(&right, _)| right).collect();
        let count = chosen.iter().filter(|&&right| right).count();
        (!chosen.is_empty()).then(|| count as f64 / chosen.len() as f64)
    };
    rows.add_some(variant, accuracy(Kind::Plain), share(&|one| one.negation.is_none()));
    rows.add_some(variant, accuracy(Kind::Negated), share(&|one| one.negation.is_some()));
    for (distance, range) in &DISTANCES {
        let within =
            |one: &Sentence| one.negation.as_ref().is_some_and(|negation| range.contains(&negation.2));
        rows.add_some(variant, at_distance(distance), share(&within));
    }
    if variant != Variant::Heads {
        return Ok(None);
    }
    let shown = seed == lab.first_seed();
    let (heads, chosen, example) = looks(&opened, sentences, &encodings, &tokens, shown)?;
    for (head, value) in heads.into_iter().enumerate() {
        rows.add(variant, format!("weight on the negator ÷ equal share, head {head}"), value);
    }
    rows.add_some(variant, ON_NEGATOR, chosen);
    Ok(example)
}

/// The mean weight of each head from negated words on their negators, times the number of words; that of the head chosen on one
/// half of the sentences, on the other; and a sentence to show.
type Looks = (Vec<f64>, Option<f64>, Option<Example>);

/// How much each head attends from a negated word to its negator.
fn looks(
    opened: &Opened,
    sentences: &[Sentence],
    encodings: &[Encoding],
    tokens: &[Tokens],
    shown: bool,
) -> Result<Looks> {
    let place = |encoding: &Encoding, span: &Range<usize>| {
        encoding.offsets.iter().position(|offset| offset.start < span.end && span.start < offset.end)
    };
    let mut halves: [Vec<Vec<f64>>; 2] = [Vec::new(), Vec::new()];
    let mut short = None;
    for (i, sentence) in sentences.iter().enumerate() {
        let Some((negator, negated, _)) = &sentence.negation else { continue };
        let (Some(to), Some(from)) = (place(&encodings[i], negator), place(&encodings[i], negated)) else {
            continue;
        };
        let seen = record_weights(&*opened.model, &tokens[i..=i])?;
        let Some(weights) = seen.first() else { continue };
        let length = tokens[i].len();
        let all = weights.all();
        let all = all.values();
        let heads: Vec<f64> = all
            .chunks(length * length)
            .map(|head| f64::from(head[from * length + to]) * length as f64)
            .collect();
        // The head is chosen on the others.
        if short.is_none() && i % 2 == 1 && (5..=16).contains(&length) && shown {
            let words: Vec<String> =
                encodings[i].offsets.iter().map(|span| sentence.text[span.clone()].to_owned()).collect();
            short = Some((words, all.to_vec(), (from, to), heads.clone()));
        }
        halves[i % 2].push(heads);
    }
    let mean_of = |half: &[Vec<f64>]| -> Vec<f64> {
        let heads = half.first().map_or(0, Vec::len);
        (0..heads).map(|h| half.iter().map(|one| one[h]).sum::<f64>() / half.len() as f64).collect()
    };
    let (first, second) = (mean_of(&halves[0]), mean_of(&halves[1]));
    let best = (0..first.len()).max_by(|&a, &b| first[a].total_cmp(&first[b]));
    let chosen = best.and_then(|head| Some((head, *second.get(head)?)));
    let example = short.zip(chosen).map(|((words, all, (from, to), shares), (head, _))| Example {
        weights: all.chunks(words.len() * words.len()).nth(head).unwrap_or_default().to_vec(),
        negation: (words[from].clone(), words[to].clone()),
        share: shares[head],
        words,
        head,
    });
    let both: Vec<Vec<f64>> = halves.into_iter().flatten().collect();
    Ok((mean_of(&both), chosen.map(|(_, weight)| weight), example))
}

fn draw(findings: &mut Findings, table: &Table<Variant>, example: Option<&Example>) {
    let empty = Bars::upright(charts::names(Kind::ALL), Axis::linear("accuracy").range(0.0, 1.0));
    let bars = charts::grouped(empty, Variant::THREE, &Kind::ALL, |variant, kind| {
        charts::share(table.mean_if_measured(variant, accuracy(kind)))
    });
    let empty = Chart::new(
        Axis::linear("words from the negator to the word it reverses")
            .groups(DISTANCES.map(|(distance, _)| distance)),
        Axis::linear("accuracy").range(0.0, 1.0),
    );
    let chart = Variant::THREE.into_iter().fold(empty, |chart, variant| {
        let points = DISTANCES.iter().enumerate().map(|(i, (distance, _))| {
            charts::share_point(i as f64 + 1.0, table.mean_if_measured(variant, at_distance(distance)))
        });
        chart.series(Series::new(variant.name()).intervals(points.filter(|point| point.1.is_finite())))
    });
    let picture = Picture::new("Accuracy on negated sentences")
        .columns(2)
        .titled_panel("by kind of sentence", bars.half())
        .titled_panel("by distance", chart.level(0.5, "chance").half());
    findings.figure(
        "accuracy_by_negation",
        "Accuracy on single sentences; mean over seeds with 95 % intervals.",
        picture,
    );
    if let Some(example) = example
        && let Ok(matrix) = Matrix::new(example.words.len(), example.words.len(), example.weights.clone())
    {
        let map = HeatMap::new(matrix, ColourScale::sequential("weight"))
            .words(example.words.clone(), example.words.clone())
            .names("query", "key");
        findings.figure(
            "negation_head",
            format!(
                "Self-attention over a negated sentence, in the head that attends most from negated words to their negators on other \
                 sentences. Here “{}” gives “{}” {:.2} times an equal share.",
                example.negation.0, example.negation.1, example.share
            ),
            Picture::new(format!("Head {} on a negated sentence", example.head)).panel(map),
        );
    }
}

fn judge(table: &Table<Variant>) -> Verdict {
    let of = |variant, kind| table.values(variant, accuracy(kind));
    let [max, additive, heads] =
        Variant::THREE.map(|variant| table.find(variant, accuracy(Kind::Negated)).mean());
    // Few texts may have no negator that a head could be chosen by.
    let attending = table.mean_if_measured(Variant::Heads, ON_NEGATOR);
    let gain = paired(&of(Variant::Heads, Kind::Negated), &of(Variant::Max, Kind::Negated));
    let finding = format!(
        "The max pool classifies {:.1} % of negated sentences correctly, additive attention {:.1} %, self-attention {:.1} %. The head \
         that attends most from negated words to their negators gives them {:.2} times an equal share.",
        100.0 * max.mean,
        100.0 * additive.mean,
        100.0 * heads.mean,
        attending.mean,
    );
    let checks = vec![
        Check::new("negated sentences: accuracy of self-attention", heads, Bound::Above(0.5))
            .part("it reads negated sentences better than chance"),
        Check::new(
            "negated sentences: accuracy of self-attention − of the max pool",
            gain,
            Bound::Above(0.0),
        )
        .part("it reads them better than the max pool"),
        Check::new("weight from negated word to negator ÷ an equal share", attending, Bound::Above(1.0))
            .part("a head attends to the negator"),
    ];
    let why = |checks: &[Check]| {
        let ignored = format!(
            "Below one half means that the sentiment word mostly outweighs its negator: the same model classifies {:.1} % of plain sentences correctly.",
            100.0 * of(Variant::Heads, Kind::Plain).mean().mean,
        );
        those_that_apply([
            (checks[0].fails(), ignored.as_str()),
            (checks[1].fails(), "The max pool is more accurate on negated sentences."),
            (
                attending.high < HARDLY,
                "Even the head that attends most to negators gives them hardly more than an equal share.",
            ),
        ])
    };
    let learned = |variant: Variant| {
        let plain = table.mean(variant, accuracy(Kind::Plain));
        Check::new(format!("plain sentences: accuracy of {variant}"), plain, Bound::Above(0.5))
    };
    let verdict = Verdict::new("C3", checks, finding);
    verdict.requires(learned(Variant::Heads)).requires(learned(Variant::Max)).because(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(heads: f64, max: f64, attending: f64) -> Table<Variant> {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 0.003 * seed as f64;
            let other = 0.001 * (seed % 2) as f64;
            table.add(Variant::Heads, seed, accuracy(Kind::Negated), heads + noise + other);
            table.add(Variant::Max, seed, accuracy(Kind::Negated), max + noise);
            table.add(Variant::Heads, seed, accuracy(Kind::Plain), 0.9 + noise);
            table.add(Variant::Max, seed, accuracy(Kind::Plain), 0.9 + noise);
            table.add(Variant::Heads, seed, ON_NEGATOR, attending + noise);
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_data() {
        assert_eq!(judge(&planted(0.8, 0.6, 3.0)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.3, 0.6, 0.5)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.3, 0.6, 3.0)).outcome, Outcome::InPart);
        assert_eq!(judge(&planted(0.8, 0.6, 0.5)).outcome, Outcome::InPart);
    }

    #[test]
    fn negations_are_found_in_real_text() {
        let lexicon = models::lexicon();
        let word = lexicon.iter().filter(|word| word.chars().all(char::is_alphabetic)).min().unwrap();
        let text = format!("It isn't all that {word}.");
        let (negator, negated, distance) = find_negation(&text).unwrap();
        assert_eq!((&text[negator], &text[negated], distance), ("isn't", word.as_str(), 3));
        assert!(find_negation(&format!("It is {word}, not long.")).is_none());
        assert!(find_negation("").is_none());
    }
}
