//! Choosing tokens: what each setting promises, and how a text ends.

use crate::zoo;
use regard_nn::generate::{
    Answer, BeamSettings, Continue, GenerationEnd, GenerationSettings, NextToken, Sampling, Slide,
    beam_search, distribution, generate,
};
use regard_nn::models::Transformer;
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Ids, Mask, Tensor};
use regard_nn::{Context, Result};

/// A model that looks at nothing but the last token, of which it knows five.
struct Chain {
    limit: Option<usize>,
}

const WORDS: usize = 5;

/// Scores after a token.
fn scores(token: u32) -> Vec<f32> {
    Key::new(3).site(&token.to_string()).normal(WORDS, 1.5)
}

impl NextToken for Chain {
    fn next_scores(&self, _: &Context, ids: &Ids, _: Option<&Mask>) -> Result<Tensor> {
        let [rows, time] = ids.shape()[..] else { panic!("ids are not a table") };
        let last = ids.values().chunks(time).map(|row| row[time - 1]);
        let values: Vec<f32> = last.flat_map(scores).collect();
        Ok(Tensor::new(&values, [rows, 1, WORDS])?)
    }

    fn limit(&self) -> Option<usize> {
        self.limit
    }
}

const CHAIN: Chain = Chain { limit: None };

fn sampled() -> Sampling {
    Sampling::at_temperature(1.0, 7)
}

fn say(prompts: &[Vec<u32>], settings: &GenerationSettings) -> Vec<Vec<u32>> {
    let said = generate(&CHAIN, &Context::inference(), prompts, settings, &mut |_, _| true).unwrap();
    said.into_iter().map(|text| text.tokens).collect()
}

fn softmax(scores: &[f32]) -> Vec<f32> {
    let total: f32 = scores.iter().map(|score| score.exp()).sum();
    scores.iter().map(|score| score.exp() / total).collect()
}

fn near(got: &[f32], want: &[f32]) {
    assert!(got.iter().zip(want).all(|(got, want)| (got - want).abs() < 1e-6), "{got:?}, expected {want:?}");
}

#[test]
fn top_k_keeps_the_k_best_in_proportion() {
    let scores = Key::new(1).normal(50, 2.0);
    let all = distribution(&scores, &[], &sampled());
    near(&all, &softmax(&scores));
    for k in [1, 3, 50, 99] {
        let kept = distribution(&scores, &[], &Sampling { top_k: k, ..sampled() });
        assert_eq!(kept.iter().filter(|&&p| p > 0.0).count(), k.min(50));
        let mut best: Vec<usize> = (0..50).collect();
        best.sort_by(|&a, &b| all[b].total_cmp(&all[a]));
        let mass: f32 = best.iter().take(k).map(|&token| all[token]).sum();
        for (rank, &token) in best.iter().enumerate() {
            let want = if rank < k { all[token] / mass } else { 0.0 };
            assert!((kept[token] - want).abs() < 1e-6, "{k}: {token}");
        }
    }
}

#[test]
fn top_p_keeps_the_fewest_that_have_the_mass() {
    // The larger ones are sorted in several pieces.
    for count in [1, 50, 64, 65, 3000] {
        let scores = Key::new(2).normal(count, 2.0);
        let all = distribution(&scores, &[], &sampled());
        for p in [0.01, 0.3, 0.5, 0.9, 0.999, 1.0] {
            let kept = distribution(&scores, &[], &Sampling { top_p: p, ..sampled() });
            let of_kept = || (0..count).filter(|&token| kept[token] > 0.0).map(|token| all[token]);
            let (mass, least) = (of_kept().sum::<f32>(), of_kept().fold(1.0, f32::min));
            assert!(mass >= p - 1e-5, "{p}: only {mass}");
            assert!(p >= 1.0 || mass - least < p, "{p}: {mass} could do without {least}");
            assert!((kept.iter().sum::<f32>() - 1.0).abs() < 1e-5);
            let rest = (0..count).filter(|&token| kept[token] == 0.0);
            assert!(rest.into_iter().all(|token| all[token] <= least), "a better one was left out");
        }
    }
}

