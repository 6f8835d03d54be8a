//! Does self-attention capture negation: "not good", and "not … good" from further away?

use super::sentiment_models::{self as models, SEEDS_CHANGED, Variant};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict, those_that_apply};
use crate::figure::{Axis, Bar, Bars, Chart, ColourScale, HeatMap, Matrix, Picture, Series};
use crate::model::Opened;
use crate::statistics::paired;
use anyhow::Result;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::heads::record_weights;
use regard_nn::data::builtin::{Corpus, CorpusSettings, SentenceKind, Split};
use regard_nn::tokens::Encoding;
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "negation",
    claims: &["C3"],
    question: "Does self-attention capture negation better than the same model without attention?",
    prediction: "On sentences whose judging word is negated, the model with self-attention is right more often than chance and \
        than the max pool, and one of its heads looks from the judging word at its negator more than at other words.",
    design: "The models of `three-models` read single sentences that judge a film: plain ones, and ones in which a negator \
        reverses the judging word from 1 to many words away (known by construction; in real data, a text in which a negator \
        stands within 8 words before a judging word). The head is chosen on one half of the sentences and measured on the \
        other.",
    changed: Some(SEEDS_CHANGED),
    real_data: Some("a folder with train.tsv and dev.tsv, such as SST-2's; or IMDb"),
    seconds: [4.0, 20.0, 300.0],
    run,
};

/// Distances from the negator to the word it reverses, in groups.
const DISTANCES: [(&str, std::ops::RangeInclusive<usize>); 4] =
    [("1", 1..=1), ("2", 2..=2), ("3–4", 3..=4), ("5 or more", 5..=usize::MAX)];
/// Below so many equal shares of the weight, a word gets hardly more than any other.
const HARDLY: f64 = 1.2;
/// In real data, how far before a judging word a negator may stand.
const REACH: usize = 8;

/// A sentence, with the places of negator and negated word if it has them.
struct Sentence {
    text: String,
    label: usize,
    /// Byte ranges of the negator and of the word it reverses, and the words between them plus one.
    negation: Option<(std::ops::Range<usize>, std::ops::Range<usize>, usize)>,
}

#[derive(Serialize, Deserialize)]
struct Run {
    /// Accuracy on plain and on negated sentences; none where there is no such sentence.
    plain: Option<f64>,
    negated: Option<f64>,
    /// Accuracy by [`DISTANCES`]; none where there is no such sentence.
    by_distance: Vec<Option<f64>>,
    /// For each head: mean weight from the negated word to its negator, times the number of words.
    heads: Vec<f64>,
    /// The head chosen on one half, measured on the other; none without self-attention.
    chosen: Option<(usize, f64)>,
    example: Option<Example>,
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
    let seeds = lab.seeds(models::SEEDS);
    let inputs: Vec<(Variant, u64)> = Variant::THREE
        .into_iter()
        .flat_map(|variant| seeds.iter().map(move |&seed| (variant, seed)))
        .collect();
    let sentences = sentences(lab)?;
    let runs = lab.parts("runs", &inputs, |&(variant, seed)| read(lab, variant, seed, &sentences))?;
    let mut findings = Findings::new(&["model"]);
    for (&(variant, seed), run) in inputs.iter().zip(&runs) {
        let name = variant.name();
        let mut add = |measure: String, value: f64| findings.measurements.add(&[&name], seed, measure, value);
        let kinds = [("plain".to_owned(), run.plain), ("negated".to_owned(), run.negated)];
        let distances = DISTANCES.iter().map(|(distance, _)| format!("negator at {distance}"));
        for (kind, value) in kinds.into_iter().chain(distances.zip(run.by_distance.iter().copied())) {
            if let Some(value) = value {
                add(format!("accuracy, {kind}"), value);
            }
        }
        for (head, &value) in run.heads.iter().enumerate() {
            add(format!("weight on the negator ÷ equal share, head {}", head + 1), value);
        }
        if let Some((_, value)) = run.chosen {
            add("weight on the negator ÷ equal share, chosen head".to_owned(), value);
        }
    }
    let example = runs.iter().find_map(|run| run.example.as_ref());
    draw(&mut findings, example);
    findings.verdicts = vec![judge(&findings.measurements)];
    for variant in Variant::THREE {
        for kind in ["plain", "negated"] {
            let value =
                findings.measurements.mean_if_measured(&[&variant.name()], &format!("accuracy, {kind}")).mean;
            findings.fact(format!("{kind}: {}", variant.name()), value);
        }
    }
    findings.fact("negated sentences", sentences.iter().filter(|one| one.negation.is_some()).count() as f64);
    Ok(findings)
}

