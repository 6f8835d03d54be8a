//! What a model that reads sentiment looks at: words that judge, or words such as "the".

use super::sentiment_models::{self as models, STOP_WORDS, Variant};
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
use crate::figure::{Axis, Bar, Bars, ColourScale, Passage, Picture, Words};
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
    question: "Which words does a classifier of sentiment rest on, and do its weights say why it decided?",
    prediction: "Additive attention gives words that praise or blame more than their share of the weight and stop words less; \
        its weights rank the words of a text much as taking each of them away does (a rank correlation above 0.3). Right and \
        wrong predictions are shown alike.",
    design: "The models of `three-models`. The share of the pool's weight on a list of words that judge and on a list of stop \
        words, minus the share of the text that they make up, text by text. For the max pool, a word's weight is the share of \
        features in which it is the largest. Blank-out, over some of the texts: the change of the logit when a word is replaced by the unknown word.",
    changed: Some(
        "The models are those of `three-models`, whose seeds, initial weights, widths, steps and rates were chosen after first runs (C2, C5). \
         C5 first blanked out words of the first test texts, which in real data are all of one class; it takes them from all over now.",
    ),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [6.0, 40.0, 600.0],
    run,
};

const KINDS: [&str; 3] = ["words that judge", "stop words", "all others"];
const VARIANTS: [Variant; 2] = [Variant::Max, Variant::Additive];

#[derive(Serialize, Deserialize)]
struct Run {
    /// Share of weight minus share of text, for each kind.
    excess: Vec<f64>,
    /// Mean over texts of the rank correlation with blank-out, and how many texts they are.
    agreement: f64,
    asked: usize,
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

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds(models::SEEDS);
    let inputs: Vec<(Variant, u64)> =
        VARIANTS.into_iter().flat_map(|variant| seeds.iter().map(move |&seed| (variant, seed))).collect();
    let texts = models::test_texts(lab)?;
    let runs = lab.parts("runs", &inputs, |&(variant, seed)| read(lab, variant, seed, &texts))?;
    let mut findings = Findings::new(&["model"]);
    for (&(variant, seed), run) in inputs.iter().zip(&runs) {
        let name = variant.name();
        for (kind, &value) in KINDS.into_iter().zip(&run.excess) {
            findings.measurements.add(&[&name], seed, format!("excess weight on {kind}"), value);
        }
        findings.measurements.add(&[&name], seed, "agreement with blank-out", run.agreement);
    }
    let of = |wanted: Variant| inputs.iter().zip(&runs).find(|((variant, _), _)| *variant == wanted);
    let shown = of(Variant::Additive).map(|(_, run)| run.examples.as_slice()).unwrap_or_default();
    draw(&mut findings, shown);
    for variant in VARIANTS {
        let favourites = of(variant).map(|(_, run)| run.favourites.as_slice()).unwrap_or_default();
        let rows = favourites.iter().map(|(word, weight)| vec![word.clone(), weight.to_string()]).collect();
        let words: Vec<&str> = favourites.iter().take(8).map(|(word, _)| word.as_str()).collect();
        findings.word(format!("favourites: {}", variant.name()), words.join(", "));
        findings.table(
            format!("favourites_{}", if variant == Variant::Max { "max" } else { "additive" }),
            &["word", "relative_weight"],
            rows,
        );
    }
    let right = shown.iter().filter(|example| example.right()).count();
    findings.verdicts = vec![
        judge_focus(&findings.measurements),
        judge_reasons(
            &findings.measurements,
            right,
            shown.len() - right,
            runs.first().map_or(0, |run| run.asked),
        ),
    ];
    for kind in KINDS {
        for variant in VARIANTS {
            let value = findings
                .measurements
                .mean_if_measured(&[&variant.name()], &format!("excess weight on {kind}"))
                .mean;
            findings.fact(format!("excess on {kind}: {}", variant.name()), value);
        }
    }
    Ok(findings)
}

impl Example {
    fn right(&self) -> bool {
        (self.margin > 0.0) == (self.label == 1)
    }
}

fn kind_of(word: &str, lexicon: &HashSet<String>) -> usize {
    match word {
        word if lexicon.contains(word) => 0,
        word if STOP_WORDS.contains(&word) => 1,
        _ => 2,
    }
}

