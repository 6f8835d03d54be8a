use super::planted;
use regard_nn::Module;
use regard_nn::analysis::norms::{normalise_rows, weigh, weights_and_vectors};
use regard_nn::analysis::{
    HeadSettings, Measure, Row, Table, Tokens, Weighing, label_heads, measure_heads, prefix_matching,
    repeated_random,
};
use regard_nn::attention::AttentionKind;
use regard_nn::models::form::Window;
use regard_nn::models::{
    Bag, BagConfig, BertConfig, GptConfig, LlamaConfig, Model, Pooling, Sentiment, SentimentConfig, T5Config,
    Tagger, TaggerConfig, Transformer,
};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::set_threads;

fn measure(model: &dyn Model, texts: &[Tokens], batch: usize) -> Table {
    let settings = HeadSettings { batch, ..HeadSettings::default() };
    measure_heads(model, texts.iter().cloned().map(Ok), settings).unwrap()
}

/// Small models of every kind with heads that reads texts.
fn models() -> Vec<Box<dyn Model>> {
    let bert = BertConfig {
        vocabulary: 13,
        context: 16,
        n_layers: 2,
        n_heads: 2,
        d_model: 8,
        d_hidden: 16,
        ..Default::default()
    };
    let llama = LlamaConfig {
        vocabulary: 13,
        context: 16,
        n_layers: 2,
        n_heads: 4,
        n_kv_heads: 2,
        d_model: 16,
        d_hidden: 24,
        ..Default::default()
    };
    let tagger = TaggerConfig { vocabulary: 13, d_model: 8, n_heads: 2, context: 16, ..Default::default() };
    let sentiment = SentimentConfig {
        vocabulary: 13,
        d_embedding: 6,
        d_hidden: 4,
        pooling: Pooling::Heads,
        n_heads: 2,
        ..Default::default()
    };
    let t5 =
        T5Config { vocabulary: 13, d_model: 8, n_heads: 2, d_head: 4, d_hidden: 16, ..Default::default() };
    let mut bare = bert.form();
    bare.output.tokens = None;
    vec![
        Box::new(planted::random_gpt(1)),
        Box::new(planted::amplified(Transformer::new(bare, 1).unwrap(), 30.0)),
        Box::new(planted::amplified(Transformer::new(llama.form(), 1).unwrap(), 10.0)),
        Box::new(Tagger::new(tagger, 1).unwrap()),
        Box::new(planted::amplified(Sentiment::new(sentiment, 1).unwrap(), 40.0)),
        Box::new(Transformer::new(t5.form(), 1).unwrap()),
    ]
}

#[test]
fn results_do_not_depend_on_batches_or_threads() {
    let texts = planted::texts(13, 23);
    for model in models() {
        let table = measure(&*model, &texts, 1);
        assert!(
            table.of(Measure::Confidence).any(|row| row.mean > 0.3),
            "{}: all heads are uniform",
            model.kind()
        );
        for batch in [4, 7, 100] {
            let other = measure(&*model, &texts, batch);
            assert_eq!(table.rows.len(), other.rows.len());
            for (a, b) in table.rows.iter().zip(&other.rows) {
                assert_eq!((a.layer, a.head, a.measure, a.count), (b.layer, b.head, b.measure, b.count));
                for (a, b) in [(a.mean, b.mean), (a.low, b.low), (a.high, b.high)] {
                    // Intervals over a single text are infinite.
                    assert!(
                        a == b || (a - b).abs() < 1e-5,
                        "{}: {a} {b} in batches of {batch}",
                        model.kind()
                    );
                }
            }
        }
        for threads in [1, 2, 5] {
            set_threads(threads);
            assert_eq!(table, measure(&*model, &texts, 1), "{} with {threads} threads", model.kind());
        }
    }
}