#[test]
fn the_first_of_the_largest_is_the_best() {
    let greedy = Sampling::default();
    for (count, best) in [(1, 0), (16, 15), (17, 16), (40, 7), (40, 33)] {
        let mut scores = vec![-1.0; count];
        scores[best] = 2.0;
        scores[count - 1] = 2.0;
        assert_eq!(greedy.choose(&scores, &[], (0, 0)), best as u32);
        scores[0] = if best > 0 { f32::NAN } else { 2.0 };
        assert_eq!(greedy.choose(&scores, &[], (0, 0)), best as u32, "NaN is ignored");
    }
    assert_eq!(greedy.choose(&[f32::NEG_INFINITY; 20], &[], (0, 0)), 0);
}

#[test]
fn temperature_goes_from_the_best_to_all_alike() {
    let scores = [1.0, 3.0, 2.0, -1.0];
    let at = |temperature| distribution(&scores, &[], &Sampling { temperature, ..sampled() });
    near(&at(0.01), &[0.0, 1.0, 0.0, 0.0]);
    assert_eq!(at(0.0), [0.0, 1.0, 0.0, 0.0]);
    let zero = Sampling { temperature: 0.0, ..sampled() };
    assert!(zero.check().is_ok() && zero.is_greedy());
    assert!((0..20).all(|step| zero.choose(&scores, &[], (0, step)) == 1));
    near(&at(2.0), &softmax(&scores.map(|score| score / 2.0)));
    assert!(at(1e6).iter().all(|&p| (p - 0.25).abs() < 1e-4));
}

#[test]
fn what_was_said_becomes_less_likely() {
    let penalty = Sampling { repetition_penalty: 2.0, ..sampled() };
    near(&distribution(&[1.0, -1.0, 0.5], &[0, 1, 1, 9], &penalty), &softmax(&[0.5, -2.0, 0.5]));
    let greedy = GenerationSettings {
        max_tokens: 4,
        sampling: Sampling { repetition_penalty: 100.0, ..Sampling::default() },
        ..GenerationSettings::default()
    };
    let said = &say(&[vec![0]], &greedy)[0];
    let mut distinct = said.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "{said:?}");
}

#[test]
fn tokens_come_as_often_as_their_probability_says() {
    let prompts = vec![vec![2]; 20_000];
    let settings = GenerationSettings { max_tokens: 1, sampling: sampled(), ..GenerationSettings::default() };
    let mut counts = [0.0; WORDS];
    for text in say(&prompts, &settings) {
        counts[text[0] as usize] += 1.0;
    }
    for (count, p) in counts.iter().zip(softmax(&scores(2))) {
        let deviation = (20_000.0 * p * (1.0 - p)).sqrt();
        assert!((count - 20_000.0 * p).abs() < 4.0 * deviation, "{count} of 20,000 at {p}");
    }
}

#[test]
fn the_same_seed_says_the_same() {
    let prompts = [vec![1], vec![2, 3], vec![4]];
    let with = |seed, cached| {
        let sampling = Sampling { seed, ..sampled() };
        say(
            &prompts,
            &GenerationSettings { max_tokens: 20, sampling, cached, ..GenerationSettings::default() },
        )
    };
    assert_eq!(with(1, true), with(1, true));
    assert_eq!(with(1, true), with(1, false));
    assert_ne!(with(1, true), with(2, true));
    let twins = say(
        &[vec![1], vec![1]],
        &GenerationSettings { max_tokens: 20, sampling: sampled(), ..GenerationSettings::default() },
    );
    assert_ne!(twins[0], twins[1], "equal prompts go on differently");
    let best = Sampling { top_k: 1, ..sampled() };
    let greedy = GenerationSettings { max_tokens: 20, ..GenerationSettings::default() };
    assert_eq!(
        say(&prompts, &GenerationSettings { sampling: best, ..greedy.clone() }),
        say(&prompts, &greedy)
    );
}

