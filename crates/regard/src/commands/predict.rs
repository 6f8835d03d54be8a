//! `regard predict`: the class of a text, and the weight of each word.

use crate::bad_usage;
use crate::compute::Compute;
use crate::forward_pass::prediction::{gradient_times_input, label};
use crate::model::Opened;
use crate::run::encode_as_trained;
use crate::terminal::line;
use anyhow::Result;
use clap::Args;
use regard_nn::models::{Inputs, Predicts};
use regard_nn::tensor::Ids;
use regard_nn::tokens::{Encoding, Special};
use regard_nn::{Context, Probe};

/// Classify a text, and show the weight of each word.
#[derive(Args)]
#[command(after_help = "Examples:
  regard predict runs/sentiment-additive \"The acting was superb and the ending was moving\"
  regard predict runs/tagger \"the old <MASK> sat on a chair\"
  regard predict deepset/roberta-base-squad2 \"Who sat?\" --passage \"The cat sat on the mat.\"")]
pub struct Predict {
    /// A run or another classifier
    model: String,
    /// The text, or a question
    text: String,
    /// The text in which a question is answered
    #[arg(long, value_name = "TEXT")]
    passage: Option<String>,
    #[command(flatten)]
    compute: Compute,
}

/// No answer has more tokens.
const LONGEST_ANSWER: usize = 64;

