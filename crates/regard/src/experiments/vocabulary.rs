//! How text becomes word indices: how many words there are, how many are unknown, and whether padding changes anything.

use super::instruments::largest;
use super::models::{bag as bags, sentiment};
use crate::experiment::claims::SOURCES;
use crate::experiment::{
    Bound, Check, Data, Experiment, Findings, Lab, Rows, SMALL_MODELS, Sizes, Sweep, Table, Verdict, charts,
    facts,
};
use crate::figure::{Axis, Chart, Picture, Series, fixed};
use crate::run::sources;
use anyhow::Result;
use regard_nn::Context;
use regard_nn::analysis::{Tokens, pad};
use regard_nn::models::{Bag, BagConfig, Inputs, Model};
use regard_nn::tokens::{Special, Tokenizer, WordSettings};
use serde::{Deserialize, Serialize};

pub const EXPERIMENT: Experiment = Experiment {
    name: "vocabulary",
    claims: &["A1"],
    question: "How many words does a vocabulary need, and what happens to the rest?",
    prediction: "A vocabulary of at most 15,000 words, built from the training texts, covers more than 95 % of the words of other \
        texts; every known word comes back unchanged from its index; and padding changes no output by more than 1e-5.",
    design: "The most frequent words of 1,000 training texts, plus `<PAD>` and `<UNK>`. Test texts are encoded to indices and decoded. \
        Coverage is also counted for smaller vocabularies. For the padding, a bag of word vectors with random weights reads texts alone \
        and in a batch with longer ones. Each seed draws its own training texts.",
    changed: None,
    data: Data::Text("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    conditions: &["size"],
    seeds: SMALL_MODELS,
    seconds: Sizes::quick(1.5).standard(3.0).full(60.0),
    trains: |_| Ok(Vec::new()),
    run,
};

/// The source's vocabulary.
const MOST: usize = 15_000;
/// Vocabularies cut to so many words.
const SIZES: [usize; 9] = [30, 100, 300, 1_000, 2_000, 4_000, 8_000, 12_000, MOST];
/// `<PAD>` and `<UNK>` come first.
const SPECIAL: usize = 2;

const KNOWN: &str = "known";
const DISTINCT: &str = "different words";
const SIZE: &str = "size";
const UNCHANGED: &str = "known words that come back unchanged";
const PADDING: &str = "padding";
const CHANGE: &str = "change of an answer by padding";

facts! {
    MEAN(measure: &'static str) = "{measure}";
    KNOWN_BY(words: usize) = "known by {words} words";
    UNKNOWN = "unknown";
    /// A short built-in review of a class.
    pub SAMPLE(class: &'static str) = "sample: {class}";
    EXAMPLE(part: &'static str) = "example {part}";
}

/// The classes of the built-in reviews.
pub const CLASSES: [&str; 2] = ["negative", "positive"];

/// What is shown of a run.
#[derive(Serialize, Deserialize)]
struct Shown {
    /// Counts of words by rank, thinned out.
    ranks: Vec<(f64, f64)>,
    /// A text, its pieces and its indices.
    example: [String; 3],
}

fn run(lab: &Lab) -> Result<Findings> {
    let texts: Vec<String> = sentiment::test_texts(lab)?.into_iter().map(|(text, _)| text).collect();
    let Sweep { table, runs } = lab.sweep_seeds("runs", |seed, rows| measure(lab, seed, &texts, rows))?;
    let mut findings = Findings::default();
    for (class, text) in samples()? {
        findings.word(SAMPLE.of(class), text);
    }
    if let Some(run) = runs.first() {
        draw(&mut findings, &table, &run.result);
        for (part, text) in ["text", "pieces", "ids"].into_iter().zip(&run.result.example) {
            findings.word(EXAMPLE.of(part), text);
        }
    }
    findings.verdicts = vec![judge(&table, lab.setup.data.is_some())];
    findings.facts(MEAN, [DISTINCT, SIZE, PADDING], |measure| table.mean(MOST, measure).mean);
    findings.facts(KNOWN_BY, [100, 1_000], |size| table.mean_if_measured(size, KNOWN).mean);
    findings.fact(UNKNOWN, 1.0 - table.mean(MOST, KNOWN).mean);
    findings.finish(lab, table)
}

/// A short built-in review of each class.
fn samples() -> Result<Vec<(&'static str, String)>> {
    let labelled = sources::builtin_labelled(&sources::builtin_test()?);
    let short = |(label, class): (usize, &'static str)| {
        let fits = |text: &str| (20..=40).contains(&text.split_whitespace().count());
        let mut examples = labelled.examples.iter();
        let found = examples.find(|example| example.label == label && fits(&example.text))?;
        Some((class, found.text.clone()))
    };
    Ok(CLASSES.into_iter().enumerate().filter_map(short).collect())
}

fn measure(lab: &Lab, seed: u64, texts: &[String], rows: &mut Rows<usize>) -> Result<Shown> {
    let training = bags::training_texts(lab, seed)?;
    let all = Tokenizer::words(&training, &WordSettings { maximum: usize::MAX, ..WordSettings::default() })?;
    let tokenizer = Tokenizer::words(&training, &WordSettings { maximum: MOST, ..WordSettings::default() })?;
    let distinct = all.vocabulary_size() - SPECIAL;

    let mut counts = vec![0_u64; all.vocabulary_size()];
    for ids in all.encode_all(&training, Special::Drop, None)? {
        for id in ids {
            counts[id as usize] += 1;
        }
    }
    // Every rank at first, then ever fewer: a line on log axes needs no more.
    let thin = |&(rank, _): &(usize, f64)| rank % (rank / 8).max(1) == 0;
    let ranks =
        counts[SPECIAL..].iter().enumerate().map(|(rank, &count)| (rank + 1, count as f64)).filter(thin);

    let unknown = tokenizer.special().unknown;
    let mut by_id = vec![0_u64; tokenizer.vocabulary_size()];
    let (mut words, mut same, mut lengths) = (0_u64, 0_u64, Vec::new());
    for text in texts {
        let encoding = tokenizer.encode(text, Special::Drop)?;
        lengths.push(encoding.len());
        for (id, span) in encoding.ids.iter().zip(&encoding.offsets) {
            words += 1;
            by_id[*id as usize] += u64::from(Some(*id) != unknown);
            let word = text[span.clone()].to_lowercase().replace('’', "'");
            same += u64::from(Some(*id) != unknown && tokenizer.piece(*id).as_deref() == Some(word.as_str()));
        }
    }
    let up_to = |size: usize| by_id.iter().take(size + SPECIAL).sum::<u64>();
    let sizes = SIZES.iter().filter(|&&size| size <= distinct.max(SIZES[0]) || size == MOST);
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    rows.add(MOST, DISTINCT, distinct as f64);
    rows.add(MOST, SIZE, tokenizer.vocabulary_size() as f64);
    rows.add(MOST, UNCHANGED, share(same, up_to(MOST)));
    rows.add(MOST, PADDING, padding(&lengths));
    rows.add(MOST, CHANGE, change_by_padding(&tokenizer, &texts[..texts.len().min(32)], seed)?);
    sizes.for_each(|&size| rows.add(size, KNOWN, share(up_to(size), words)));
    Ok(Shown {
        ranks: ranks.map(|(rank, count)| (rank as f64, count)).collect(),
        example: example(&tokenizer, texts)?,
    })
}

/// The share of padding in batches of 32 texts as they come.
fn padding(lengths: &[usize]) -> f64 {
    let (mut places, mut filled) = (0, 0);
    for batch in lengths.chunks(32) {
        places += batch.iter().copied().max().unwrap_or(0) * batch.len();
        filled += batch.iter().sum::<usize>();
    }
    1.0 - filled as f64 / places.max(1) as f64
}

/// The largest change of a model's output when texts are padded to the longest of them.
fn change_by_padding(tokenizer: &Tokenizer, texts: &[String], seed: u64) -> Result<f64> {
    let model = Bag::new(
        BagConfig { vocabulary: tokenizer.vocabulary_size(), n_heads: 4, ..BagConfig::default() },
        seed,
    )?;
    let ids = tokenizer.encode_all(texts, Special::Drop, Some((100, regard_nn::tokens::Keep::First)))?;
    let all: Vec<Tokens> = ids.into_iter().filter(|ids| !ids.is_empty()).map(Tokens::new).collect();
    let answers = |texts: &[Tokens]| -> Result<Vec<f32>> {
        let (ids, lengths) = pad(texts)?;
        let scores = model.forward(&Context::inference(), &Inputs::padded(&ids, &lengths)?)?;
        Ok(scores.select(-1, 1)?.to_vec())
    };
    let together = answers(&all)?;
    let changes = all.iter().zip(&together).map(|(text, &beside)| {
        let alone = answers(std::slice::from_ref(text))?[0];
        Ok(f64::from((alone - beside).abs()))
    });
    Ok(largest(changes.collect::<Result<Vec<_>>>()?))
}

/// The first words of a text that has an unknown one among them, with their pieces and indices.
fn example(tokenizer: &Tokenizer, texts: &[String]) -> Result<[String; 3]> {
    let mut first = None;
    for text in texts {
        let Some((words, ids)) = bags::first_words(tokenizer, text, 10)? else { continue };
        let pieces: Vec<String> = ids.iter().filter_map(|&id| tokenizer.piece(id)).collect();
        let numbers: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let found = [words, pieces, numbers].map(|parts| parts.join(" "));
        if ids.iter().any(|&id| Some(id) == tokenizer.special().unknown) {
            return Ok(found);
        }
        first.get_or_insert(found);
    }
    Ok(first.unwrap_or_default())
}

fn draw(findings: &mut Findings, table: &Table<usize>, run: &Shown) {
    let ranks = run.ranks.iter().map(|(rank, count)| vec![rank.to_string(), count.to_string()]);
    findings.table("ranks", &["rank", "count"], ranks.collect());
    let points =
        SIZES.iter().map(|&size| charts::share_point(size as f64, table.mean_if_measured(size, KNOWN)));
    let points = points.filter(|point| point.1.is_finite());
    let coverage = Chart::new(
        Axis::log("words in the vocabulary, the most frequent first"),
        Axis::linear("share of the words of test texts that it covers").percent().range(0.0, 1.0),
    );
    let zipf = Chart::new(Axis::log("rank of a word"), Axis::log("how often it occurs"));
    let most = run.ranks.first().map_or(1.0, |(_, count)| *count);
    let law = run.ranks.iter().map(|(rank, _)| (*rank, most / rank));
    findings.figure(
        "coverage",
        "The share of unseen text that a vocabulary of the most frequent words covers (mean over seeds, 95 % intervals), and how often \
         each word occurs in the training texts, first seed.",
        Picture::new("How much of a text the most frequent words cover")
            .columns(2)
            .titled_panel("coverage", coverage.series(Series::new("known words").intervals(points)).half())
            .titled_panel(
                "frequencies",
                zipf.series(Series::new("training texts").points(run.ranks.iter().copied()))
                    .series(Series::new("Zipf's law, 1/rank").points(law).fit())
                    .half(),
            ),
    );
}

fn judge(table: &Table<usize>, real: bool) -> Verdict {
    let of = |measure: &str| table.mean(MOST, measure);
    let finding = format!(
        "The training texts have {} different words; the vocabulary has {} entries and covers {:.2} % of the words of test texts. \
         The 100 most frequent words alone cover {:.1} %. In unsorted batches of 32 texts, {:.1} % of all positions are padding.{}",
        fixed(of(DISTINCT).mean, 0),
        fixed(of(SIZE).mean, 0),
        100.0 * of(KNOWN).mean,
        100.0 * table.mean_if_measured(100, KNOWN).mean,
        100.0 * of(PADDING).mean,
        match real {
            true => "",
            false => {
                " The built-in grammar has fewer words than the claim is about and draws them by Zipf's law, so that this run says little \
                 about real text: see the runs on record."
            }
        },
    );
    let checks = vec![
        Check::new("share of the words of test texts that are known", of(KNOWN), Bound::Above(0.95)),
        Check::new("share of known words that come back unchanged", of(UNCHANGED), Bound::Above(0.999)),
        Check::new("largest change of an output by padding", of(CHANGE), Bound::Below(1e-5)),
    ];
    let ours = real.then(|| of(SIZE).mean);
    Verdict::new("A1", checks, finding).published("size of the vocabulary, IMDb", 15_000.0, ours, SOURCES[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(known: f64, unchanged: f64, change: f64) -> Table<usize> {
        let mut table = Table::new();
        for seed in 0..4 {
            let noise = 1e-4 * seed as f64;
            table.add(MOST, seed, KNOWN, known + noise);
            table.add(MOST, seed, UNCHANGED, unchanged);
            table.add(MOST, seed, CHANGE, change * (1.0 + noise));
        }
        table
    }

    #[test]
    fn the_verdict_follows_the_counts() {
        assert_eq!(judge(&planted(0.98, 1.0, 1e-7), false).outcome, Outcome::Holds);
        assert_eq!(judge(&planted(0.8, 1.0, 1e-7), false).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.98, 0.9, 1e-7), false).outcome, Outcome::Fails);
        assert_eq!(judge(&planted(0.98, 1.0, 0.1), true).outcome, Outcome::Fails);
    }

    #[test]
    fn padding_is_what_the_shorter_texts_lack() {
        assert_eq!(padding(&[4, 4]), 0.0);
        assert_eq!(padding(&[4, 2]), 0.25);
    }
}
