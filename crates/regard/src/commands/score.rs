//! `regard score`: one attention score as a sum over what wrote its query and its key.

use crate::bad_usage;
use crate::compute::Compute;
use crate::corpus_analysis::{Output, columns};
use crate::figure::fixed;
use crate::forward_pass::score_parts::{NamedParts, named_parts};
use crate::forward_pass::{ForwardPass, Group, Input};
use crate::terminal::{line, remark};
use anyhow::{Context as _, Result};
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Split the score of one query and key into what earlier heads and layers wrote.
///
/// In a pre-norm model the query and the key are sums over the embeddings, earlier heads and earlier feed-forward layers, once
/// the norm's statistics are held fixed. The score is exactly the sum over all pairs of these, rotation included: the table lists
/// the largest, score.csv has all of them.
#[derive(Args)]
#[command(after_help = "Examples:
  regard score openai-community/gpt2 \"The cat sat on the mat. The cat\" --layer 5 --head 1
  regard score runs/words-gpt \"the plot was not\" --layer 1 --head 0 --query 3 --key 1 -o outputs/why")]
pub struct Score {
    /// A run or checkpoint folder, or a name in the Hugging Face cache
    model: String,
    /// The text
    text: String,
    /// The layer, from 0
    #[arg(long, value_name = "N")]
    layer: usize,
    /// The head in it, from 0
    #[arg(long, value_name = "N")]
    head: usize,
    /// The position of the query, from 0 [default: the last]
    #[arg(long, value_name = "N")]
    query: Option<usize>,
    /// The position of the key, from 0 [default: the one with the largest weight]
    #[arg(long, value_name = "N")]
    key: Option<usize>,
    /// How many pairs are listed
    #[arg(long, value_name = "N", default_value_t = 12)]
    top: usize,
    /// The folder to write
    #[arg(long, short, default_value = "outputs/score")]
    out: PathBuf,
    #[command(flatten)]
    compute: Compute,
}

impl Score {
    /// Runs the command.
    pub fn run(&self) -> Result<()> {
        let opened = Arc::new(self.compute.open(&self.model)?);
        let most = opened.model.abilities().context.unwrap_or(usize::MAX);
        let input = Input::Text(self.text.clone(), String::new());
        let pass = ForwardPass::new(&opened, &input, most, &AtomicBool::new(false))?;
        let site =
            pass.sites().iter().position(|site| site.group == Group::Itself && site.layer == self.layer);
        let Some(site) = site else {
            bad_usage!("there is no self-attention in a layer {}", self.layer);
        };
        let about = &pass.sites()[site];
        if self.head >= about.heads {
            bad_usage!("layer {} has {} heads: there is no head {}", self.layer, about.heads, self.head);
        }
        let count = pass.source().len();
        let query = self.query.unwrap_or(count - 1);
        if query.max(self.key.unwrap_or(0)) >= count {
            bad_usage!("the text has {count} tokens: positions are 0 to {}", count - 1);
        }
        let weights = pass.weights(site)?.block(0, self.head, query..query + 1, 0..count)?.to_vec();
        let strongest = || (0..count).max_by(|&a, &b| weights[a].total_cmp(&weights[b]).then(b.cmp(&a)));
        let key = self.key.or_else(strongest).context("the text has no tokens")?;
        let parts = named_parts(&pass, site, self.head, (query, key))?;
        let output = Output::create(&self.out)?;
        write(&parts, &output)?;
        let token = |at: usize| format!("“{}” ({at})", pass.source()[at].text);
        line(format!(
            "layer {}, head {}: {} → {}: score {}, weight {}",
            self.layer,
            self.head,
            token(query),
            token(key),
            fixed(parts.score, 4),
            fixed(f64::from(weights[key]), 4)
        ));
        self.list(&parts);
        remark(format!("\nall pairs: {}", self.out.join("score.csv").display()));
        Ok(())
    }

    fn list(&self, parts: &NamedParts) {
        let ordered = parts.largest();
        let mut rows = vec![["in the query", "in the key", "part"].map(str::to_owned).to_vec()];
        let listed = ordered.iter().take(self.top);
        rows.extend(
            listed
                .clone()
                .map(|(query, key, part)| vec![(*query).to_owned(), (*key).to_owned(), fixed(*part, 4)]),
        );
        let sum: f64 = ordered.iter().map(|(.., part)| part).sum();
        let rest = sum - listed.map(|(.., part)| part).sum::<f64>();
        let others = ordered.len().saturating_sub(self.top);
        rows.push(vec![format!("{others} others"), String::new(), fixed(rest, 4)]);
        if parts.distance != 0.0 {
            rows.push(vec!["distance".to_owned(), String::new(), fixed(parts.distance, 4)]);
        }
        rows.push(vec!["sum".to_owned(), String::new(), fixed(sum + parts.distance, 4)]);
        columns(&rows);
    }
}

fn write(parts: &NamedParts, output: &Output) -> Result<()> {
    let pairs = parts
        .largest()
        .into_iter()
        .map(|(query, key, part)| vec![query.to_owned(), key.to_owned(), part.to_string()]);
    let distance = (parts.distance != 0.0)
        .then(|| vec!["distance".to_owned(), "distance".to_owned(), parts.distance.to_string()]);
    output.csv("score", &["query_writer", "key_writer", "part"], pairs.chain(distance))
}
