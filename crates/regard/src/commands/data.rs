//! `regard data`: show and summarise training data, download published sets, and turn reviews into running text.

use crate::bad_usage;
use crate::data_summary::print_summary;
use crate::fetch::data::{self, Set};
use crate::progress::DownloadProgress;
use crate::run::{DataConfig, sources};
use crate::terminal::{line, remark, thousands};
use anyhow::{Context as _, Result};
use clap::{Args, Subcommand};
use regard_nn::data::Labelled;
use regard_nn::data::builtin::{Corpus, CorpusSettings, Split, Statistics};
use regard_nn::data::file::write_whole;
use regard_nn::data::imdb::Imdb;
use regard_nn::tensor::random::Key;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Look at data sets, or download them.
#[derive(Args)]
pub struct Data {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// Summarise a data set: sizes, lengths, classes, duplicates
    ///
    /// Texts, words, classes, duplicates: of plain text, a table, IMDb, parallel text, a treebank, images (MNIST).
    #[command(after_help = "Examples:
  regard data stats
  regard data stats aclImdb_v1.tar.gz
  regard data stats reviews.csv --text-column review --label-column stars
  regard data stats multi30k --source en --target de")]
    Stats {
        /// A file or folder, or the name of a set that was fetched (default: the built-in corpus)
        path: Option<String>,
        /// The column of a table that has the text
        #[arg(long, default_value = "sentence")]
        text_column: String,
        /// The column of a table that has the label
        #[arg(long, default_value = "label")]
        label_column: String,
        /// The language of the source files of parallel text
        #[arg(long, default_value = "en")]
        source: String,
        /// The language of the target files
        #[arg(long, default_value = "de")]
        target: String,
        /// How many built-in texts to count
        #[arg(long, default_value_t = 20_000)]
        texts: usize,
        /// The seed of the built-in corpus
        #[arg(long, default_value_t = 0)]
        seed: u64,
    },
    /// Show some texts of the built-in corpus
    Show {
        /// How many
        #[arg(default_value_t = 3)]
        count: usize,
        /// The seed
        #[arg(long, default_value_t = 0)]
        seed: u64,
        /// As a treebank in CoNLL-U
        #[arg(long)]
        conllu: bool,
    },
    /// Write IMDb's reviews as plain text, for language models
    ///
    /// Writes train.txt and test.txt, a review a line, in random order: the archive's has all negative ones first.
    #[command(after_help = "Examples:
  regard data texts aclImdb_v1.tar.gz --out imdb-text
  regard data texts imdb --words --out imdb-words      # after: regard data fetch imdb
  regard train words-gpt --data imdb-text")]
    Texts {
        /// IMDb's archive or folder, or the name of a set that was fetched
        path: String,
        /// The folder to write
        #[arg(long, short)]
        out: PathBuf,
        /// Put spaces around punctuation, as in WikiText: words are what white space separates
        #[arg(long)]
        words: bool,
    },
    /// Download a published data set, or continue a download that was cut off
    ///
    /// Prints the path to give to --data; the set's name does as well. What was downloaded is checked against its SHA-256;
    /// a copy of yours is not: give its path to --data. REGARD_DATA names the folder that keeps all sets, REGARD_DATA_MIRROR
    /// a server to use instead of the originals', which has each file as SET/FILE.
    #[command(after_help = "Examples:
  regard data fetch shakespeare
  regard train shakespeare-char --data shakespeare
  regard data fetch mnist --out mnist")]
    Fetch {
        /// Which one
        #[arg(value_enum)]
        set: Set,
        /// The folder to write (default: a folder for caches)
        #[arg(long, short)]
        out: Option<PathBuf>,
    },
}

impl Data {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        match &self.what {
            What::Stats { path: Some(path), text_column, label_column, source, target, .. } => {
                let [text_column, label_column, source, target] =
                    [text_column, label_column, source, target].map(String::clone);
                let config =
                    DataConfig { text_column, label_column, source, target, ..DataConfig::default() };
                print_summary(Path::new(&data::named(path)?), &config)
            }
            What::Stats { path: None, texts, seed, .. } => builtin(*texts, *seed),
            What::Show { count, seed, conllu } => show(*count, *seed, *conllu),
            What::Texts { path, out, words } => texts(Path::new(&data::named(path)?), out, *words),
            What::Fetch { set, out } => fetch(*set, out.as_deref()),
        }
    }
}

