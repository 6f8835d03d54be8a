//! Llama's configuration.

use super::family::Family;
use super::llama_like::{self, LLAMA as LIKE};

pub(super) const LLAMA: Family = Family {
    model_type: "llama",
    architectures: &["LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel", "LlamaForSequenceClassification"],
    prefix: "model.",
    read: |options, shapes| LIKE.read(options, shapes),
    names: llama_like::names,
    write: |form| LIKE.write(form),
};
