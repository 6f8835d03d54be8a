use super::planted;
use regard_nn::analysis::ablation::{AblationBatch, Kinds, ablate, importance, mean_outputs, pruning_curve};
use regard_nn::analysis::contribution::{contributions, logit_lens};
use regard_nn::analysis::patching::Patching;
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{Head, Shown, Target, Tokens, pad, repeated_random, scores};
use regard_nn::block::Placement;
use regard_nn::data::batches::IGNORED;
use regard_nn::models::{BertConfig, GptConfig, LlamaConfig, Model, Transformer};
use regard_nn::tensor::Ids;
use regard_nn::tensor::ops::CrossEntropy;
use regard_nn::tensor::random::Key;
use regard_nn::{Context, Probe, Result};

/// Next-token targets of repeated random texts: only those of the second half are predictable.
fn batches() -> impl Iterator<Item = Result<AblationBatch>> + Clone {
    let texts: Vec<Tokens> = repeated_random(0..16, 7, 6, Key::new(2)).collect();
    texts.chunks(4).map(AblationBatch::next_tokens).collect::<Vec<_>>().into_iter()
}

/// 0 for the first half, 1 for the second.
fn half(_: &AblationBatch, _: usize, position: usize) -> usize {
    usize::from(position >= 7)
}

/// Ablating a head of the induction circuit increases the loss in the second half only; other heads have no effect.
#[test]
fn ablation_affects_only_the_predictions_of_the_circuit() {
    let model = planted::model();
    let found = ablate(&model, batches(), &Kinds { count: 2, of: &half }, &Resampling::new(0)).unwrap();
    assert!(
        found.loss.by_kind[1].unwrap().mean < found.loss.by_kind[0].unwrap().mean - 1.0,
        "{:?}",
        found.loss
    );
    for effect in &found.heads {
        let second = effect.zeroed.by_kind[1].unwrap().mean;
        if effect.head == (Head { layer: 0, head: 0 }) || effect.head == (Head { layer: 1, head: 0 }) {
            assert!(second > 0.5, "{effect:?}");
            let known = effect.zeroed.by_kind[1].unwrap();
            assert!(0.0 < known.low && known.low <= known.mean + 1e-9 && known.mean <= known.high + 1e-9);
            assert_eq!(known.count, 6, "texts are resampled, not tokens");
            assert!(effect.averaged.by_kind[1].unwrap().mean > 0.5, "{effect:?}");
        } else {
            assert_eq!((second, effect.averaged.by_kind[1].unwrap().mean), (0.0, 0.0), "{effect:?}");
            assert_eq!((effect.zeroed.all.mean, effect.importance.mean), (0.0, 0.0), "{effect:?}");
        }
    }
    // The logit depends smoothly only on the strength of the induction head.
    let last = *found.least_important_first().last().unwrap();
    assert_eq!(last, Head { layer: 1, head: 0 });
}

/// The same texts with targets in their second half only.
fn second_halves() -> impl Iterator<Item = Result<AblationBatch>> + Clone {
    batches().map(|batch| {
        let mut batch = batch?;
        let targets = batch.targets.values().iter().enumerate();
        let kept: Vec<u32> = targets.map(|(i, &id)| if i % 14 < 7 { IGNORED } else { id }).collect();
        batch.targets = Ids::new(&kept, batch.targets.shape())?;
        Ok(batch)
    })
}

#[test]
fn pruning_starts_with_heads_without_effect() {
    let model = planted::model();
    let kinds = Kinds { count: 0, of: &|_, _, _| 0 };
    let order = ablate(&model, second_halves(), &kinds, &Resampling::new(0)).unwrap().least_important_first();
    let resampling = Resampling::new(0);
    let curve = pruning_curve(&model, &second_halves(), &order, &[0, 6, 8], &resampling).unwrap();
    assert_eq!(curve[0].1, curve[1].1, "six heads have no effect");
    assert!(curve[1].1.mean < 0.1, "{curve:?}");
    assert!(
        (curve[2].1.mean - 16.0_f64.ln()).abs() < 1e-5,
        "without heads the prediction is uniform: {curve:?}"
    );
    let outside = [Head { layer: 9, head: 0 }];
    assert!(pruning_curve(&model, &second_halves(), &outside, &[1], &resampling).is_err());
}