#[test]
fn a_text_ends_for_one_reason() {
    let long = GenerationSettings { max_tokens: 30, sampling: sampled(), ..GenerationSettings::default() };
    let run = |model: &Chain, settings: &GenerationSettings, watch: &mut dyn FnMut(usize, u32) -> bool| {
        generate(model, &Context::inference(), &[vec![0], vec![3, 1, 2]], settings, watch).unwrap()
    };
    let free = run(&CHAIN, &long, &mut |_, _| true);
    assert!(free.iter().all(|text| text.tokens.len() == 30 && text.end == GenerationEnd::Length));
    for cached in [true, false] {
        // A stop token is said, and nothing after it; the other text goes on as if nothing had happened.
        let stops = GenerationSettings { stop_tokens: vec![4], cached, ..long.clone() };
        for (text, free) in run(&CHAIN, &stops, &mut |_, _| true).iter().zip(&free) {
            let end = free.tokens.iter().position(|&token| token == 4).unwrap();
            assert_eq!((&text.tokens[..], text.end), (&free.tokens[..=end], GenerationEnd::Token));
        }
        // Whoever watches sees every token, in order, and may have enough.
        let mut seen = [Vec::new(), Vec::new()];
        let settings = GenerationSettings { cached, ..long.clone() };
        let texts = run(&CHAIN, &settings, &mut |row, token| {
            seen[row].push(token);
            row == 0 || seen[1].len() < 3
        });
        assert_eq!(texts[0].tokens, seen[0]);
        assert_eq!(
            (&texts[1].tokens, texts[1].end),
            (&free[1].tokens[..3].to_vec(), GenerationEnd::Callback)
        );
        assert_eq!((&texts[0].tokens, texts[0].end), (&free[0].tokens, GenerationEnd::Length));
        // The last token is not read any more, so there is one more than fits.
        let small = Chain { limit: Some(5) };
        let texts = run(&small, &settings, &mut |_, _| true);
        assert_eq!((texts[0].tokens.len(), texts[0].end), (5, GenerationEnd::Context));
        assert_eq!((texts[1].tokens.len(), texts[1].end), (3, GenerationEnd::Context));
    }
    let none = GenerationSettings { max_tokens: 0, ..long };
    assert!(run(&CHAIN, &none, &mut |_, _| true).iter().all(|text| text.tokens.is_empty()));
}

#[test]
fn a_model_says_as_much_as_it_can_read() {
    let gpt = Transformer::new(zoo::gpt_config().form(), 1).unwrap();
    let gpt = Continue::new(&gpt).unwrap();
    for cached in [true, false] {
        let settings = GenerationSettings { cached, ..GenerationSettings::default() };
        let said =
            generate(&gpt, &Context::inference(), &[vec![1, 2], vec![3; 9]], &settings, &mut |_, _| true)
                .unwrap();
        assert_eq!((said[0].tokens.len(), said[0].end), (8, GenerationEnd::Context));
        assert_eq!((said[1].tokens.len(), said[1].end), (1, GenerationEnd::Context));
    }
}

/// The slow way: read the whole window for every token.
fn slide_slowly(
    model: &impl NextToken,
    prompt: &[u32],
    slide: Slide,
    limit: usize,
    count: usize,
) -> Vec<u32> {
    let (mut window, mut tokens) = (prompt.to_vec(), Vec::new());
    for _ in 0..count {
        while window.len() > limit {
            window.drain(slide.keep..slide.keep + slide.drop);
        }
        let ids = Ids::new(&window, [1, window.len()]).unwrap();
        let scores = model.next_scores(&Context::inference(), &ids, None).unwrap().to_vec();
        let best = (0..scores.len()).max_by(|&a, &b| scores[a].total_cmp(&scores[b])).unwrap() as u32;
        window.push(best);
        tokens.push(best);
    }
    tokens
}

#[test]
fn a_sliding_window_goes_on_beyond_the_context() {
    for config in [zoo::gpt_config().form(), zoo::llama_config().form()] {
        let model = Transformer::new(config, 1).unwrap();
        let model = Continue::new(&model).unwrap();
        let limit = model.limit().unwrap();
        let prompts = [vec![1, 2], (0..2 * limit as u32).map(|i| i % 7).collect(), vec![3; limit]];
        for slide in [Slide { keep: 0, drop: 1 }, Slide { keep: 2, drop: 3 }, Slide::by_quarter(limit, 1)] {
            for cached in [true, false] {
                let settings = GenerationSettings {
                    max_tokens: 4 * limit,
                    slide: Some(slide),
                    cached,
                    ..GenerationSettings::default()
                };
                let texts =
                    generate(&model, &Context::inference(), &prompts, &settings, &mut |_, _| true).unwrap();
                for (text, prompt) in texts.iter().zip(&prompts) {
                    assert_eq!(
                        text.tokens,
                        slide_slowly(&model, prompt, slide, limit, 4 * limit),
                        "{slide:?}"
                    );
                    assert_eq!((text.end, text.slid), (GenerationEnd::Length, true));
                }
            }
        }
        // What fits the context does not slide.
        let settings = GenerationSettings {
            max_tokens: limit - 1,
            slide: Some(Slide { keep: 0, drop: 1 }),
            ..GenerationSettings::default()
        };
        let texts = generate(&model, &Context::inference(), &prompts[..1], &settings, &mut |_, _| true);
        assert!(!texts.unwrap()[0].slid);
        for slide in [Slide { keep: 0, drop: 0 }, Slide { keep: limit, drop: 1 }] {
            let settings = GenerationSettings { slide: Some(slide), ..GenerationSettings::default() };
            let error = generate(&model, &Context::inference(), &prompts, &settings, &mut |_, _| true);
            assert!(error.unwrap_err().to_string().contains("at least one must leave"), "{slide:?}");
        }
    }
}

