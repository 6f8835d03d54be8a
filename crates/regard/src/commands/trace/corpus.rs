//! `regard trace --corpus`: an activation cache over many texts.

use super::{Trace, ensure_matched};
use crate::activation_cache::{ActivationCache, SiteValue};
use crate::corpus::{Corpus, CorpusArguments, TokenizedCorpus};
use crate::error::usage_error;
use crate::input_tensors;
use crate::model::Opened;
use crate::progress::StepProgress;
use crate::terminal::{remark, thousands};
use anyhow::Result;
use regard_nn::models::{Inputs, Reads};
use regard_nn::tensor::{Ids, Mask};
use regard_nn::tokens::Encoding;
use regard_nn::{Context, Probe};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The sites of a cache unless some are named: the residual stream after each layer.
const DEFAULT_SITES: [&str; 2] = ["layers.*.residual.after", "encoder.layers.*.residual.after"];

impl Trace {
    /// Reads all texts, and writes what no shard has yet.
    pub(super) fn cache(&self, opened: &Opened, argument: &str) -> Result<()> {
        let abilities = opened.model.abilities();
        if abilities.pictures().is_some() {
            return Err(usage_error(format!("{} reads images: give --image", self.model)));
        }
        let encoder_only = abilities.reads == Reads::Source;
        let other = self.site.iter().find(|site| encoder_only && !site.starts_with("encoder."));
        if let Some(site) = other {
            let problem = "of an encoder–decoder model the encoder's sites can be cached (encoder.…)";
            return Err(usage_error(format!("--site {site}: {problem}")));
        }
        let corpus = Corpus::open(argument)?;
        let arguments = CorpusArguments {
            corpus: argument.to_owned(),
            answers: None,
            limit: self.limit,
            length: self.length,
            batch: self.batch,
            seed: 0,
        };
        let tokenized = TokenizedCorpus::new(&corpus, opened.tokenizer()?, &*opened.model, &arguments)?;
        let size = tokenized.measure_size()?;
        let settings = self.settings(opened, argument, tokenized.length, size.tokens);
        let mut cache = ActivationCache::open(self.out()?, settings, self.shard_size as usize * 1_000_000)?;
        let total = size.texts + size.short;
        let first = cache.next_text();
        remark(format!("a {}; {size}", opened.model.kind()));
        match (cache.is_complete(), first) {
            (true, _) => remark("the cache is complete"),
            (_, 0) => {}
            _ => remark(format!("going on with text {}", thousands(first))),
        }
        if !cache.is_complete() {
            self.add_texts(opened, &tokenized, &mut cache, total)?;
        }
        let (texts, tokens, bytes) = cache.size();
        let megabytes = bytes.div_ceil(1_000_000);
        remark(format!(
            "{} texts, {} tokens, {} MB: {}",
            thousands(texts),
            thousands(tokens),
            thousands(megabytes),
            self.out()?.display()
        ));
        Ok(())
    }

    /// What decides the contents of a cache: it goes on only if all of it is the same.
    fn settings(&self, opened: &Opened, corpus: &str, length: usize, tokens: u64) -> Map<String, Value> {
        let parameters: usize =
            opened.model.parameters().iter().map(|(_, parameter)| parameter.tensor().count()).sum();
        let settings = json!({
            "model": self.model, "kind": opened.model.kind(), "parameters": parameters, "corpus": corpus,
            "limit": self.limit, "length": length, "batch": self.batch, "sites": self.cached_sites(opened),
            "corpus_tokens": tokens, "shard_size": self.shard_size, "regard": env!("CARGO_PKG_VERSION"),
        });
        settings.as_object().cloned().unwrap_or_default()
    }

    fn cached_sites(&self, opened: &Opened) -> Vec<String> {
        if !self.site.is_empty() {
            return self.site.clone();
        }
        let encoder_only = opened.model.abilities().reads == Reads::Source;
        DEFAULT_SITES
            .map(str::to_owned)
            .into_iter()
            .filter(|site| site.starts_with("encoder.") == encoder_only)
            .collect()
    }

    fn add_texts(
        &self,
        opened: &Opened,
        tokenized: &TokenizedCorpus,
        cache: &mut ActivationCache,
        total: u64,
    ) -> Result<()> {
        let first = cache.next_text();
        let progress = StepProgress::new("tracing texts", total.saturating_sub(first));
        let mut batch: Vec<(u32, Encoding)> = Vec::new();
        let mut next = first;
        for text in tokenized.corpus.texts(tokenized.limit)?.skip(first as usize) {
            let encoding = tokenized.encode(&text?)?;
            if !encoding.is_empty() {
                batch.push((u32::try_from(next)?, encoding));
            }
            next += 1;
            progress.step();
            if batch.len() == self.batch as usize {
                self.add_batch(opened, &std::mem::take(&mut batch), cache)?;
                if cache.is_full() {
                    cache.flush(next, false)?;
                }
            }
        }
        if !batch.is_empty() {
            self.add_batch(opened, &batch, cache)?;
        }
        cache.flush(next, true)
    }

    /// Runs the model on some texts, padded at their ends.
    fn add_batch(
        &self,
        opened: &Opened,
        batch: &[(u32, Encoding)],
        cache: &mut ActivationCache,
    ) -> Result<()> {
        let padded = batch.iter().map(|(_, text)| text.len()).max().unwrap_or(0);
        let mut ids = Vec::with_capacity(batch.len() * padded);
        for (_, text) in batch {
            ids.extend_from_slice(&text.ids);
            ids.resize(ids.len() + padded - text.len(), 0);
        }
        let shape = [batch.len(), padded];
        let ids = Ids::new(&ids, shape)?;
        let ragged = batch.iter().any(|(_, text)| text.len() < padded);
        let present = ragged.then(|| Mask::from_fn(shape, |at| at[1] < batch[at[0]].1.len()));
        let inputs = Inputs::masked(&ids, present.as_ref());
        let probe = self.cached_sites(opened).into_iter().fold(Probe::new(), Probe::record);
        let context = Context::inference().with_probe(&probe);
        if opened.model.abilities().reads == Reads::Source {
            opened.model.encode(&context, &inputs)?;
        } else {
            input_tensors::run(&*opened.model, &inputs, &context)?;
        }
        ensure_matched(&probe)?;
        let mut values = BTreeMap::new();
        for site in probe.recorded() {
            values.extend(probe.get(&site)?.map(|value| (site, value)));
        }
        for (row, (number, text)) in batch.iter().enumerate() {
            let cut = |(site, value)| -> Result<(String, SiteValue)> {
                let site: &String = site;
                Ok((site.clone(), SiteValue::of(site, value, row, (text.len(), padded))?))
            };
            cache.add(*number, &text.ids, values.iter().map(cut).collect::<Result<_>>()?);
        }
        Ok(())
    }
}
