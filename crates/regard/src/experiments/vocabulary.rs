//! How text becomes word indices: how many words there are, how many are unknown, and what padding changes.

use super::bag_models as bags;
use super::sentiment_models as sentiment;
use crate::experiment::claims::SOURCES;
use crate::experiment::{Bound, Check, Experiment, Findings, Lab, Measurements, Verdict};
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
    question: "How many words does a vocabulary need, and what becomes of the rest?",
    prediction: "A vocabulary of at most 15,000 words, made from the training texts, knows more than 95 % of the words of other \
        texts; every known word comes back unchanged from its index; and padding changes no answer by more than 1e-5.",
    design: "The most frequent words of 1,000 training texts, `<PAD>` and `<UNK>` added; test texts become indices and words again. \
        Coverage is counted for vocabularies cut to fewer words too. For the padding, a bag of word vectors with random weights \
        reads texts alone and side by side with longer ones. Each seed draws its own training texts.",
    changed: Some("Standard size got fifteen seeds instead of five."),
    real_data: Some("IMDb (aclImdb_v1.tar.gz) or a folder with train.tsv and test.tsv"),
    seconds: [1.5, 3.0, 60.0],
    run,
};

/// The source's vocabulary.
const MOST: usize = 15_000;
/// Vocabularies cut to so many words.
const SIZES: [usize; 9] = [30, 100, 300, 1_000, 2_000, 4_000, 8_000, 12_000, MOST];
/// `<PAD>` and `<UNK>` come first.
const SPECIAL: usize = 2;

#[derive(Serialize, Deserialize)]
struct Run {
    /// Different words of the training texts, and pieces of the vocabulary.
    distinct: f64,
    size: f64,
    /// The share of the test texts' words that a vocabulary knows, for those of [`SIZES`] that there are words enough for.
    known: Vec<(usize, f64)>,
    /// The share of all known words of test texts that come back as they were, but for capital letters.
    unchanged: f64,
    /// The share of places in batches of 32 that is padding.
    padding: f64,
    /// The largest difference of an answer with and without padding.
    moved: f64,
    /// Counts of words by rank, thinned out.
    ranks: Vec<(f64, f64)>,
    example: (String, String, String),
}

fn run(lab: &Lab) -> Result<Findings> {
    let seeds = lab.seeds_of_small_models();
    let texts: Vec<String> = sentiment::test_texts(lab)?.into_iter().map(|(text, _)| text).collect();
    let runs = lab.parts("runs", &seeds, |&seed| read(lab, seed, &texts))?;
    let mut findings = Findings::new(&["size"]);
    for (&seed, run) in seeds.iter().zip(&runs) {
        let mut add = |measure: &str, value: f64| findings.measurements.add(&[&MOST], seed, measure, value);
        add("different words", run.distinct);
        add("size", run.size);
        add("known words that come back unchanged", run.unchanged);
        add("padding", run.padding);
        add("change of an answer by padding", run.moved);
        for (size, known) in &run.known {
            findings.measurements.add(&[size], seed, "known", *known);
        }
    }
    for (class, text) in samples()? {
        findings.word(format!("sample: {class}"), text);
    }
    if let Some(run) = runs.first() {
        draw(&mut findings, run);
        let (text, pieces, ids) = run.example.clone();
        findings.word("example text", text);
        findings.word("example pieces", pieces);
        findings.word("example ids", ids);
    }
    findings.verdicts = vec![judge(&findings.measurements, lab.conditions.data.is_some())];
    for measure in ["different words", "size", "padding"] {
        let value = findings.measurements.mean(&[&MOST], measure).mean;
        findings.fact(measure, value);
    }
    for size in [100, 1_000] {
        let value = findings.measurements.mean_if_measured(&[&size], "known").mean;
        findings.fact(format!("known by {size} words"), value);
    }
    let unknown = 1.0 - findings.measurements.mean(&[&MOST], "known").mean;
    findings.fact("unknown", unknown);
    Ok(findings)
}

/// A short built-in review of each class.
fn samples() -> Result<Vec<(String, String)>> {
    let labelled = sources::builtin_labelled(&sources::builtin_test()?);
    let short = |class: usize| {
        let fits = |text: &str| (20..=40).contains(&text.split_whitespace().count());
        labelled.examples.iter().find(|example| example.label == class && fits(&example.text))
    };
    let of = |(class, name): (usize, &String)| Some((name.clone(), short(class)?.text.clone()));
    Ok(labelled.classes.iter().enumerate().filter_map(of).collect())
}