#[test]
fn beams_slide_beyond_the_context() {
    let model = Transformer::new(zoo::llama_config().form(), 1).unwrap();
    let model = Continue::new(&model).unwrap();
    let limit = model.limit().unwrap();
    for slide in [Slide { keep: 2, drop: 3 }, Slide::by_quarter(limit, 0)] {
        for prompt in [vec![1, 2], (0..2 * limit as u32).map(|i| i % 7).collect()] {
            let one = BeamSettings {
                beams: 1,
                max_tokens: 3 * limit,
                slide: Some(slide),
                ..BeamSettings::default()
            };
            let found =
                beam_search(&model, &Context::inference(), std::slice::from_ref(&prompt), &one).unwrap();
            // One beam is the greedy choice.
            assert_eq!(found[0][0].tokens, slide_slowly(&model, &prompt, slide, limit, 3 * limit));
            // Three are no worse than one.
            let three = BeamSettings { beams: 3, ..one };
            let starts = vec![prompt.clone(); 3];
            let found_by_three = beam_search(&model, &Context::inference(), &starts, &three).unwrap();
            assert_eq!(found_by_three[0][0].tokens.len(), 3 * limit);
            assert!(found_by_three[0][0].score >= found[0][0].score - 1e-5);
        }
    }
    let still = BeamSettings { beams: 1, slide: Some(Slide { keep: 0, drop: 0 }), ..BeamSettings::default() };
    assert!(beam_search(&model, &Context::inference(), &[vec![1]], &still).is_err());
}

#[test]
fn prompts_and_settings_that_make_no_sense_are_refused() {
    let gpt = Transformer::new(zoo::gpt_config().form(), 1).unwrap();
    let gpt = Continue::new(&gpt).unwrap();
    let refused = |prompts: &[Vec<u32>], sampling: Sampling| {
        let settings = GenerationSettings { sampling, ..GenerationSettings::default() };
        generate(&gpt, &Context::inference(), prompts, &settings, &mut |_, _| true).unwrap_err().to_string()
    };
    let greedy = Sampling::default();
    assert_eq!(refused(&[], greedy.clone()), "generation: at least one prompt is needed");
    let empty = "generation: every prompt needs at least one token, prompt 1 has none";
    assert_eq!(refused(&[vec![1], vec![]], greedy.clone()), empty);
    assert_eq!(
        refused(&[vec![1; 10]], greedy.clone()),
        "generation: a prompt of 10 tokens does not fit its context of 9"
    );
    assert_eq!(refused(&[vec![99]], greedy.clone()), "embedding: id 99 is out of range, there are 13");
    let wrong = [
        (
            Sampling { temperature: -1.0, ..greedy.clone() },
            "the temperature must be 0 (greedy decoding) or above, got -1",
        ),
        (
            Sampling { temperature: f32::NAN, ..greedy.clone() },
            "the temperature must be 0 (greedy decoding) or above, got NaN",
        ),
        (Sampling { top_p: 0.0, ..greedy.clone() }, "top-p must be above 0 and at most 1, got 0"),
        (Sampling { top_p: 1.5, ..greedy.clone() }, "top-p must be above 0 and at most 1, got 1.5"),
        (Sampling { repetition_penalty: -1.0, ..greedy }, "the repetition penalty must be above 0, got -1"),
    ];
    for (sampling, text) in wrong {
        let error = refused(&[vec![1]], sampling);
        assert!(error.starts_with(&format!("sampling: {text}")), "{error}");
    }
    let t5 = Transformer::new(zoo::t5_config().form(), 1).unwrap();
    let source = Ids::new(&[1, 2], [1, 2]).unwrap();
    let none = Answer::new(&t5, &Context::inference(), &source, None, 0).err().unwrap().to_string();
    assert_eq!(none, "generation: the number of copies must be at least 1");
}

/// A model that answers in the wrong shape.
struct Confused(Vec<usize>);