/// Uniform heads have a relative entropy of 1, whatever their layer's mask.
#[test]
fn each_layer_is_measured_by_its_own_mask() {
    let config =
        GptConfig { vocabulary: 13, context: 16, n_layers: 4, n_heads: 2, d_model: 8, ..Default::default() };
    let mut form = config.form();
    let stack = form.decoder.as_mut().unwrap();
    stack.layers.push(stack.layers[0].clone());
    stack.layers[0].attention.window = Some(Window { before: 2, after: 0 });
    stack.order = vec![0, 1];
    let mut model = Transformer::new(form, 1).unwrap();
    for (name, parameter) in model.parameters_mut() {
        if name.contains("attention.project") {
            let zeros = vec![0.0; parameter.tensor().count()];
            parameter.tensor_mut().set_values(&zeros).unwrap();
        }
    }
    let texts: Vec<Tokens> = (9..13).map(|length| Tokens::new((0..length).collect())).collect();
    for batch in [1, 4] {
        let table = measure(&model, &texts, batch);
        assert_eq!(table.of(Measure::RelativeEntropy).count(), 8);
        for row in table.of(Measure::RelativeEntropy) {
            assert!((row.mean - 1.0).abs() < 1e-6, "{row:?}");
        }
        // At most three keys in one layer, all earlier ones in the next.
        let most = |layer: usize| table.find(layer, 0, Measure::Entropy).unwrap().mean;
        assert!(most(0) < 3.0_f64.ln() && most(1) > most(0) && most(2) == most(0) && most(3) == most(1));
        let far = |layer: usize| table.find(layer, 0, Measure::Far).map(|row| row.mean);
        assert!(far(0).is_none_or(|share| share == 0.0) && far(1).is_some_and(|share| share > 0.0));
    }
}

/// A sink logit of 0 beside n keys of score 0 takes 1 / (n + 1), whatever the window; attention without one has no such row.
#[test]
fn a_sink_takes_its_share_of_the_visible_keys() {
    let config =
        GptConfig { vocabulary: 13, context: 16, n_layers: 2, n_heads: 2, d_model: 8, ..Default::default() };
    let mut form = config.form();
    let stack = form.decoder.as_mut().unwrap();
    stack.layers.push(stack.layers[0].clone());
    stack.layers[0].attention.window = Some(Window { before: 2, after: 0 });
    stack.layers[0].attention.kind = AttentionKind::ZeroSink;
    stack.order = vec![0, 1];
    let mut model = Transformer::new(form, 1).unwrap();
    for (name, parameter) in model.parameters_mut() {
        if name.contains("attention.project") {
            let zeros = vec![0.0; parameter.tensor().count()];
            parameter.tensor_mut().set_values(&zeros).unwrap();
        }
    }
    let table = measure(&model, &[Tokens::new((0..9).collect())], 1);
    // Query 0 has one key and is left out; query 1 has two, the other seven have three.
    let expected = (1.0 / 3.0 + 7.0 / 4.0) / 8.0;
    let found: Vec<(usize, f64)> = table.of(Measure::SinkLogit).map(|row| (row.layer, row.mean)).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found.iter().all(|(layer, mean)| *layer == 0 && (mean - expected).abs() < 1e-6), "{found:?}");
}

/// With value norms, a head's rows match the definition, and padding has no effect.
#[test]
fn value_norms_can_replace_weights() {
    let model = planted::random_gpt(3);
    let texts = planted::texts(13, 9);
    let by = |batch| HeadSettings { batch, weighing: Weighing::Norms, ..HeadSettings::default() };
    let table = measure_heads(&model, texts.iter().cloned().map(Ok), by(1)).unwrap();
    let padded = measure_heads(&model, texts.iter().cloned().map(Ok), by(9)).unwrap();
    let mut expected = 0.0;
    for text in &texts {
        let (weights, vectors) = weights_and_vectors(&model, text).unwrap().remove(1);
        let rows = normalise_rows(&weigh(&weights, &vectors).unwrap()).unwrap();
        let rows = rows.select(0, 0).unwrap().select(0, 0).unwrap().to_vec();
        let length = text.len();
        expected += (1..length).map(|query| f64::from(rows[query * length + query - 1])).sum::<f64>()
            / (length - 1) as f64
            / texts.len() as f64;
    }
    for found in [&table, &padded] {
        let got = found.find(1, 0, Measure::Previous).unwrap().mean;
        assert!((got - expected).abs() < 1e-5, "{got} {expected}");
    }
    let plain = measure(&model, &texts, 1).find(1, 0, Measure::Previous).unwrap().mean;
    assert!((plain - expected).abs() > 1e-3, "norms change the result: {plain} {expected}");
}

#[test]
fn sinks_are_counted() {
    let row = |head, mean| Row {
        layer: 0,
        head,
        measure: Measure::First,
        mean,
        low: mean,
        high: mean,
        error: 0.0,
        count: 1,
    };
    let table = Table { rows: vec![row(0, 0.31), row(1, 0.3), row(2, 0.9), row(3, 0.0)] };
    assert_eq!(table.sink_share(), 0.5);
    assert_eq!(Table::default().sink_share(), 0.0);
}