/// Results do not depend on batches and padding, and the kinds add up to the whole.
#[test]
fn ablation_does_not_depend_on_batches() {
    let model = planted::random_gpt(7);
    let texts = planted::texts(13, 7);
    let by = |size: usize| {
        let batches: Vec<Result<AblationBatch>> =
            texts.chunks(size).map(AblationBatch::next_tokens).collect();
        ablate(
            &model,
            batches.into_iter(),
            &Kinds { count: 2, of: &|_, _, position| position % 2 },
            &Resampling::new(0),
        )
        .unwrap()
    };
    let (one, all) = (by(1), by(7));
    assert!((one.loss.all.mean - all.loss.all.mean).abs() < 1e-5);
    for (a, b) in one.heads.iter().zip(&all.heads) {
        for (a, b) in [
            (a.zeroed.all.mean, b.zeroed.all.mean),
            (a.zeroed.all.low, b.zeroed.all.low),
            (a.averaged.all.mean, b.averaged.all.mean),
            (a.importance.mean, b.importance.mean),
            (a.zeroed.by_kind[1].unwrap().high, b.zeroed.by_kind[1].unwrap().high),
        ] {
            assert!((a - b).abs() < 1e-5, "{a} {b}");
        }
    }
    assert!(one.agreement.is_some());
    assert!(mean_outputs(&model, std::iter::empty()).is_err());
}

/// The loss of one text with a head's output scaled.
fn scaled_loss(model: &dyn Model, batch: &AblationBatch, head: Head, factor: f32) -> f64 {
    let probe = Probe::new().change(format!("layers.{}.self.heads", head.layer), move |_, heads| {
        let mut values = heads.to_vec();
        let (count, width) = (heads.shape()[2], heads.shape()[3]);
        for (i, value) in values.iter_mut().enumerate() {
            if i / width % count == head.head {
                *value *= factor;
            }
        }
        Ok(regard_nn::tensor::Tensor::new(&values, heads.shape())?)
    });
    let scores = batch.shown.scores(model, &Context::inference().with_probe(&probe)).unwrap();
    let settings = CrossEntropy { ignored: Some(IGNORED), smoothing: 0.0 };
    f64::from(scores.cross_entropy(&batch.targets, settings).unwrap().item().unwrap())
}

#[test]
fn importance_is_the_derivative_of_the_loss_by_a_head_factor() {
    let model = planted::random_gpt(8);
    let texts = planted::texts(13, 5);
    let together = importance(&model, &AblationBatch::next_tokens(&texts).unwrap()).unwrap();
    for (index, got) in together.into_iter().enumerate() {
        let head = Head { layer: index / 2, head: index % 2 };
        let slope = |text: &Tokens| {
            let batch = AblationBatch::next_tokens(std::slice::from_ref(text)).unwrap();
            let step = 1e-2;
            let difference =
                scaled_loss(&model, &batch, head, 1.0 + step) - scaled_loss(&model, &batch, head, 1.0 - step);
            (difference / f64::from(2.0 * step)).abs()
        };
        let expected: Vec<f64> = texts.iter().map(slope).collect();
        assert!(expected.iter().sum::<f64>() > 0.05, "there is something to compare: {expected:?}");
        for (got, expected) in got.iter().zip(&expected) {
            assert!((got - expected).abs() < 5e-3 * (1.0 + expected), "{head:?}: {got} {expected}");
        }
    }
}