fn read(lab: &Lab, variant: Variant, seed: u64, texts: &[(String, usize)]) -> Result<Run> {
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
    let mut excess = vec![Vec::new(); KINDS.len()];
    let mut by_word: BTreeMap<&str, (f64, u32)> = BTreeMap::new();
    for (encoding, weights) in encodings.iter().zip(&weights) {
        let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let mut shares = [0.0; KINDS.len()];
        for (word, weight) in encoding.pieces.iter().zip(weights) {
            shares[kind_of(word, &lexicon)] += weight / total - 1.0 / weights.len() as f64;
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
    let few = lab.by_size(4, 40, 200, 400);
    // Data sets put one class after the other.
    let asked = sources::spread(tokens.len(), few);
    Ok(Run {
        excess: excess.iter().map(|of_kind| mean(of_kind).mean).collect(),
        agreement: agreement(&opened, asked.iter().map(|&i| (&tokens[i], weights[i].as_slice())))?,
        asked: asked.len(),
        favourites,
        examples: if seed == 0 { examples(&encodings, &weights, &margins, texts) } else { Vec::new() },
    })
}

/// The mean over texts of the rank correlation of weights with what taking each word away changes.
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

/// The two texts of each kind (right and wrong, positive and negative) that are short enough to show, surest first.
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

fn draw(findings: &mut Findings, examples: &[Example]) {
    let names = ["negative", "positive"];
    let panel = examples.iter().fold(Words::new(ColourScale::sequential("weight")), |panel, example| {
        let said = names[usize::from(example.margin > 0.0)];
        let sure = 1.0 / (1.0 + (-example.margin.abs()).exp());
        let heading = format!("predicted {said} ({:.0} %), truly {}", 100.0 * sure, names[example.label]);
        panel.passage(Passage::new(example.words.clone()).heading(heading).right(example.right()))
    });
    findings.figure(
        "words_by_attention",
        "Test texts with each word on a ground as strong as its weight in additive attention: the surest right ones and the \
         surest wrong ones.",
        Picture::new("What additive attention rests on").panel(panel),
    );
    let bars = VARIANTS.into_iter().fold(
        Bars::lying(
            KINDS.map(str::to_owned).to_vec(),
            Axis::linear("share of the weight − share of the text"),
        ),
        |bars, variant| {
            let bar = |kind: &str| {
                let interval = findings
                    .measurements
                    .mean_if_measured(&[&variant.name()], &format!("excess weight on {kind}"));
                Bar::new(interval.mean).interval(interval.low, interval.high)
            };
            bars.series(variant.name(), KINDS.into_iter().map(bar).collect())
        },
    );
    findings.figure(
        "excess_weight",
        "Weight beyond an equal share for every word; mean over seeds with 95 % intervals.",
        Picture::new("Who gets more than a fair share").panel(bars),
    );
}

fn judge_focus(table: &Measurements) -> Verdict {
    let name = Variant::Additive.name();
    let excess = |kind: &str| table.mean(&[&name], &format!("excess weight on {kind}"));
    let (judging, stopping) = (excess(KINDS[0]), excess(KINDS[1]));
    let max = table.mean(&[&Variant::Max.name()], &format!("excess weight on {}", KINDS[0]));
    let finding = format!(
        "Additive attention gives words that judge {:+.1} points of weight beyond their share of the text, and stop words \
         {:+.1}. The max pool, without attention, gives words that judge {:+.1}{}",
        100.0 * judging.mean,
        100.0 * stopping.mean,
        100.0 * max.mean,
        if max.mean >= judging.mean { ": it takes no attention to find them." } else { "." },
    );
    let checks = vec![
        Check::new(
            "additive: weight on words that judge − their share of the text",
            judging,
            Bound::Above(0.0),
        ),
        Check::new("additive: weight on stop words − their share of the text", stopping, Bound::Below(0.0)),
    ];
    Verdict::new("C2", checks, finding)
}

fn judge_reasons(table: &Measurements, right: usize, wrong: usize, asked: usize) -> Verdict {
    let agreement = table.mean(&[&Variant::Additive.name()], "agreement with blank-out");
    let finding = format!(
        "{right} right and {wrong} wrong predictions are shown. Over {asked} texts the rank correlation of a word's weight with what \
         taking the word away changes is {:.2}; for the max pool, which has no attention, {:.2}. A weight is a hint at what an answer rests \
         on, not a reason.",
        agreement.mean,
        table.mean(&[&Variant::Max.name()], "agreement with blank-out").mean,
    );
    let checks = vec![
        Check::new("additive: rank correlation of weights with blank-out", agreement, Bound::Above(0.3)),
        Check::new("right predictions shown", exact(right as f64), Bound::Above(0.5)),
        Check::new("wrong predictions shown", exact(wrong as f64), Bound::Above(0.5)),
    ];
    Verdict::new("C5", checks, finding)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;
    use crate::experiments::wrong;

    fn planted(judging: f64, stopping: f64, agreement: f64) -> Measurements {
        let mut table = Measurements::new(&["model"]);
        for variant in VARIANTS {
            for seed in 0..4 {
                let noise = 0.001 * seed as f64;
                let name = variant.name();
                table.add(&[&name], seed, format!("excess weight on {}", KINDS[0]), judging + noise);
                table.add(&[&name], seed, format!("excess weight on {}", KINDS[1]), stopping + noise);
                table.add(&[&name], seed, "agreement with blank-out", agreement + noise);
            }
        }
        table
    }

    #[test]
    fn verdicts_follow_the_weights() {
        let table = planted(0.2, -0.1, 0.6);
        assert_eq!(judge_focus(&table).outcome, Outcome::Holds);
        assert_eq!(judge_reasons(&table, 2, 2, 40).outcome, Outcome::Holds);
        let table = planted(-0.2, 0.1, 0.1);
        assert_eq!(judge_focus(&table).outcome, Outcome::Fails);
        assert_eq!(judge_reasons(&table, 2, 2, 40).outcome, Outcome::Fails);
    }

    #[test]
    fn words_are_of_one_kind() {
        let lexicon = models::lexicon();
        assert!(lexicon.len() > 50);
        assert_eq!(kind_of("the", &lexicon), 1);
        let judging = lexicon.iter().min().unwrap();
        assert_eq!(kind_of(judging, &lexicon), 0);
        assert!(STOP_WORDS.iter().all(|word| !lexicon.contains(*word)));
        assert!(STOP_WORDS.iter().all(|word| !models::is_negator(word)));
    }

    #[test]
    fn weights_give_reasons_if_they_agree_with_blank_out_and_can_be_seen() {
        let agreeing = judge_reasons(&planted(0.2, -0.1, 0.6), 2, 2, 40);
        assert_eq!((agreeing.outcome, wrong(&agreeing)), (Outcome::Holds, vec![]));
        let beside_the_point = judge_reasons(&planted(0.2, -0.1, 0.1), 2, 2, 40);
        assert_eq!((beside_the_point.outcome, wrong(&beside_the_point)), (Outcome::Fails, vec![0]));
        for (right, wrong_ones, at) in [(4, 0, 2), (0, 4, 1)] {
            let one_sided = judge_reasons(&planted(0.2, -0.1, 0.6), right, wrong_ones, 40);
            assert_eq!((one_sided.outcome, wrong(&one_sided)), (Outcome::Fails, vec![at]));
        }
        let unseen = judge_reasons(&planted(0.2, -0.1, 0.6), 0, 0, 40);
        assert_eq!((unseen.outcome, wrong(&unseen)), (Outcome::Fails, vec![1, 2]));
        // Some seeds above the bound, some below.
        assert_eq!(judge_reasons(&planted(0.2, -0.1, 0.2985), 2, 2, 40).outcome, Outcome::Undecided);
    }

    #[test]
    fn either_half_of_the_focus_can_be_wrong() {
        let blind = judge_focus(&planted(-0.2, -0.1, 0.6));
        assert_eq!((blind.outcome, wrong(&blind)), (Outcome::Fails, vec![0]));
        let wordy = judge_focus(&planted(0.2, 0.1, 0.6));
        assert_eq!((wordy.outcome, wrong(&wordy)), (Outcome::Fails, vec![1]));
    }
}
