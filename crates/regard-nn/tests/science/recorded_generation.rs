//! Generation whose step a CUDA device records: the same texts as without a cache. Without a device, the same on the CPU,
//! which records nothing.

use regard_nn::generate::{Continue, GenerationSettings, Slide, generate};
use regard_nn::models::{GptConfig, LlamaConfig, Model, Transformer};
use regard_nn::tensor::{Device, cuda_devices};
use regard_nn::{Context, Module};

const WORDS: usize = 50;

fn device() -> Device {
    match cuda_devices() {
        Ok(devices) if !devices.is_empty() => Device::Cuda(0),
        _ => Device::Cpu,
    }
}

fn models() -> Vec<(&'static str, Transformer)> {
    let gpt = GptConfig {
        vocabulary: WORDS,
        context: 96,
        n_layers: 2,
        n_heads: 2,
        d_model: 32,
        ..Default::default()
    };
    let llama = LlamaConfig {
        vocabulary: WORDS,
        context: 96,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_model: 32,
        d_hidden: 48,
        ..Default::default()
    };
    let all = [("gpt", gpt.form()), ("llama", llama.form())];
    let build = |(name, form)| {
        let mut model = Transformer::new(form, 4).unwrap();
        model.to(device()).unwrap();
        (name, model)
    };
    all.into_iter().map(build).collect()
}

fn texts(model: &dyn Model, prompts: &[Vec<u32>], settings: &GenerationSettings) -> Vec<Vec<u32>> {
    let model = Continue::new(model).unwrap();
    let all = generate(&model, &Context::inference(), prompts, settings, &mut |_, _| true).unwrap();
    all.into_iter().map(|text| text.tokens).collect()
}

/// Prompts of the same length, of different lengths (which need padding), and more tokens than the context has.
#[test]
fn texts_are_those_of_whole_passes() {
    let same = vec![vec![1, 2, 3, 4], vec![9, 8, 7, 6]];
    let different = vec![vec![1, 2, 3, 4], vec![9, 8]];
    for (name, model) in models() {
        for (prompts, max_tokens, slide) in
            [(&same, 40, None), (&different, 20, None), (&same, 150, Some(Slide::by_quarter(96, 0)))]
        {
            let settings = GenerationSettings { max_tokens, slide, ..GenerationSettings::default() };
            let whole = GenerationSettings { cached: false, ..settings.clone() };
            let (got, expected) = (texts(&model, prompts, &settings), texts(&model, prompts, &whole));
            assert_eq!(got, expected, "{name}, {max_tokens} tokens");
            assert_eq!(got[0].len(), max_tokens);
        }
    }
}

/// A text that ends leaves padding in the batch: the others go on without the recording.
#[test]
fn a_text_may_end_while_others_go_on() {
    for (name, model) in models() {
        let prompts = vec![vec![1, 2, 3, 4], vec![9, 8, 7, 6]];
        let settings = GenerationSettings { max_tokens: 40, ..GenerationSettings::default() };
        let expected = texts(&model, &prompts, &settings);
        let model = Continue::new(&model).unwrap();
        let mut count = 0;
        let mut on_token = |row: usize, _| {
            count += usize::from(row == 0);
            row != 0 || count < 15
        };
        let got = generate(&model, &Context::inference(), &prompts, &settings, &mut on_token).unwrap();
        assert_eq!(got[0].tokens, expected[0][..15], "{name}");
        assert_eq!(got[1].tokens, expected[1], "{name}");
    }
}