#[test]
fn rows_are_in_order_and_intervals_contain_their_means() {
    let table = measure(&planted::random_gpt(2), &planted::texts(13, 23), 8);
    assert!(table.rows.is_sorted_by_key(|row| (row.layer, row.head, row.measure)));
    for row in &table.rows {
        assert!(row.low <= row.mean && row.mean <= row.high, "{row:?}");
        assert!(row.count <= 23);
    }
    assert_eq!(table.find(1, 1, Measure::Confidence).unwrap().count, 23);
    assert!(table.find(0, 0, Measure::Next).is_none(), "a causal model sees no next token");
}

#[test]
fn unmeasurable_models_and_texts_are_rejected() {
    let bag = Bag::new(BagConfig { vocabulary: 13, ..Default::default() }, 0).unwrap();
    let texts = planted::texts(13, 2);
    let all = |model: &dyn Model, texts: Vec<Tokens>| {
        measure_heads(model, texts.into_iter().map(Ok), HeadSettings::default())
    };
    assert!(all(&bag, texts.clone()).unwrap_err().to_string().contains("no attention"));
    let heads = BagConfig { vocabulary: 13, n_heads: 2, ..Default::default() };
    assert!(all(&Bag::new(heads, 0).unwrap(), texts).is_ok(), "a bag may have attention");
    assert!(all(&planted::random_gpt(0), vec![]).is_err());
    assert!(all(&planted::random_gpt(0), vec![Tokens::default()]).is_err());
    assert!(all(&planted::random_gpt(0), vec![Tokens::new(vec![99])]).is_err(), "beyond the vocabulary");
    assert!(all(&planted::random_gpt(0), vec![Tokens::new(vec![1; 40])]).is_err(), "beyond the context");
    let stopped = [Ok(Tokens::new(vec![1, 2])), Err(regard_nn::Error::Cancelled)];
    let result = measure_heads(&planted::random_gpt(0), stopped.into_iter(), HeadSettings::default());
    assert_eq!(result.unwrap_err(), regard_nn::Error::Cancelled);
}

#[test]
fn fresh_models_have_the_same_form_and_new_weights() {
    for model in models() {
        let (one, same, other) = (model.fresh(5).unwrap(), model.fresh(5).unwrap(), model.fresh(6).unwrap());
        let weights = |model: &dyn Model| -> Vec<(String, Vec<f32>)> {
            let all = model.parameters().into_iter();
            all.map(|(name, parameter)| (name, parameter.tensor().to_vec())).collect()
        };
        assert_eq!(weights(&*one), weights(&*same));
        assert_ne!(weights(&*one), weights(&*other));
        let names = |model: &dyn Model| {
            weights(model).into_iter().map(|(name, values)| (name, values.len())).collect::<Vec<_>>()
        };
        assert_eq!(names(&*one), names(&*model));
    }
}

#[test]
fn planted_heads_get_their_labels_and_untrained_ones_none() {
    let model = planted::model();
    let tables = |model: &dyn Model| {
        let texts: Vec<Tokens> = repeated_random(0..16, 7, 12, Key::new(3)).collect();
        let mut table = measure(model, &texts, 5);
        table.extend(prefix_matching(model, texts.into_iter(), HeadSettings::default()).unwrap());
        table
    };
    let untrained = tables(&*model.fresh(1).unwrap());
    let labels = label_heads(&tables(&model), &untrained, 0.05);
    let found: Vec<(usize, usize, &str)> =
        labels.iter().map(|label| (label.layer, label.head, label.rule.label)).collect();
    for expected in
        [(0, 0, "previous token"), (0, 1, "duplicate token"), (0, 3, "itself"), (1, 0, "induction")]
    {
        assert!(found.contains(&expected), "{expected:?} is not among {found:?}");
    }
    // These heads also share the label "single token"; no other label is given.
    let others = found.iter().filter(|(_, _, label)| *label == "single token").count();
    assert_eq!(found.len(), 4 + others, "{found:?}");
    assert!(label_heads(&tables(&*model.fresh(2).unwrap()), &untrained, 0.05).is_empty());
}

#[test]
fn repeated_random_tokens_repeat_without_duplicates() {
    let texts: Vec<Tokens> = repeated_random(3..40, 10, 5, Key::new(1)).collect();
    for text in &texts {
        assert_eq!(text.ids[..10], text.ids[10..]);
        let mut half = text.ids[..10].to_vec();
        half.sort_unstable();
        half.dedup();
        assert_eq!(half.len(), 10);
        assert!(half.iter().all(|id| (3..40).contains(id)));
    }
    assert_ne!(texts[0], texts[1]);
    assert_eq!(texts, repeated_random(3..40, 10, 5, Key::new(1)).collect::<Vec<_>>());
}
