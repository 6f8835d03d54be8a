use super::planted;
use regard_nn::analysis::Tokens;
use regard_nn::analysis::pooling::{pool_weights, pooled_shares};
use regard_nn::analysis::statistics::Resampling;
use regard_nn::models::{Pooling, Sentiment, SentimentConfig};

fn model(pooling: Pooling) -> Sentiment {
    let config = SentimentConfig {
        vocabulary: 13,
        d_embedding: 6,
        d_hidden: 4,
        pooling,
        n_heads: 2,
        ..Default::default()
    };
    planted::amplified(Sentiment::new(config, 1).unwrap(), 20.0)
}

/// Kind 0 are even tokens, kind 1 is the token 1; other odd tokens have no kind.
fn kinds(tokens: &Tokens) -> Vec<usize> {
    tokens.ids.iter().map(|&id| if id == 1 { 1 } else { (id % 2) as usize * 9 }).collect()
}

#[test]
fn shares_match_the_definition() {
    let texts = planted::texts(13, 9);
    for pooling in [Pooling::Max, Pooling::Additive, Pooling::Heads] {
        let model = model(pooling);
        let shares = |batch: usize| {
            let labelled = texts.iter().map(|text| Ok((text.clone(), kinds(text))));
            pooled_shares(&model, labelled, (2, batch), &Resampling::new(1)).unwrap()
        };
        for kind in 0..2 {
            let (mut weight, mut uniform, mut count) = (0.0, 0.0, 0.0);
            for text in texts.iter().filter(|text| kinds(text).contains(&kind)) {
                let weights = pool_weights(&model, std::slice::from_ref(text)).unwrap().remove(0);
                let here = || (0..text.len()).filter(|&i| kinds(text)[i] == kind);
                weight += here().map(|i| weights[i]).sum::<f64>() / weights.iter().sum::<f64>();
                uniform += here().count() as f64 / text.len() as f64;
                count += 1.0;
            }
            for batch in [1, 4] {
                let share = shares(batch)[kind];
                assert!((share.weight.mean - weight / count).abs() < 1e-5);
                assert!((share.uniform.mean - uniform / count).abs() < 1e-9);
                assert!((share.difference.mean - (weight - uniform) / count).abs() < 1e-5);
                assert_eq!(share.weight.count as f64, count);
            }
        }
    }
}

#[test]
fn models_without_pooling_are_rejected() {
    let text = Tokens::new(vec![1, 2]);
    assert!(pool_weights(&planted::random_gpt(1), std::slice::from_ref(&text)).is_err());
    let uneven = std::iter::once(Ok((text, vec![0])));
    assert!(pooled_shares(&model(Pooling::Max), uneven, (1, 1), &Resampling::new(1)).is_err());
}