fn texts(path: &Path, out: &Path, words: bool) -> Result<()> {
    if !sources::is_imdb(path)? {
        bad_usage!("{} is not IMDb's archive or folder; other texts are read as they are", path.display());
    }
    let Imdb { train, test, .. } = Imdb::open(path)?;
    std::fs::create_dir_all(out).with_context(|| format!("cannot create the folder {}", out.display()))?;
    for (name, Labelled { examples, .. }) in [("train", train), ("test", test)] {
        let order = Key::new(0).site("data.texts").site(name).permutation(0, examples.len());
        let file = out.join(format!("{name}.txt"));
        write_whole(&file, |file| {
            let mut file = BufWriter::new(file);
            for &index in &order {
                let text = examples[index].text.split_whitespace().collect::<Vec<_>>().join(" ");
                writeln!(file, "{}", if words { separated(&text) } else { text })?;
            }
            file.flush()
        })?;
        line(format!("{}: {} reviews", file.display(), thousands(order.len() as u64)));
    }
    Ok(())
}

/// A text with spaces around everything that is neither a letter nor a digit, but for apostrophes and hyphens within words.
fn separated(text: &str) -> String {
    let characters: Vec<char> = text.chars().collect();
    let is_word = |index: usize| characters.get(index).is_some_and(|c| c.is_alphanumeric());
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    for (index, &character) in characters.iter().enumerate() {
        let within =
            matches!(character, '\'' | '’' | '-') && index > 0 && is_word(index - 1) && is_word(index + 1);
        if is_word(index) || within || character.is_whitespace() {
            out.push(character);
        } else {
            out.extend([' ', character, ' ']);
        }
    }
    out.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn fetch(set: Set, out: Option<&Path>) -> Result<()> {
    let folder = out.map_or_else(|| data::folder(set), |folder| Ok(folder.to_owned()))?;
    let here = set.is_in(&folder);
    let mut downloads = DownloadProgress::new();
    data::fetch(set, &folder, &mut |file, done, total| downloads.show(file, done, total))?;
    drop(downloads);
    if here {
        remark(format!("{} was there already", set.name()));
    }
    line(set.path(&folder).display());
    Ok(())
}

fn builtin(texts: usize, seed: u64) -> Result<()> {
    let corpus = Corpus::new(CorpusSettings::default(), seed)?;
    for split in Split::ALL {
        let found = Statistics::of(corpus.split(split).texts().take(texts));
        describe(split.name(), &found);
    }
    Ok(())
}

fn describe(name: &str, found: &Statistics) {
    line(format!(
        "{name}: {} texts, {} sentences, {} words, {} distinct",
        thousands(found.texts),
        thousands(found.sentences),
        thousands(found.words),
        thousands(found.distinct_words() as u64)
    ));
    let [negative, positive] = found.labels;
    line(format!("  labels          {} negative, {} positive", thousands(negative), thousands(positive)));
    line(format!(
        "  words a text    mean {:.1}, median {}, nine of ten below {}",
        found.mean_length(),
        found.length_quantile(0.5),
        found.length_quantile(0.9)
    ));
    for size in [100, 1_000, 2_000, 5_000] {
        line(format!(
            "  {:<15} {:.2} % of all words",
            format!("top {}", thousands(size as u64)),
            100.0 * found.coverage(size)
        ));
    }
    for (kind, count) in &found.kinds {
        let share = 100.0 * *count as f64 / found.sentences.max(1) as f64;
        line(format!("  {:<15} {share:.1} % of sentences", kind.name()));
    }
    let far: u64 = found.distances.range(regard_nn::data::builtin::FAR..).map(|(_, count)| count).sum();
    let all: u64 = found.distances.values().sum();
    line(format!("  negated words   {}, of them {} far from their negator", thousands(all), thousands(far)));
    let words: Vec<&str> = found.frequencies.iter().take(12).map(|(word, _)| word.as_str()).collect();
    line(format!("  most frequent   {}\n", words.join(" ")));
}

fn show(count: usize, seed: u64, conllu: bool) -> Result<()> {
    let corpus = Corpus::new(CorpusSettings::default(), seed)?;
    for (number, text) in corpus.texts().take(count).enumerate() {
        if conllu {
            crate::terminal::piece(&text.conllu(&format!("builtin-{seed}-{number}")));
        } else {
            line(format!("[{:?}] {}\n", text.label, text.text()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::separated;

    #[test]
    fn punctuation_is_separated_but_for_apostrophes_and_hyphens_within_words() {
        assert_eq!(separated("It's well-made, isn't it?"), "It's well-made , isn't it ?");
        assert_eq!(separated("'So' - 5.5/10..."), "' So ' - 5 . 5 / 10 . . .");
        assert_eq!(separated(""), "");
    }
}
