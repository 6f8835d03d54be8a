//! Encoder, decoder and cross-attention of a T5, and the patches of an image.

use super::planted;
use regard_nn::analysis::ablation::{AblationBatch, Kinds, ablate, pruning_curve};
use regard_nn::analysis::distance::head_divergences;
use regard_nn::analysis::heads::record_weights;
use regard_nn::analysis::influence::{Method, influence, mean_attention, rollout};
use regard_nn::analysis::occlusion::{Blank, PatchSizes, Quantity, occlusion};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::analysis::{
    HeadSettings, Measure, Part, Shown, Subject, Target, Tokens, all_heads, attentions, measure_heads,
};
use regard_nn::data::batches::IGNORED;
use regard_nn::models::{AttentionSite, Inputs, Model, T5Config, Transformer, VitConfig};
use regard_nn::tensor::{Ids, Tensor};
use regard_nn::{Context, Probe};

fn t5() -> Transformer {
    let sizes =
        T5Config { vocabulary: 13, d_model: 8, n_heads: 2, d_head: 4, d_hidden: 16, ..Default::default() };
    let layers = T5Config { n_layers: 2, n_decoder_layers: 3, ..sizes };
    planted::amplified(Transformer::new(layers.form(), 1).unwrap(), 2.0)
}

/// Targets of different lengths with sources of different lengths.
fn answers() -> Vec<Tokens> {
    let mut source = Tokens::new(vec![3, 4, 5, 6, 7]);
    source.delimiter[4] = true;
    vec![
        Tokens::new(vec![0, 1, 2]).with_source(source),
        Tokens::new(vec![0, 9, 8, 7, 6, 5]).with_source(Tokens::new(vec![2, 2, 3])),
    ]
}

#[test]
fn every_attention_layer_belongs_to_one_part() {
    let model = t5();
    let of = |part| attentions(Subject { model: &model, part }).unwrap();
    assert_eq!(model.parts().into_iter().map(|part| of(part).len()).collect::<Vec<_>>(), [2, 3, 3]);
    assert_eq!(of(Part::Cross)[2].name, "decoder.layers.2.cross");
    assert_eq!(all_heads(Subject { model: &model, part: Part::Decoder }).unwrap().len(), 6);
    let gpt = planted::model();
    assert!(attentions(Subject { model: &gpt, part: Part::Cross }).is_err());
}

/// The weights recorded in a padded batch equal those of each pair alone.
#[test]
fn padding_on_either_side_has_no_effect() {
    let model = t5();
    for part in [Part::Decoder, Part::Cross] {
        let subject = Subject { model: &model, part };
        let both = record_weights(subject, &answers()).unwrap();
        for (number, answer) in answers().iter().enumerate() {
            let source = answer.source.as_deref().unwrap();
            let sites = attentions(subject).unwrap();
            let record = |probe: Probe, site: &AttentionSite| probe.record(format!("{}.weights", site.name));
            let probe = sites.iter().fold(Probe::new(), record);
            let context = Context::inference().with_probe(&probe);
            let ids = |tokens: &Tokens| Ids::new(&tokens.ids, [1, tokens.len()]).unwrap();
            model.forward(&context, &Inputs::ids(&ids(source)).answered(&ids(answer), None)).unwrap();
            for (site, watched) in sites.iter().map(|site| &site.name).zip(&both) {
                let alone = probe.weights(site).unwrap().all();
                let [_, heads, queries, keys] = alone.shape()[..] else { panic!("{}", alone.shape()) };
                let [_, _, rows, columns] = watched.sizes();
                let watched = watched.all();
                for at in 0..heads * queries * keys {
                    let (head, query, key) = (at / (queries * keys), at / keys % queries, at % keys);
                    let there = watched.values()[((number * heads + head) * rows + query) * columns + key];
                    assert!((alone.values()[at] - there).abs() < 1e-5, "{site} {head} {query} {key}");
                }
            }
        }
    }
}

