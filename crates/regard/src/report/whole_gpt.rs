//! A whole GPT in some twenty lines, for the lesson. The library's `Transformer` has more variants and runs faster; a test checks that
//! both compute the same.

use super::worked;
use anyhow::{Context as _, Result};
use regard_nn::Module;
use regard_nn::attention::{Scale, scaled_dot_product};
use regard_nn::models::{GptConfig, Transformer};
use regard_nn::tensor::ops::concatenate;
use regard_nn::tensor::{Ids, Mask, Tensor};

/// The file itself, to quote from.
pub const SOURCE: (&str, &str) = ("crates/regard/src/report/whole_gpt.rs", include_str!("whole_gpt.rs"));

/// The numbers of a model, by their names.
pub type Parameters<'a> = dyn Fn(&str) -> Result<Tensor> + 'a;

/// The logits (n, V) of the word after each of n positions.
pub fn gpt(p: &Parameters, n_layers: usize, n_heads: usize, ids: &Ids) -> Result<Tensor> {
    let positions = p("positions.table.weight")?.slice(0, 0, ids.shape().last())?;
    let mut x = p("tokens.weight")?.embedding(ids)?.add(&positions)?; // (n, d)
    for layer in 0..n_layers {
        let name = |part: &str| format!("layers.{layer}.{part}");
        let normed = norm(p, &name("attention_norm"), &x)?;
        let projected = linear(p, &name("attention.project"), &normed)?; // Q, K, V side by side (n, 3d)
        let attended = causal_attention(&projected, n_heads)?; // (n, d)
        x = x.add(&linear(p, &name("attention.output"), &attended)?)?; // · W_O, added
        let normed = norm(p, &name("ffn_norm"), &x)?;
        let hidden = linear(p, &name("ffn.up"), &normed)?.gelu_tanh()?; // (n, 4d)
        x = x.add(&linear(p, &name("ffn.down"), &hidden)?)?;
    }
    let x = norm(p, "norm", &x)?;
    Ok(x.matmul_transposed(&p("tokens.weight")?, false, true)?) // x · Eᵀ
}

fn linear(p: &Parameters, name: &str, x: &Tensor) -> Result<Tensor> {
    Ok(x.matmul(&p(&format!("{name}.weight"))?)?.add(&p(&format!("{name}.bias"))?)?)
}

fn norm(p: &Parameters, name: &str, x: &Tensor) -> Result<Tensor> {
    let (factor, summand) = (p(&format!("{name}.weight"))?, p(&format!("{name}.bias"))?);
    Ok(worked::norm(x)?.multiply(&factor)?.add(&summand)?)
}

fn causal_attention(projected: &Tensor, n_heads: usize) -> Result<Tensor> {
    let (n, d) = (projected.shape()[0], projected.shape().last() / 3);
    let (width, earlier) = (d / n_heads, Mask::from_fn([n, n], |at| at[1] <= at[0]));
    let one = |head: usize| {
        let part = |which: usize| projected.slice(1, which * d + head * width, width); // of Q, K or V
        let (query, key, value) = (part(0)?, part(1)?, part(2)?);
        anyhow::Ok(scaled_dot_product(&query, &key, &value, Some(&earlier), Scale::InverseRoot)?.0)
    };
    let outputs = (0..n_heads).map(one).collect::<Result<Vec<_>>>()?;
    Ok(concatenate(&outputs.iter().collect::<Vec<_>>(), 1)?)
}

/// The numbers of a model of the library.
pub fn parameters(model: &dyn Module) -> impl Fn(&str) -> Result<Tensor> {
    move |wanted| {
        let found = model.parameters().into_iter().find(|(name, _)| name == wanted);
        Ok(found.with_context(|| format!("there is no parameter {wanted}"))?.1.tensor().detach())
    }
}

/// The probabilities of the word after *time flies fast*, of a GPT that was not trained.
pub fn untrained() -> Result<Vec<f32>> {
    let (vocabulary, texts) = worked::tokens()?;
    let config = GptConfig {
        vocabulary: vocabulary.len(),
        context: 8,
        n_layers: 2,
        n_heads: 2,
        d_model: 8,
        ..GptConfig::default()
    };
    let model = Transformer::new(config.form(), 0)?;
    let logits = gpt(&parameters(&model), 2, 2, &Ids::new(&texts[0], [3])?)?;
    Ok(logits.slice(0, 2, 1)?.softmax()?.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_nn::Context;
    use regard_nn::models::{Inputs, Model};
    use regard_nn::tensor::random::Key;

    #[test]
    fn it_computes_what_the_library_computes() {
        let config = GptConfig {
            vocabulary: 11,
            context: 8,
            n_layers: 2,
            n_heads: 2,
            d_model: 8,
            ..GptConfig::default()
        };
        let mut model = Transformer::new(config.form(), 3).unwrap();
        // New biases are 0 and new factors 1: drawn ones show whether they are used.
        for (name, parameter) in model.parameters_mut() {
            let values = Key::new(5).site(&name).normal(parameter.tensor().count(), 0.5);
            parameter.tensor_mut().set_values(&values).unwrap();
        }
        let ids = [3, 1, 4, 1, 5, 9];
        let ours = gpt(&parameters(&model), 2, 2, &Ids::new(&ids, [6]).unwrap()).unwrap();
        let context = Context::inference();
        let hidden = model.hidden(&context, &Inputs::ids(&Ids::new(&ids, [1, 6]).unwrap())).unwrap();
        let wanted = model.scores(&context, &hidden).unwrap();
        assert_eq!(ours.count(), wanted.count());
        for (ours, wanted) in ours.to_vec().iter().zip(wanted.to_vec()) {
            assert!((ours - wanted).abs() < 1e-4, "{ours} is not {wanted}");
        }
    }

    #[test]
    fn an_untrained_model_prefers_nothing_much() {
        let probabilities = untrained().unwrap();
        assert_eq!(probabilities.len(), 5);
        assert!(probabilities.iter().all(|p| (p - 0.2).abs() < 0.05), "{probabilities:?}");
    }
}
