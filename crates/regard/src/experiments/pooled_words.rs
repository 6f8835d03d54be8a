//! Which words a sentiment classifier attends to: sentiment words, or words such as "the".

use super::models::sentiment::{self as models, STOP_WORDS, Variant};
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, Sizes, Table, Verdict, charts, facts, named,
};
use crate::figure::{Axis, Bars, ColourScale, Passage, Picture, Words};
use crate::model::Opened;
use crate::run::sources;
use crate::statistics::{exact, mean};
use anyhow::Result;
use regard_nn::analysis::occlusion::{Blank, Quantity, occlusion};
use regard_nn::analysis::pooling::pool_weights;
use regard_nn::analysis::statistics::spearman;
use regard_nn::analysis::{Target, Tokens};
use regard_nn::tokens::Encoding;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

pub const EXPERIMENT: Experiment = Experiment {
    name: "pooled-words",
    claims: &["C2", "C5"],
    question: "Which words does a sentiment classifier attend to, and do its weights explain its decisions?",
    prediction: "Additive attention gives sentiment words more than their share of the weight and stop words less. Its weights rank the \
        words of a text much as blanking out each of them does (a rank correlation above 0.3). Correct and wrong predictions are shown \
        alike. Claims are testable if additive attention classifies better than chance.",
    design: "The models of `three-models`. The share of the pool's weight on a list of sentiment words and on a list of stop words, minus \
        the share of the text that they make up, text by text. For the max pool, a word's weight is the share of features in which it \
        has the largest value. Blank-out, over some of the texts: the change of the logit when a word is replaced by the unknown word.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["model"],
    seeds: models::SEEDS,
    seconds: Sizes::quick(6.0).standard(40.0).full(600.0),
    trains: |lab| {
        VARIANTS.map(|variant| models::config(lab, variant, lab.first_seed())).into_iter().collect()
    },
    run,
};

named! {
    /// The kinds of words.
    pub enum Kind { Sentiment = "sentiment words", Stop = "stop words", Other = "all others" }
}

const VARIANTS: [Variant; 2] = [Variant::Max, Variant::Additive];
const AGREEMENT: &str = "agreement with blank-out";
const ACCURACY: &str = "accuracy";

facts! {
    /// The share of the weight on a kind of words, beyond its share of the text.
    pub EXCESS(kind: Kind, model: Variant) = "excess on {kind}: {model}";
    /// The words with the most weight for how often they occur.
    pub FAVOURITES(model: Variant) = "favourites: {model}";
}

/// What is shown of a run, beside its measurements.
#[derive(Serialize, Deserialize)]
struct Shown {
    /// How many texts had their words blanked out.
    blanked: usize,
    /// The words with the most weight in all, relative to their count: word, mean weight × length.
    favourites: Vec<(String, f64)>,
    examples: Vec<Example>,
}

/// A text as the model saw it.
#[derive(Serialize, Deserialize)]
struct Example {
    words: Vec<(String, f32)>,
    label: usize,
    margin: f32,
}

impl Example {
    fn right(&self) -> bool {
        (self.margin > 0.0) == (self.label == 1)
    }
}

fn run(lab: &Lab) -> Result<Findings> {
    let texts = models::test_texts(lab)?;
    let sweep = lab.sweep("runs", lab.each(VARIANTS), |variant, seed, rows| {
        measure(lab, (variant, seed), &texts, rows)
    })?;
    let mut findings = Findings::default();
    let examples = sweep.under(Variant::Additive).next().map_or(&[][..], |run| &run.examples);
    draw(&mut findings, &sweep.table, examples);
    for (variant, file) in VARIANTS.into_iter().zip(["favourites_max", "favourites_additive"]) {
        let favourites = sweep.under(variant).next().map_or(&[][..], |run| &run.favourites);
        let rows = favourites.iter().map(|(word, weight)| vec![word.clone(), weight.to_string()]).collect();
        let words: Vec<&str> = favourites.iter().take(8).map(|(word, _)| word.as_str()).collect();
        findings.word(FAVOURITES.of(variant), words.join(", "));
        findings.table(file, &["word", "relative_weight"], rows);
    }
    let right = examples.iter().filter(|example| example.right()).count();
    let blanked = sweep.results().next().map_or(0, |run| run.blanked);
    findings.verdicts = vec![
        judge_focus(&sweep.table),
        judge_reasons(&sweep.table, [right, examples.len() - right], blanked),
    ];
    let learned = models::learned(Variant::Additive, sweep.table.mean(Variant::Additive, ACCURACY));
    findings.verdicts =
        findings.verdicts.into_iter().map(|verdict| verdict.requires(learned.clone())).collect();
    for kind in Kind::ALL {
        findings.facts(EXCESS, VARIANTS.map(|variant| (kind, variant)), |(kind, variant)| {
            sweep.table.mean_if_measured(variant, excess_on(kind)).mean
        });
    }
    findings.finish(lab, sweep.table)
}