#[test]
fn cross_attention_has_only_meaningful_measures() {
    let model = t5();
    let by = |part, batch| {
        let settings = HeadSettings { batch, ..HeadSettings::default() };
        measure_heads(Subject { model: &model, part }, answers().into_iter().map(Ok), settings).unwrap()
    };
    let cross = by(Part::Cross, 2);
    for measure in [Measure::Entropy, Measure::Confidence, Measure::First] {
        assert_eq!(cross.of(measure).count(), 6, "{}", measure.name());
    }
    // One of the two sources has a delimiter.
    assert!(cross.of(Measure::Delimiters).all(|row| row.count == 1));
    for measure in [Measure::Distance, Measure::Previous, Measure::Itself, Measure::Duplicate] {
        assert_eq!(cross.of(measure).count(), 0, "{}", measure.name());
    }
    let decoder = by(Part::Decoder, 2);
    assert!(decoder.of(Measure::Previous).count() == 6 && decoder.of(Measure::Next).count() == 0);
    for (a, b) in cross.rows.iter().zip(&by(Part::Cross, 1).rows) {
        assert!((a.mean - b.mean).abs() < 1e-5, "{a:?} {b:?}");
    }
    let (heads, divergences) =
        head_divergences(Subject { model: &model, part: Part::Cross }, answers().into_iter().map(Ok))
            .unwrap();
    assert!(heads.len() == 6 && divergences.between(0, 5) > 0.0);
    let alone = Tokens::new(vec![0, 1]);
    let subject = Subject { model: &model, part: Part::Cross };
    assert!(measure_heads(subject, [Ok(alone)].into_iter(), HeadSettings::default()).is_err());
}

/// Without cross-attention the output no longer depends on the source.
#[test]
fn without_cross_attention_the_source_has_no_effect() {
    let model = t5();
    let subject = Subject { model: &model, part: Part::Cross };
    let batch = |source: Vec<u32>| {
        let shown = Shown::new(&[Tokens::new(vec![0, 1, 2]).with_source(Tokens::new(source))]).unwrap();
        Ok(AblationBatch { shown, targets: Ids::new(&[1, 2, IGNORED], [1, 3]).unwrap() })
    };
    let kinds = Kinds { count: 0, of: &|_, _, _| 0 };
    let resampling = Resampling::new(0);
    let found = ablate(subject, [batch(vec![3, 4, 5])].into_iter(), &kinds, &resampling).unwrap();
    assert_eq!(found.heads.len(), 6);
    assert!(found.heads.iter().all(|effect| effect.zeroed.all.mean != 0.0 && effect.importance.mean > 0.0));
    let order = found.least_important_first();
    let loss = |source: Vec<u32>, count: usize| {
        let batches = [batch(source)]
            .map(|batch: regard_nn::Result<AblationBatch>| batch.map_err(|error| error.to_string()));
        let batches: Vec<AblationBatch> = batches.into_iter().map(Result::unwrap).collect();
        let again = batches.iter().cloned().map(Ok);
        pruning_curve(subject, &again, &order, &[count], &resampling).unwrap()[0].1.mean
    };
    assert!((loss(vec![3, 4, 5], 0) - loss(vec![9, 8], 0)).abs() > 1e-3);
    assert!((loss(vec![3, 4, 5], 6) - loss(vec![9, 8], 6)).abs() < 1e-6);
    // The encoder's heads act only through cross-attention, and their means are taken over the source.
    let encoder = Subject { model: &model, part: Part::Reader };
    let found = ablate(encoder, [batch(vec![3, 4, 5, 6])].into_iter(), &kinds, &resampling).unwrap();
    assert!(found.heads.len() == 4 && found.heads.iter().all(|effect| effect.averaged.all.mean != 0.0));
}