#[test]
fn classifiers_can_be_ablated() {
    let config = regard_nn::models::TaggerConfig {
        vocabulary: 13,
        d_model: 8,
        n_heads: 2,
        context: 16,
        ..Default::default()
    };
    let model = regard_nn::models::Tagger::new(config, 1).unwrap();
    let shown = Shown::new(&[Tokens::new(vec![1, 2, 3]), Tokens::new(vec![4, 5])]).unwrap();
    let targets = Ids::new(&[0, 1, 0, 1, 1, IGNORED], [2, 3]).unwrap();
    let batch = AblationBatch { shown, targets };
    let found =
        ablate(&model, [Ok(batch)].into_iter(), &Kinds { count: 1, of: &|_, _, _| 0 }, &Resampling::new(0))
            .unwrap();
    assert_eq!(found.heads.len(), 2);
    assert!(found.heads.iter().all(|effect| effect.zeroed.all.mean != 0.0 && effect.importance.mean > 0.0));
    assert_eq!(Some(found.loss.all), found.loss.by_kind[0]);
}

fn llama() -> Transformer {
    let config = LlamaConfig {
        vocabulary: 13,
        context: 16,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_model: 16,
        d_hidden: 24,
        ..Default::default()
    };
    planted::amplified(Transformer::new(config.form(), 1).unwrap(), 10.0)
}

fn bert() -> Transformer {
    let config = BertConfig {
        vocabulary: 13,
        context: 16,
        n_layers: 2,
        n_heads: 2,
        d_model: 8,
        d_hidden: 16,
        ..Default::default()
    };
    planted::amplified(Transformer::new(config.form(), 1).unwrap(), 10.0)
}

/// All contributions sum to the logit, and those of the last layer's heads equal the effect of removing them with the
/// norm's scale frozen.
#[test]
fn direct_contributions_sum_to_the_logit() {
    let tokens = Tokens::new(vec![3, 1, 4, 1, 5]);
    for model in [planted::random_gpt(9), llama()] {
        for target in [Target::at(4, 2), Target { position: Some(2), class: 2, against: Some(5) }] {
            let parts = contributions(&model, &tokens, target).unwrap();
            assert!(parts.heads.iter().flatten().any(|part| part.abs() > 0.1), "{parts:?}");
            assert!((parts.sum() - parts.logit).abs() < 1e-4 * (1.0 + parts.logit.abs()), "{parts:?}");
            assert!(parts.heads.iter().flatten().all(|part| *part != 0.0));
        }
        assert!(contributions(&model, &tokens, Target::at(9, 2)).is_err());
        assert!(contributions(&model, &tokens, Target::at(1, 99)).is_err());
    }
    assert!(contributions(&bert(), &tokens, Target::at(1, 1)).is_err(), "post-norm");
    // Parallel sublayers are a plain sum as well; normalised or scaled outputs are not.
    let gpt = |placement: Placement, residual_scale: f32| {
        let config = GptConfig {
            vocabulary: 13,
            context: 16,
            n_layers: 2,
            n_heads: 2,
            d_model: 8,
            ..Default::default()
        };
        let mut form = config.form();
        let layer = &mut form.decoder.as_mut().unwrap().layers[0];
        (layer.placement, layer.residual_scale) = (placement, residual_scale);
        planted::amplified(Transformer::new(form, 3).unwrap(), 20.0)
    };
    for placement in [Placement::Parallel, Placement::ParallelShared] {
        let parts = contributions(&gpt(placement, 1.0), &tokens, Target::at(4, 2)).unwrap();
        assert!((parts.sum() - parts.logit).abs() < 1e-4 * (1.0 + parts.logit.abs()), "{parts:?}");
    }
    for (placement, scale) in [(Placement::Sandwich, 1.0), (Placement::Output, 1.0), (Placement::Pre, 0.5)] {
        assert!(contributions(&gpt(placement, scale), &tokens, Target::at(4, 2)).is_err(), "{placement:?}");
    }
}