fn sentences(lab: &Lab) -> Result<Vec<Sentence>> {
    if lab.conditions.data.is_some() {
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
    let texts = corpus.texts().take(lab.by_size(60, 800, 2_000, 2_000));
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

/// The first judging word of a text with a negator shortly before it.
fn find_negation(text: &str) -> Option<(std::ops::Range<usize>, std::ops::Range<usize>, usize)> {
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

fn read(lab: &Lab, variant: Variant, seed: u64, sentences: &[Sentence]) -> Result<Run> {
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
    let accuracy = |wanted: &dyn Fn(&Sentence) -> bool| {
        let chosen: Vec<bool> =
            right.iter().zip(sentences).filter(|(_, one)| wanted(one)).map(|(&right, _)| right).collect();
        let count = chosen.iter().filter(|&&right| right).count();
        (!chosen.is_empty()).then(|| count as f64 / chosen.len() as f64)
    };
    let distance = |one: &Sentence| one.negation.as_ref().map(|negation| negation.2);
    let by_distance = DISTANCES
        .iter()
        .map(|(_, range)| accuracy(&|one| distance(one).is_some_and(|distance| range.contains(&distance))))
        .collect();
    let (heads, chosen, example) = match variant {
        Variant::Heads => looks(&opened, sentences, &encodings, &tokens, seed)?,
        _ => (Vec::new(), None, None),
    };
    Ok(Run {
        plain: accuracy(&|one| one.negation.is_none()),
        negated: accuracy(&|one| one.negation.is_some()),
        by_distance,
        heads,
        chosen,
        example,
    })
}

type Looks = (Vec<f64>, Option<(usize, f64)>, Option<Example>);

/// How much each head looks from a negated word at its negator.
fn looks(
    opened: &Opened,
    sentences: &[Sentence],
    encodings: &[Encoding],
    tokens: &[Tokens],
    seed: u64,
) -> Result<Looks> {
    let place = |encoding: &Encoding, span: &std::ops::Range<usize>| {
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
        if short.is_none() && i % 2 == 1 && (5..=16).contains(&length) && seed == 0 {
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
    Ok((mean_of(&both), chosen, example))
}

fn draw(findings: &mut Findings, example: Option<&Example>) {
    let table = &findings.measurements;
    let bars = Variant::THREE.into_iter().fold(
        Bars::upright(vec!["plain".into(), "negated".into()], Axis::linear("accuracy").range(0.0, 1.0)),
        |bars, variant| {
            let bar = |kind: &str| {
                let interval = table.mean_if_measured(&[&variant.name()], &format!("accuracy, {kind}"));
                Bar::new(interval.mean).interval(interval.low.max(0.0), interval.high.min(1.0))
            };
            bars.series(variant.name(), vec![bar("plain"), bar("negated")])
        },
    );
    let empty = Chart::new(
        Axis::linear("words from the negator to the word it reverses")
            .groups(DISTANCES.map(|(distance, _)| distance)),
        Axis::linear("accuracy").range(0.0, 1.0),
    );
    let chart = Variant::THREE.into_iter().fold(empty, |chart, variant| {
        let points: Vec<_> = DISTANCES
            .iter()
            .enumerate()
            .map(|(i, (distance, _))| {
                let interval =
                    table.mean_if_measured(&[&variant.name()], &format!("accuracy, negator at {distance}"));
                (i as f64 + 1.0, interval.mean, interval.low.max(0.0), interval.high.min(1.0))
            })
            .filter(|point| point.1.is_finite())
            .collect();
        chart.series(Series::new(variant.name()).intervals(points))
    });
    let picture = Picture::new("Reading a negated sentence")
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
            .names("from", "to");
        findings.figure(
            "negation_head",
            format!(
                "Self-attention over a negated sentence, in the head that looks most from negated words at their negators on other \
                 sentences. On this one “{}” gives “{}” {:.2} times an equal share.",
                example.negation.0, example.negation.1, example.share
            ),
            Picture::new(format!("Head {} on a negated sentence", example.head + 1)).panel(map),
        );
    }
}

fn judge(table: &Measurements) -> Verdict {
    let of = |variant: Variant, measure: &str| table.values(&[&variant.name()], measure);
    let negated = |variant| of(variant, "accuracy, negated");
    let heads = table.mean(&[&Variant::Heads.name()], "accuracy, negated");
    // Few texts may have no negator that a head could be chosen by.
    let looking =
        table.mean_if_measured(&[&Variant::Heads.name()], "weight on the negator ÷ equal share, chosen head");
    let gain = paired(&negated(Variant::Heads), &negated(Variant::Max));
    let finding = format!(
        "On negated sentences the max pool is right in {:.1} % of cases, additive attention in {:.1} %, self-attention in \
         {:.1} %. The head that looks most from the negated word at its negator gives it {:.2} times an equal share.",
        100.0 * table.mean(&[&Variant::Max.name()], "accuracy, negated").mean,
        100.0 * table.mean(&[&Variant::Additive.name()], "accuracy, negated").mean,
        100.0 * heads.mean,
        looking.mean,
    );
    let checks = vec![
        Check::new("negated sentences: accuracy of self-attention", heads, Bound::Above(0.5)),
        Check::new(
            "negated sentences: accuracy of self-attention − of the max pool",
            gain,
            Bound::Above(0.0),
        ),
        Check::new("weight from negated word to negator ÷ an equal share", looking, Bound::Above(1.0)),
    ];
    let why = |checks: &[Check]| {
        let plain = 100.0 * table.mean(&[&Variant::Heads.name()], "accuracy, plain").mean;
        let face_value = format!(
            "Below one half means that the judging word is taken at its face value: on plain sentences the same model is right in \
             {plain:.1} % of cases."
        );
        those_that_apply([
            (checks[0].fails(), face_value.as_str()),
            (checks[1].fails(), "The max pool reads negated sentences better."),
            (
                looking.high < HARDLY,
                "The head that looks most at negators gives them hardly more than any other word: what the model knows of a negator \
                 comes to it through the LSTM.",
            ),
        ])
    };
    Verdict::new("C3", checks, finding).because(why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(heads: f64, max: f64, looking: f64) -> Measurements {
        let mut table = Measurements::new(&["model"]);
        for seed in 0..4 {
            let noise = 0.003 * seed as f64;
            table.add(
                &[&Variant::Heads.name()],
                seed,
                "accuracy, negated",
                heads + noise + 0.001 * (seed % 2) as f64,
            );
            table.add(&[&Variant::Max.name()], seed, "accuracy, negated", max + noise);
            table.add(
                &[&Variant::Heads.name()],
                seed,
                "weight on the negator ÷ equal share, chosen head",
                looking + noise,
            );
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_data() {
        assert_eq!(judge(&planted(0.8, 0.6, 3.0)).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.3, 0.6, 3.0)).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.8, 0.6, 0.5)).outcome, Outcome::Fails);
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