fn read(lab: &Lab, seed: u64, texts: &[String]) -> Result<Run> {
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
    Ok(Run {
        distinct: distinct as f64,
        size: tokenizer.vocabulary_size() as f64,
        known: sizes.map(|&size| (size, share(up_to(size), words))).collect(),
        unchanged: share(same, up_to(MOST)),
        padding: padding(&lengths),
        moved: moved(&tokenizer, &texts[..texts.len().min(32)], seed)?,
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

/// How much a model's answers change when texts are padded to the longest of them.
fn moved(tokenizer: &Tokenizer, texts: &[String], seed: u64) -> Result<f64> {
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
    Ok(super::largest(changes.collect::<Result<Vec<_>>>()?))
}

/// The first words of a text that has an unknown one among them, with their pieces and indices.
fn example(tokenizer: &Tokenizer, texts: &[String]) -> Result<(String, String, String)> {
    let mut first = None;
    for text in texts {
        let Some((words, ids)) = bags::first_words(tokenizer, text, 10)? else { continue };
        let pieces: Vec<String> = ids.iter().filter_map(|&id| tokenizer.piece(id)).collect();
        let numbers: Vec<String> = ids.iter().map(ToString::to_string).collect();
        let found = (words.join(" "), pieces.join(" "), numbers.join(" "));
        if ids.iter().any(|&id| Some(id) == tokenizer.special().unknown) {
            return Ok(found);
        }
        first.get_or_insert(found);
    }
    Ok(first.unwrap_or_default())
}

fn draw(findings: &mut Findings, run: &Run) {
    let ranks = run.ranks.iter().map(|(rank, count)| vec![rank.to_string(), count.to_string()]);
    findings.table("ranks", &["rank", "count"], ranks.collect());
    let sizes = SIZES.iter().filter(|size| !findings.measurements.find(&[*size], "known").is_empty());
    let points: Vec<_> = sizes
        .map(|size| {
            let interval = findings.measurements.mean(&[size], "known");
            (*size as f64, interval.mean, interval.low.max(0.0), interval.high.min(1.0))
        })
        .collect();
    let coverage = Chart::new(
        Axis::log("words in the vocabulary, the most frequent first"),
        Axis::linear("share of the words of test texts that it knows").percent().range(0.0, 1.0),
    );
    let zipf = Chart::new(Axis::log("rank of a word"), Axis::log("how often it occurs"));
    let most = run.ranks.first().map_or(1.0, |(_, count)| *count);
    let law = run.ranks.iter().map(|(rank, _)| (*rank, most / rank));
    findings.figure(
        "coverage",
        "How much of unseen text a vocabulary of the most frequent words knows (mean over seeds, 95 % intervals), and how often each \
         word occurs in the training texts, first seed.",
        Picture::new("How much of a text the most frequent words are")
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

fn judge(table: &Measurements, real: bool) -> Verdict {
    let of = |measure: &str| table.mean(&[&MOST], measure);
    let finding = format!(
        "The training texts have {} different words; the vocabulary has {} pieces and knows {:.2} % of the words of test texts. \
         The 100 most frequent words alone are {:.1} % of them. In batches of 32 texts as they come, {:.1} % is padding.{}",
        fixed(of("different words").mean, 0),
        fixed(of("size").mean, 0),
        100.0 * of("known").mean,
        100.0 * table.mean_if_measured(&[&100], "known").mean,
        100.0 * of("padding").mean,
        match real {
            true => "",
            false => {
                " The grammar knows fewer words than the claim speaks of, and draws them by Zipf's law: that 15,000 are enough for real \
                 text, and that real words are spread like this, takes real text to show."
            }
        },
    );
    let checks = vec![
        Check::new("share of the words of test texts that are known", of("known"), Bound::Above(0.95)),
        Check::new(
            "share of known words that come back unchanged",
            of("known words that come back unchanged"),
            Bound::Above(0.999),
        ),
        Check::new(
            "largest change of an answer by padding",
            of("change of an answer by padding"),
            Bound::Below(1e-5),
        ),
    ];
    let ours = real.then(|| of("size").mean);
    Verdict::new("A1", checks, finding).published("size of the vocabulary, IMDb", 15_000.0, ours, SOURCES[0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Outcome;

    fn planted(known: f64, unchanged: f64, moved: f64) -> Measurements {
        let mut table = Measurements::new(&["size"]);
        for seed in 0..4 {
            let noise = 1e-4 * seed as f64;
            table.add(&[&MOST], seed, "known", known + noise);
            table.add(&[&MOST], seed, "known words that come back unchanged", unchanged);
            table.add(&[&MOST], seed, "change of an answer by padding", moved * (1.0 + noise));
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