fn excess_on(kind: Kind) -> String {
    format!("excess weight on {kind}")
}

fn kind_of(word: &str, lexicon: &HashSet<String>) -> Kind {
    match word {
        word if lexicon.contains(word) => Kind::Sentiment,
        word if STOP_WORDS.contains(&word) => Kind::Stop,
        _ => Kind::Other,
    }
}

fn measure(
    lab: &Lab,
    (variant, seed): (Variant, u64),
    texts: &[(String, usize)],
    rows: &mut Rows<Variant>,
) -> Result<Shown> {
    let config = models::config(lab, variant, seed)?;
    let opened = models::trained(lab, variant, seed)?.open()?;
    let lexicon = models::lexicon();
    let encodings: Vec<Encoding> =
        texts.iter().map(|(text, _)| models::encode(&opened, &config, text)).collect::<Result<_>>()?;
    let tokens: Vec<Tokens> = encodings.iter().map(|encoding| Tokens::new(encoding.ids.clone())).collect();
    let margins = models::margins(&opened, &tokens)?;
    let mut weights = Vec::with_capacity(tokens.len());
    for batch in tokens.chunks(32) {
        weights.extend(pool_weights(&*opened.model, batch)?);
    }
    let mut excess = Kind::ALL.map(|_| Vec::new());
    let mut by_word: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for (encoding, weights) in encodings.iter().zip(&weights) {
        let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut shares = Kind::ALL.map(|_| 0.0);
        for (word, weight) in encoding.pieces.iter().zip(weights) {
            shares[kind_of(word, &lexicon) as usize] += weight / total - 1.0 / weights.len() as f64;
            let entry = by_word.entry(word).or_default();
            *entry = (entry.0 + weight / total * weights.len() as f64, entry.1 + 1);
        }
        excess.iter_mut().zip(shares).for_each(|(of_kind, share)| of_kind.push(share));
    }
    let known = by_word.into_iter().filter(|(_, (_, count))| *count >= 5);
    let mut favourites: Vec<(String, f64)> =
        known.map(|(word, (sum, count))| (word.to_owned(), sum / f64::from(count))).collect();
    favourites.sort_by(|a, b| b.1.total_cmp(&a.1));
    favourites.truncate(30);
    let few = lab.setting("texts with blanked words", Sizes::quick(40).smoke(4).standard(200).full(400));
    // Data sets put one class after the other.
    let blanked = sources::spread(tokens.len(), few);
    for (kind, excess) in Kind::ALL.into_iter().zip(excess) {
        rows.add(variant, excess_on(kind), mean(&excess).mean);
    }
    let right =
        margins.iter().zip(texts).filter(|(margin, (_, label))| (**margin > 0.0) == (*label == 1)).count();
    rows.add(variant, ACCURACY, right as f64 / texts.len().max(1) as f64);
    let agreement = agreement(&opened, blanked.iter().map(|&i| (&tokens[i], weights[i].as_slice())))?;
    rows.add(variant, AGREEMENT, agreement);
    Ok(Shown {
        blanked: blanked.len(),
        favourites,
        examples: if seed == lab.first_seed() {
            examples(&encodings, &weights, &margins, texts)
        } else {
            Vec::new()
        },
    })
}