#[test]
fn images_are_measured_patch_by_patch() {
    let layers = VitConfig { n_layers: 1, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let sizes = VitConfig { image: [8, 12], patch: 4, channels: 1, classes: 3, deviation: 0.3, ..layers };
    let model = Transformer::new(sizes.form(), 3).unwrap();
    let picture = |shift: f32| {
        let pixels: Vec<f32> = (0..96).map(|i| (i as f32 * 0.7 + shift).sin()).collect();
        Tokens::from_image(pixels.into(), 1, 6)
    };
    let pictures = [picture(0.0), picture(1.0)];
    let table = measure_heads(&model, pictures.iter().cloned().map(Ok), HeadSettings::default()).unwrap();
    assert_eq!(table.find(0, 1, Measure::First).unwrap().count, 2);
    assert!(table.of(Measure::Duplicate).next().is_none(), "no patch is the same as another");
    let shown = Shown::new(&pictures).unwrap();
    let scores = shown.scores(&model, &Context::inference()).unwrap();
    assert_eq!(scores.shape()[..], [2, 1, 3]);
    let batch = AblationBatch { shown, targets: Ids::new(&[0, 2], [2, 1]).unwrap() };
    let kinds = Kinds { count: 3, of: &|batch, text, _| batch.targets.values()[text] as usize };
    let found = ablate(&model, [Ok(batch)].into_iter(), &kinds, &Resampling::new(0)).unwrap();
    assert!(found.loss.by_kind[1].is_none() && found.loss.by_kind[2].is_some());
    // An image and a text cannot share a batch.
    assert!(Shown::new(&[picture(0.0), Tokens::new(vec![1])]).is_err());
}

/// The weights of each layer and their rollout.
#[test]
fn source_and_target_form_one_sequence_of_layers() {
    let model = t5();
    let tokens = Tokens::new(vec![0, 1, 2]).with_source(Tokens::new(vec![3, 4, 5, 6, 7]));
    let layers = mean_attention(&model, &tokens).unwrap();
    assert_eq!(layers.len(), 2 + 2 * 3);
    for layer in &layers {
        assert_eq!(layer.shape()[..], [8, 8]);
    }
    // In the encoder the target attends to nothing; in the decoder the source does.
    let sum = |layer: &Tensor, row: usize| layer.values()[row * 8..(row + 1) * 8].iter().sum::<f32>();
    assert!((sum(&layers[0], 4) - 1.0).abs() < 1e-5 && sum(&layers[0], 5) == 0.0);
    assert!(sum(&layers[2], 4) == 0.0 && (sum(&layers[3], 6) - 1.0).abs() < 1e-5);
    // Cross-attention attends only to the source, the decoder's self-attention only to the target.
    assert!(layers[3].values()[6 * 8 + 5..7 * 8].iter().all(|&weight| weight == 0.0));
    assert!(layers[2].values()[6 * 8..6 * 8 + 5].iter().all(|&weight| weight == 0.0));
    // The influence on a target through all layers sums to 1.
    let rolled = rollout(&layers).unwrap();
    let last = rolled.last().unwrap();
    for row in 0..8 {
        assert!((sum(last, row) - 1.0).abs() < 1e-4);
    }
    let target = Target::at(1, 4);
    for method in Method::ALL {
        let values = influence(&model, &tokens, target, method, 64).unwrap();
        assert_eq!(values.len(), 8, "{}", method.name());
        assert!(values[..5].iter().any(|&value| value > 0.0), "{}", method.name());
        assert_eq!(values[7], 0.0, "later tokens have no influence: {}", method.name());
    }
    let changes = occlusion(&model, &tokens, target, (Blank::Delete, Quantity::Logit)).unwrap();
    assert!(changes[..5].iter().all(Option::is_some) && changes[5..].iter().all(Option::is_none));
    let shorter = Tokens::new(vec![0, 1, 2]).with_source(Tokens::new(vec![3, 4, 6, 7]));
    let logit = |tokens: &Tokens| {
        let scores = Shown::new(std::slice::from_ref(tokens)).unwrap().scores(&model, &Context::inference());
        f64::from(target.logit(&scores.unwrap()).unwrap().values()[0])
    };
    assert!((changes[2].unwrap() - (logit(&tokens) - logit(&shorter))).abs() < 1e-5);
}

#[test]
fn patches_are_occluded_one_by_one() {
    let layers = VitConfig { n_layers: 2, n_heads: 2, d_model: 16, d_hidden: 20, ..VitConfig::default() };
    let sizes = VitConfig { image: [8, 12], patch: 4, channels: 2, classes: 3, deviation: 0.3, ..layers };
    let model = Transformer::new(sizes.form(), 3).unwrap();
    let pixels: Vec<f32> = (0..192).map(|i| (i as f32 * 0.7).sin()).collect();
    let picture = Tokens::from_image(pixels.clone().into(), 1, 6);
    let target = Target { position: Some(0), class: 1, against: None };
    let patches = PatchSizes { channels: 2, height: 8, width: 12, side: 4, first: 1 };
    let changes = occlusion(&model, &picture, target, (Blank::Patch(patches), Quantity::Logit)).unwrap();
    assert!(changes[0].is_none() && changes[1..].iter().all(Option::is_some));
    // The patch in the second row and third column, in both channels.
    let mut blank = pixels;
    for channel in 0..2 {
        for row in 4..8 {
            blank[channel * 96 + row * 12 + 8..channel * 96 + row * 12 + 12].fill(0.0);
        }
    }
    let logit = |picture: &Tokens| {
        let scores = Shown::new(std::slice::from_ref(picture)).unwrap().scores(&model, &Context::inference());
        f64::from(target.logit(&scores.unwrap()).unwrap().values()[0])
    };
    let expected = logit(&picture) - logit(&Tokens::from_image(blank.into(), 1, 6));
    assert!((changes[6].unwrap() - expected).abs() < 1e-5);
    for method in Method::ALL {
        assert_eq!(influence(&model, &picture, target, method, 64).unwrap().len(), 7, "{}", method.name());
    }
}