impl NextToken for Confused {
    fn next_scores(&self, _: &Context, _: &Ids, _: Option<&Mask>) -> Result<Tensor> {
        Ok(Tensor::zeros(self.0.clone()))
    }

    fn limit(&self) -> Option<usize> {
        None
    }
}

#[test]
fn scores_of_another_shape_are_refused() {
    for shape in [vec![], vec![5], vec![2, 5], vec![3, 1, 5], vec![2, 0, 5], vec![2, 3, 5], vec![2, 1, 0]] {
        let (model, context) = (Confused(shape), Context::inference());
        let prompts = [vec![1], vec![1]];
        let error = generate(&model, &context, &prompts, &GenerationSettings::default(), &mut |_, _| true)
            .unwrap_err();
        assert!(
            error.to_string().starts_with("generation: scores must be (2, 1, vocabulary), got ["),
            "{error}"
        );
        let settings = BeamSettings { beams: 2, ..BeamSettings::default() };
        assert!(beam_search(&model, &context, &prompts, &settings).is_err());
    }
}

/// All texts of a length with their log probabilities, the best first.
fn every_text(start: u32, length: usize) -> Vec<(f32, Vec<u32>)> {
    let mut all = vec![(0.0, vec![])];
    for _ in 0..length {
        let grow = |(log, text): (f32, Vec<u32>)| {
            let last = text.last().copied().unwrap_or(start);
            let next = softmax(&scores(last));
            (0..WORDS)
                .map(move |token| (log + next[token].ln(), [&text[..], &[token as u32]].concat()))
                .collect::<Vec<_>>()
        };
        all = all.into_iter().flat_map(grow).collect();
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

#[test]
fn beams_wide_enough_find_the_best_texts() {
    let settings = BeamSettings { beams: 30, max_tokens: 3, ..BeamSettings::default() };
    let starts = [vec![vec![0]; 30], vec![vec![3]; 30]].concat();
    let found = beam_search(&CHAIN, &Context::inference(), &starts, &settings).unwrap();
    for (found, start) in found.iter().zip([0, 3]) {
        assert_eq!(found.len(), 30);
        for (found, (log, text)) in found.iter().zip(every_text(start, 3)) {
            assert_eq!(found.tokens, text);
            assert!((found.score - log / 3.0).abs() < 1e-5);
        }
    }
    // One beam is the greedy choice.
    let one = BeamSettings { beams: 1, max_tokens: 6, ..BeamSettings::default() };
    let found = beam_search(&CHAIN, &Context::inference(), &[vec![2]], &one).unwrap();
    assert_eq!(
        found[0][0].tokens,
        say(&[vec![2]], &GenerationSettings { max_tokens: 6, ..GenerationSettings::default() })[0]
    );
}

#[test]
fn beams_hold_real_texts_only_and_end_where_the_model_does() {
    // Of five tokens, the first step has five beginnings for eight beams.
    let settings = BeamSettings { beams: 8, max_tokens: 1, stop_tokens: vec![4], ..BeamSettings::default() };
    let found = beam_search(&CHAIN, &Context::inference(), &vec![vec![0]; 8], &settings).unwrap();
    let mut tokens: Vec<u32> = found[0].iter().map(|text| text.tokens[0]).collect();
    tokens.sort_unstable();
    assert_eq!(tokens, [0, 1, 2, 3, 4], "each beginning once");
    assert!(found[0].iter().all(|text| text.score.is_finite()));
    let small = Chain { limit: Some(4) };
    let settings = BeamSettings { beams: 2, ..BeamSettings::default() };
    let found = beam_search(&small, &Context::inference(), &[vec![0, 1], vec![0, 1]], &settings).unwrap();
    assert!(found[0].iter().all(|text| text.tokens.len() == 3), "{found:?}");
    let refused = |beams, starts: &[Vec<u32>]| {
        let settings = BeamSettings { beams, ..BeamSettings::default() };
        beam_search(&CHAIN, &Context::inference(), starts, &settings).unwrap_err().to_string()
    };
    let rows = "beam search: 3 rows cannot hold 2 beams for each text";
    assert_eq!(refused(2, &[vec![1], vec![1], vec![1]]), rows);
    assert_eq!(refused(0, &[vec![1]]), "beam search: 1 rows cannot hold 0 beams for each text");
    let unequal = "beam search: all starts need the same number of tokens, at least one";
    assert_eq!(
        (refused(1, &[vec![]]), refused(1, &[vec![1], vec![1, 2]])),
        (unequal.to_owned(), unequal.to_owned())
    );
}