/// The mean over texts of the rank correlation of weights with the change of the logit when each word is blanked out.
fn agreement<'a>(opened: &Opened, texts: impl Iterator<Item = (&'a Tokens, &'a [f64])>) -> Result<f64> {
    let unknown = opened.tokenizer()?.special().unknown.unwrap_or(0);
    let target = Target { position: None, class: 1, against: None };
    let mut correlations = Vec::new();
    for (tokens, weights) in texts {
        let changes = occlusion(&*opened.model, tokens, target, (Blank::Replace(unknown), Quantity::Logit))?;
        let changes: Vec<f64> = changes.iter().map(|change| change.unwrap_or(0.0).abs()).collect();
        correlations.extend(spearman(weights, &changes)?);
    }
    Ok(mean(&correlations).mean)
}

/// The most confident text of each kind (correct and wrong, positive and negative) that is short enough to show.
fn examples(
    encodings: &[Encoding],
    weights: &[Vec<f64>],
    margins: &[f32],
    texts: &[(String, usize)],
) -> Vec<Example> {
    let mut order: Vec<usize> =
        (0..texts.len()).filter(|&i| (8..=60).contains(&encodings[i].ids.len())).collect();
    order.sort_by(|&a, &b| margins[b].abs().total_cmp(&margins[a].abs()));
    let mut shown = Vec::new();
    for right in [true, false] {
        for label in [1, 0] {
            let fits = |&&i: &&usize| texts[i].1 == label && ((margins[i] > 0.0) == (label == 1)) == right;
            shown.extend(order.iter().filter(fits).take(1).map(|&i| {
                Example {
                    words: encodings[i]
                        .offsets
                        .iter()
                        .zip(&weights[i])
                        .map(|(span, &weight)| (texts[i].0[span.clone()].to_owned(), weight as f32))
                        .collect(),
                    label,
                    margin: margins[i],
                }
            }));
        }
    }
    shown
}

fn draw(findings: &mut Findings, table: &Table<Variant>, examples: &[Example]) {
    let names = ["negative", "positive"];
    let panel = examples.iter().fold(Words::new(ColourScale::sequential("weight")), |panel, example| {
        let predicted = names[usize::from(example.margin > 0.0)];
        let sure = 1.0 / (1.0 + (-example.margin.abs()).exp());
        let heading =
            format!("predicted {predicted} ({:.0} %), truly {}", 100.0 * sure, names[example.label]);
        panel.passage(Passage::new(example.words.clone()).heading(heading).right(example.right()))
    });
    findings.figure(
        "words_by_attention",
        "Test texts with each word on a background as dark as its weight in additive attention: the most confident correct and wrong \
         predictions.",
        Picture::new("Where additive attention puts its weight").panel(panel),
    );
    let axis = Axis::linear("share of the weight − share of the text");
    let empty = Bars::lying(charts::names(["sentiment words", "stop words", "all others"]), axis);
    let bars = charts::grouped(empty, VARIANTS, &Kind::ALL, |variant, kind| {
        charts::bar(table.mean_if_measured(variant, excess_on(kind)))
    });
    findings.figure(
        "excess_weight",
        "Weight beyond an equal share for every word; mean over seeds with 95 % intervals.",
        Picture::new("Which words get more than an equal share").panel(bars),
    );
}

fn judge_focus(table: &Table<Variant>) -> Verdict {
    let excess = |variant, kind| table.mean(variant, excess_on(kind));
    let sentiment = excess(Variant::Additive, Kind::Sentiment);
    let stop = excess(Variant::Additive, Kind::Stop);
    let max = excess(Variant::Max, Kind::Sentiment);
    let finding = format!(
        "Additive attention gives sentiment words {:+.1} points of weight beyond their share of the text, and stop words {:+.1}. The max \
         pool, without attention, gives sentiment words {:+.1}{}",
        100.0 * sentiment.mean,
        100.0 * stop.mean,
        100.0 * max.mean,
        if max.mean >= sentiment.mean { ": finding them takes no attention." } else { "." },
    );
    let share = |of: &str| format!("additive: weight on {of} − their share of the text");
    let checks = vec![
        Check::new(share("sentiment words"), sentiment, Bound::Above(0.0))
            .part("it rests on sentiment words"),
        Check::new(share("stop words"), stop, Bound::Below(0.0)).part("it passes over stop words"),
    ];
    Verdict::new("C2", checks, finding)
}

/// The part of C5 that is about what is shown.
const BOTH_SHOWN: &str = "correct and wrong predictions are shown";