impl Predict {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = self.compute.open(&self.model)?;
        let abilities = opened.model.abilities();
        if abilities.pictures().is_some() {
            bad_usage!("this model reads pictures: `regard view` and `regard influence` take --image FILE");
        }
        match (abilities.predicts, &self.passage) {
            (Predicts::Span, Some(passage)) => return self.answer(&opened, passage),
            (Predicts::Span, None) => {
                bad_usage!("this model answers questions: give the text that has the answer with --passage")
            }
            (_, Some(_)) => bad_usage!("--passage is for models that answer questions"),
            _ => {}
        }
        let encoding = encode_as_trained(&opened, &self.text)?;
        if encoding.is_empty() {
            bad_usage!("there is nothing to read in the text");
        }
        match abilities.predicts {
            Predicts::Class => self.classify(&opened, &encoding),
            // A transformer classifies every token, a tagger the words that are hidden from it.
            Predicts::TokenClass if opened.model.form().is_some() => self.tag_all(&opened, &encoding),
            Predicts::TokenClass => self.tag(&opened, &encoding),
            Predicts::Vector | Predicts::Nothing => bad_usage!(
                "this {} has no head that classifies; `regard view` and `regard trace` show what it computes",
                opened.model.kind()
            ),
            _ => {
                bad_usage!(
                    "a {} does not classify texts; try `regard generate` or `regard fill`",
                    opened.model.kind()
                )
            }
        }
    }

    fn classify(&self, opened: &Opened, encoding: &Encoding) -> Result<()> {
        let length = encoding.len();
        let ids = Ids::new(&encoding.ids, [1, length])?;
        let probe = Probe::new().record("pool.weights").record("layers.*.self.weights").track("embeddings");
        let context = Context::inference().with_probe(&probe);
        let scores = opened.model.forward(&context, &Inputs::padded(&ids, &[length])?)?.select(1, 0)?;
        let probabilities = scores.softmax()?.to_vec();
        let best = scores.argmax(-1)?.values()[0] as usize;
        for (class, probability) in probabilities.iter().enumerate() {
            let mark = if class == best { "→" } else { " " };
            line(format!("{mark} {:<12} {probability:.4}", label(opened, class)));
        }
        let (weights, what) = match probe.get("pool.weights")? {
            Some(weights) => (weights.to_vec(), "weight of each word in the pool".to_owned()),
            None => {
                let class = label(opened, best);
                let what = "gradient × embedding of each word";
                let signs = format!("{what}: above 0 it speaks for {class}, below 0 against it");
                (gradient_times_input(&scores, best, &probe)?, signs)
            }
        };
        line("");
        line(what);
        show(&self.text, encoding, &weights);
        Ok(())
    }

    /// The class of each token.
    fn tag_all(&self, opened: &Opened, encoding: &Encoding) -> Result<()> {
        let ids = Ids::new(&encoding.ids, [1, encoding.len()])?;
        let scores = opened.model.forward(&Context::inference(), &Inputs::ids(&ids))?;
        let (classes, best) = (scores.shape().last(), scores.argmax(-1)?);
        let probabilities = scores.softmax()?;
        let rows = probabilities.values();
        let tokens = encoding.offsets.iter().zip(&encoding.pieces).zip(&encoding.special);
        for (((range, piece), special), (row, &class)) in tokens.zip(rows.chunks(classes).zip(best.values()))
        {
            if !special {
                let word = self.text.get(range.clone()).filter(|word| !word.is_empty()).unwrap_or(piece);
                let class = class as usize;
                line(format!("  {word:<18} {:<12} {:.4}", label(opened, class), row[class]));
            }
        }
        Ok(())
    }

    /// The part of a passage that answers a question: the best pair of a first and a last token.
    fn answer(&self, opened: &Opened, passage: &str) -> Result<()> {
        let encoding = opened.tokenizer()?.encode_pair(&self.text, passage, Special::Keep)?;
        let (length, abilities) = (encoding.len(), opened.model.abilities());
        if let Some(most) = abilities.context.filter(|&most| most < length) {
            bad_usage!("question and passage have {length} tokens, the model reads {most}");
        }
        let row = |ids: &[u32]| Ids::new(ids, [1, length]);
        let types = (abilities.types > 1).then(|| row(&encoding.types)).transpose()?;
        let inputs = Inputs { types, ..Inputs::ids(&row(&encoding.ids)?) };
        let scores = opened.model.forward(&Context::inference(), &inputs)?; // (1, T, 2)
        let ends = scores.select(0, 0)?.transpose(0, 1)?.softmax()?; // (2, T)
        let values = ends.values();
        let (first, last) = values.split_at(length);
        let inside: Vec<usize> = (0..length).filter(|&at| encoding.texts[at] == Some(1)).collect();
        let spans = inside.iter().flat_map(|&from| {
            let near = inside.iter().filter(move |&&to| (from..from + LONGEST_ANSWER).contains(&to));
            near.map(move |&to| (from, to, first[from] * last[to]))
        });
        let Some((from, to, probability)) = spans.max_by(|one, other| one.2.total_cmp(&other.2)) else {
            bad_usage!("there is nothing to read in the passage");
        };
        let text = passage.get(encoding.offsets[from].start..encoding.offsets[to].end).unwrap_or_default();
        line(format!("{text}  {probability:.4}"));
        Ok(())
    }

    fn tag(&self, opened: &Opened, encoding: &Encoding) -> Result<()> {
        let ids = Ids::new(&encoding.ids, [1, encoding.len()])?;
        let probe = Probe::new().record("layers.0.self.weights");
        let scores = opened.model.forward(&Context::inference().with_probe(&probe), &Inputs::ids(&ids))?;
        let classes = scores.shape().last();
        let probabilities = scores.softmax()?;
        let weights = probe.get("layers.0.self.weights")?;
        let mask = opened.tokenizer()?.special().mask;
        let mut hidden = false;
        for (place, row) in probabilities.values().chunks(classes).enumerate() {
            if Some(encoding.ids[place]) != mask {
                continue;
            }
            hidden = true;
            let classes: Vec<String> =
                row.iter().enumerate().map(|(class, p)| format!("{} {p:.4}", label(opened, class))).collect();
            line(format!("word {}: {}", place + 1, classes.join("  ")));
            if let Some(weights) = &weights {
                let heads = weights.shape()[1];
                let row = weights.select(0, 0)?.select(1, place)?.sum(0)?.scale(1.0 / heads as f32)?;
                line("attention of the hidden word, mean over heads");
                show(&self.text, encoding, &row.values());
            }
        }
        if !hidden {
            bad_usage!("no word that is read is hidden; write <MASK> in the place of one");
        }
        Ok(())
    }
}

/// Words with their weights as numbers and bars.
fn show(text: &str, encoding: &Encoding, weights: &[f32]) {
    let most = weights.iter().fold(1e-9_f32, |most, weight| most.max(weight.abs()));
    for ((range, piece), weight) in encoding.offsets.iter().zip(&encoding.pieces).zip(weights) {
        let word = text.get(range.clone()).filter(|word| !word.is_empty()).unwrap_or(piece);
        let bar = "█".repeat((weight.abs() / most * 30.0).round() as usize);
        line(format!("  {word:<18} {weight:>8.4}  {bar}"));
    }
}