#[test]
fn the_induction_head_writes_the_prediction() {
    let parts =
        contributions(&planted::model(), &Tokens::new(vec![4, 5, 6, 7, 4]), Target::at(4, 5)).unwrap();
    let others = parts.heads[0].iter().chain(&parts.heads[1][1..]).map(|part| part.abs()).fold(0.0, f64::max);
    assert!(parts.heads[1][0] > 5.0 && others < 0.1, "{parts:?}");
}

#[test]
fn the_logit_lens_ends_with_the_prediction() {
    let tokens = Tokens::new(vec![4, 5, 6, 7, 4]);
    for model in [planted::model as fn() -> _, llama, bert] {
        let model = model();
        let layers = logit_lens(&model, &tokens, 3).unwrap();
        assert_eq!(layers.len(), 3);
        let (ids, lengths) = pad(std::slice::from_ref(&tokens)).unwrap();
        let scores = scores(&model, &Context::inference(), &ids, &lengths).unwrap();
        let last = scores.select(0, 0).unwrap().select(0, 3).unwrap().to_vec();
        for (got, expected) in layers[2].to_vec().iter().zip(&last) {
            assert!((got - expected).abs() < 1e-4 * (1.0 + expected.abs()), "{got} {expected}");
        }
        assert!(logit_lens(&model, &tokens, 5).is_err());
    }
    // The planted model has no prediction before its last layer.
    let layers = logit_lens(&planted::model(), &tokens, 4).unwrap();
    let best = |scores: &[f32]| (0..16).max_by(|&a, &b| scores[a].total_cmp(&scores[b]));
    assert_eq!(best(&layers[2].to_vec()), Some(5));
    let early = layers[1].to_vec();
    assert!(early.iter().all(|score| (score - early[0]).abs() < 0.2), "{early:?}");
}

/// `a b c d a` and `a e c d a`: the prediction b is restored by the induction head at the last position, or by the residual
/// stream at position 1.
#[test]
fn patching_finds_the_circuit() {
    let model = planted::model();
    let (clean, corrupted) = (Tokens::new(vec![4, 5, 6, 7, 4]), Tokens::new(vec![4, 9, 6, 7, 4]));
    let target = Target { position: Some(4), class: 5, against: Some(9) };
    let found = Patching::new(&model, &clean, &corrupted, target).unwrap();
    assert!(found.clean > 1.0 && found.corrupted < -1.0, "{} {}", found.clean, found.corrupted);
    let check = |value: f64, expected: bool, what: String| {
        let restored = found.restored(value).unwrap();
        assert!((restored - f64::from(u8::from(expected))).abs() < 0.05, "{what}: {restored}");
    };
    let answering = Head { layer: 1, head: 0 };
    for (head, value) in found.heads().unwrap() {
        check(value, head == answering, format!("{head:?}"));
        for (position, value) in found.head_by_position(head).unwrap().into_iter().enumerate() {
            check(value, head == answering && position == 4, format!("{head:?} at {position}"));
        }
    }
    let streams = found.residual_by_position().unwrap();
    assert_eq!(streams.len(), 2);
    for (layer, values) in streams.into_iter().enumerate() {
        for (position, value) in values.into_iter().enumerate() {
            check(value, position == 1, format!("the residual stream before layer {layer} at {position}"));
        }
    }
    assert!(Patching::new(&model, &clean, &Tokens::new(vec![1]), target).is_err());
    assert!(found.head_by_position(Head { layer: 7, head: 0 }).is_err());
    assert!(found.head_by_position(Head { layer: 0, head: 7 }).is_err());
}

#[test]
fn models_without_heads_or_predictions_are_rejected() {
    let config =
        GptConfig { vocabulary: 13, n_layers: 0, n_heads: 2, d_model: 8, context: 8, ..Default::default() };
    let empty = Transformer::new(config.form(), 0).unwrap();
    let batch = AblationBatch::next_tokens(&[Tokens::new(vec![1, 2])]).unwrap();
    assert!(
        ablate(&empty, [Ok(batch)].into_iter(), &Kinds { count: 0, of: &|_, _, _| 0 }, &Resampling::new(0))
            .is_err()
    );
}