fn judge_reasons(table: &Table<Variant>, [right, wrong]: [usize; 2], texts: usize) -> Verdict {
    let agreement = table.mean(Variant::Additive, AGREEMENT);
    let finding = format!(
        "{right} correct and {wrong} wrong predictions are shown. Over {texts} texts the rank correlation of a word's weight with the \
         change of the logit when the word is blanked out is {:.2}; for the max pool, which has no attention, {:.2}. A weight hints at \
         what an answer depends on; it does not explain it.",
        agreement.mean,
        table.mean(Variant::Max, AGREEMENT).mean,
    );
    let checks = vec![
        Check::new("additive: rank correlation of weights with blank-out", agreement, Bound::Above(0.3))
            .part("weights rank words as blanking them out does"),
        Check::new("correct predictions shown", exact(right as f64), Bound::Above(0.5)).part(BOTH_SHOWN),
        Check::new("wrong predictions shown", exact(wrong as f64), Bound::Above(0.5)).part(BOTH_SHOWN),
    ];
    Verdict::new("C5", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    fn planted(sentiment: f64, stop: f64, agreement: f64) -> Table<Variant> {
        let mut table = Table::new();
        for variant in VARIANTS {
            for seed in 0..4 {
                let noise = 0.001 * seed as f64;
                table.add(variant, seed, excess_on(Kind::Sentiment), sentiment + noise);
                table.add(variant, seed, excess_on(Kind::Stop), stop + noise);
                table.add(variant, seed, AGREEMENT, agreement + noise);
            }
        }
        table
    }

    #[test]
    fn verdicts_follow_the_weights() {
        let table = planted(0.2, -0.1, 0.6);
        assert_eq!(judge_focus(&table).outcome, Outcome::Holds);
        assert_eq!(judge_reasons(&table, [2, 2], 40).outcome, Outcome::Holds);
        let table = planted(-0.2, 0.1, 0.1);
        assert_eq!(judge_focus(&table).outcome, Outcome::Fails);
        assert_eq!(judge_reasons(&table, [2, 2], 40).outcome, Outcome::InPart, "both kinds are shown");
    }

    #[test]
    fn words_are_of_one_kind() {
        let lexicon = models::lexicon();
        assert!(lexicon.len() > 50);
        assert_eq!(kind_of("the", &lexicon), Kind::Stop);
        let word = lexicon.iter().min().unwrap();
        assert_eq!(kind_of(word, &lexicon), Kind::Sentiment);
        assert!(STOP_WORDS.iter().all(|word| !lexicon.contains(*word)));
        assert!(STOP_WORDS.iter().all(|word| !models::is_negator(word)));
    }

    #[test]
    fn weights_give_reasons_if_they_agree_with_blank_out_and_can_be_seen() {
        let agreeing = judge_reasons(&planted(0.2, -0.1, 0.6), [2, 2], 40);
        assert_eq!((agreeing.outcome, wrong(&agreeing)), (Outcome::Holds, vec![]));
        let beside_the_point = judge_reasons(&planted(0.2, -0.1, 0.1), [2, 2], 40);
        assert_eq!((beside_the_point.outcome, wrong(&beside_the_point)), (Outcome::InPart, vec![0]));
        for (right, wrong_ones, at) in [(4, 0, 2), (0, 4, 1)] {
            let one_sided = judge_reasons(&planted(0.2, -0.1, 0.6), [right, wrong_ones], 40);
            assert_eq!((one_sided.outcome, wrong(&one_sided)), (Outcome::InPart, vec![at]));
        }
        let unseen = judge_reasons(&planted(0.2, -0.1, 0.6), [0, 0], 40);
        assert_eq!((unseen.outcome, wrong(&unseen)), (Outcome::InPart, vec![1, 2]));
        // Some seeds above the bound, some below.
        assert_eq!(judge_reasons(&planted(0.2, -0.1, 0.2985), [2, 2], 40).outcome, Outcome::Undecided);
    }

    #[test]
    fn either_half_of_the_focus_can_be_wrong() {
        let blind = judge_focus(&planted(-0.2, -0.1, 0.6));
        assert_eq!((blind.outcome, wrong(&blind)), (Outcome::InPart, vec![0]));
        let wordy = judge_focus(&planted(0.2, 0.1, 0.6));
        assert_eq!((wordy.outcome, wrong(&wordy)), (Outcome::InPart, vec![1]));
    }
}
