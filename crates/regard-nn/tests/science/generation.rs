//! Generation against transformers, with and without the cache.

use crate::golden::{Golden, agree};
use regard_nn::Context;
use regard_nn::checkpoint;
use regard_nn::generate::{
    Answer, BeamSettings, Continue, GenerationSettings, NextToken, Sampling, beam_search, distribution,
    generate,
};
use regard_nn::models::Model;
use regard_nn::tensor::Tensor;

fn model(case: &str) -> Box<dyn Model> {
    let golden = Golden::open(&format!("models/{case}"));
    let folder = tempfile::tempdir().unwrap();
    golden.write_below("weights/", &folder.path().join("model.safetensors"));
    std::fs::write(folder.path().join("config.json"), &golden.metadata["config"]).unwrap();
    checkpoint::load(folder.path()).unwrap().model
}

fn rows(golden: &Golden, name: &str) -> Vec<Vec<u32>> {
    let ids = golden.ids(name);
    ids.values().chunks(ids.shape().last()).map(<[u32]>::to_vec).collect()
}

/// Prompts without the padding before them.
fn prompts(golden: &Golden, case: &str) -> Vec<Vec<u32>> {
    let mask = golden.mask(&format!("{case}/mask"));
    let texts = rows(golden, &format!("{case}/ids"));
    let width = texts[0].len();
    let present = mask.values().chunks(width);
    texts
        .iter()
        .zip(present)
        .map(|(text, present)| {
            text.iter().zip(present).filter(|(_, here)| **here).map(|(&id, _)| id).collect()
        })
        .collect()
}

fn continued(model: &impl NextToken, prompts: &[Vec<u32>], stop: Option<u32>, cached: bool) -> Vec<Vec<u32>> {
    let settings = GenerationSettings {
        max_tokens: 12,
        stop_tokens: stop.into_iter().collect(),
        cached,
        ..GenerationSettings::default()
    };
    let said = generate(model, &Context::inference(), prompts, &settings, &mut |_, _| true).unwrap();
    said.into_iter().map(|text| text.tokens).collect()
}

/// Greedy texts equal transformers' up to a stop token, with the cache and without, alone and in a batch.
fn greedy(model: &impl NextToken, prompts: &[Vec<u32>], want: &[Vec<u32>], stop: Option<u32>) {
    for cached in [true, false] {
        let got = continued(model, prompts, stop, cached);
        for (got, want) in got.iter().zip(want) {
            let new = &want[want.len() - 12..];
            let end = new.iter().position(|&id| Some(id) == stop).map_or(12, |at| at + 1);
            assert_eq!(got, &new[..end]);
        }
    }
}

fn stop_token(golden: &Golden, name: &str) -> Option<u32> {
    let settings: serde_json::Value = serde_json::from_str(&golden.metadata["settings"]).unwrap();
    settings[name]["eos_token_id"].as_u64().map(|id| id as u32)
}

fn causal(case: &str) {
    let golden = Golden::open("models/generation");
    let loaded = model(case);
    let model = Continue::new(&*loaded).unwrap();
    let prompts = prompts(&golden, case);
    for kind in ["greedy", "stopped"] {
        let name = format!("{case}/{kind}");
        let (want, stop) = (rows(&golden, &name), stop_token(&golden, &name));
        greedy(&model, &prompts, &want, stop);
    }
    let together = continued(&model, &prompts, None, true);
    for (prompt, together) in prompts.iter().zip(together) {
        assert_eq!(
            continued(&model, std::slice::from_ref(prompt), None, true)[0],
            together,
            "a prompt alone"
        );
    }
    for setting in golden.below(&format!("{case}/sampling/")) {
        if ["ids", "logits"].contains(&setting.as_str()) {
            continue;
        }
        let settings: serde_json::Value = serde_json::from_str(&golden.metadata["settings"]).unwrap();
        let settings = &settings[format!("{case}/sampling/{setting}")];
        let number = |key: &str| settings[key].as_f64().unwrap() as f32;
        let sampling = Sampling {
            greedy: false,
            temperature: number("temperature"),
            top_k: settings["top_k"].as_u64().unwrap() as usize,
            top_p: number("top_p"),
            repetition_penalty: number("repetition_penalty"),
            seed: 0,
        };
        let logits = golden.tensor(&format!("{case}/sampling/logits"));
        let text = golden.ids(&format!("{case}/sampling/ids"));
        let got = distribution(&logits.values(), text.values(), &sampling);
        let got = Tensor::new(&got, [got.len()]).unwrap();
        agree(&setting, &got, &golden.tensor(&format!("{case}/sampling/{setting}")), 1e-6);
    }
}

#[test]
fn gpt2() {
    causal("gpt2");
}

#[test]
fn llama() {
    causal("llama");
}

#[test]
fn t5_greedily_and_with_beams() {
    let golden = Golden::open("models/generation");
    let model = model("t5-gated");
    let (source, mask) = (golden.ids("t5-gated/ids"), golden.mask("t5-gated/mask"));
    let context = Context::inference();
    let answer = Answer::new(&*model, &context, &source, Some(&mask), 1).unwrap();
    for kind in ["greedy", "stopped"] {
        let name = format!("t5-gated/{kind}");
        greedy(&answer, &answer.start(), &rows(&golden, &name), stop_token(&golden, &name));
    }
    let answer = Answer::new(&*model, &context, &source, Some(&mask), 3).unwrap();
    for (kind, length_penalty, early_stopping) in
        [("late", 1.0, false), ("early", 1.0, true), ("short", 0.4, false)]
    {
        let name = format!("t5-gated/beams/{kind}");
        let stop = stop_token(&golden, &name).unwrap();
        let settings = BeamSettings {
            beams: 3,
            max_tokens: 12,
            length_penalty,
            early_stopping,
            stop_tokens: vec![stop],
            slide: None,
        };
        let found = beam_search(&answer, &context, &answer.start(), &settings).unwrap();
        let (want, scores) =
            (rows(&golden, &format!("{name}/sequences")), golden.tensor(&format!("{name}/scores")));
        for (i, hypothesis) in found.iter().flatten().enumerate() {
            let want = &want[i][1..];
            let end = want.iter().position(|&id| id == stop).map_or(want.len(), |at| at + 1);
            assert_eq!(hypothesis.tokens, want[..end], "{kind} {i}");
            assert!((hypothesis.score - scores.values()[i]).abs() < 1e-4, "{kind} {i}");
        }
        assert_eq!(found.iter().flatten().count(), 9);
    }
}
