//! A vision transformer that classifies the built-in digits, and the patches that it attends to.

use crate::experiment::{Lab, Sizes};
use crate::run::{RunConfig, sources};
use anyhow::{Context as _, Result, bail};
use regard_nn::analysis::influence::rollout;
use regard_nn::data::batches::{Batches, Pictures};
use regard_nn::data::idx::Images;
use regard_nn::models::{Inputs, Model};
use regard_nn::tensor::Tensor;
use regard_nn::tensor::random::Key;
use regard_nn::train::evaluate;
use regard_nn::{Context, Probe};
use serde::{Deserialize, Serialize};

/// So many digits are shown.
const SHOWN: usize = 4;

/// The accuracy of a ViT, and the patches that it attends to.
#[derive(Serialize, Deserialize)]
pub struct Tested {
    pub accuracy: f64,
    /// Of the first seed: each digit's pixels, and the rollout of the class token over its patches.
    pub looks: Vec<Look>,
    pub patches: usize,
}

/// One digit, and the patches that the class token comes from.
#[derive(Serialize, Deserialize)]
pub struct Look {
    pub pixels: Vec<f32>,
    pub side: usize,
    pub weights: Vec<f32>,
    pub label: u8,
    pub predicted: usize,
}

pub fn digits(lab: &Lab, seed: u64) -> Result<RunConfig> {
    const SETTINGS: Sizes<&[&str]> = Sizes::<&[&str]>::quick(&[
        "model.n_layers=2",
        "model.d_model=32",
        "model.d_hidden=64",
        "model.patch=7",
        "train.steps=1500",
        "train.batch_size=32",
        "train.rate.highest=8e-3",
        "train.rate.warmup=30",
        "data.texts=10000",
    ])
    .smoke(&[
        "model.n_layers=1",
        "model.d_model=8",
        "model.n_heads=2",
        "model.d_hidden=16",
        "train.steps=6",
        "data.texts=60",
    ])
    .standard(&["train.steps=1000", "data.texts=10000"])
    .full(&["data.texts=20000"]);
    let mut config = lab.preset("digits", SETTINGS, seed)?;
    config.train.evaluate_every = (config.train.steps / 2).max(1);
    Ok(config)
}

/// Trains a ViT and tests it on digits that it was not trained on.
pub fn train_and_test(lab: &Lab, seed: u64) -> Result<Tested> {
    let config = digits(lab, seed)?;
    let opened = lab.train(&config)?.open()?;
    let settings = std::fs::read_to_string(opened.folder.join("preprocessor_config.json"))
        .context("how the ViT reads pictures is not known")?;
    let settings: serde_json::Value = serde_json::from_str(&settings)?;
    let number = |key: &str, default: f64| settings[key][0].as_f64().unwrap_or(default) as f32;
    let scale = (number("image_mean", 0.0), number("image_std", 1.0));
    let mut images = sources::test_images(&config.data)?;
    let count = lab.setting("test digits", Sizes::quick(500).smoke(20).standard(2_000)).min(images.len());
    images.labels.truncate(count);
    images.pixels.truncate(count * images.rows * images.columns);
    let Some(patches) = opened.model.abilities().pictures() else {
        bail!("digits need a model of pictures, not a {}", opened.model.kind())
    };
    let looks = (0..SHOWN.min(count)).map(|i| see(&*opened.model, &images, i, scale));
    let looks = if seed == lab.first_seed() { looks.collect::<Result<_>>()? } else { Vec::new() };
    let patches = patches.grid().0;
    let found = evaluate(
        &*opened.model,
        &Batches::new(Pictures::new(images, scale), 64, Key::new(0))?,
        &Context::inference(),
    )?;
    let accuracy = found.measures.iter().find(|(name, _)| name == "accuracy").context("no accuracy")?.1;
    Ok(Tested { accuracy, looks, patches })
}

fn see(model: &dyn Model, images: &Images, index: usize, (mean, deviation): (f32, f32)) -> Result<Look> {
    let pixels = images.image(index).context("there are too few digits")?;
    let pixels: Vec<f32> = pixels.iter().map(|&pixel| f32::from(pixel) / 255.0).collect();
    let scaled: Vec<f32> = pixels.iter().map(|pixel| (pixel - mean) / deviation).collect();
    let image = Tensor::new(&scaled, [1, 1, images.rows, images.columns])?;
    let sites: Vec<String> = model.attentions().into_iter().map(|site| site.name).collect();
    let probe = sites.iter().fold(Probe::new(), |probe, site| probe.record(format!("{site}.weights")));
    let scores = model.forward(&Context::inference().with_probe(&probe), &Inputs::pictures(&image))?;
    let mut layers = Vec::new();
    for site in &sites {
        let weights = probe.weights(site).with_context(|| format!("the model did not pass {site}"))?;
        layers.push(weights.all().mean(1)?.select(0, 0)?);
    }
    let rolled = rollout(&layers)?.pop().context("the ViT has no layers")?;
    Ok(Look {
        side: images.columns,
        weights: rolled.select(0, 0)?.to_vec().split_off(1),
        label: images.labels[index],
        predicted: scores.argmax(-1)?.values().first().map_or(0, |&class| class as usize),
        pixels,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use regard_nn::models::{Transformer, VitConfig};
    use regard_nn::train::{Progress, Schedule, Supervised, Task, TrainConfig, train};

    /// The accuracy of a small ViT, measured as in [`train_and_test`], that was trained on digits with some labels.
    fn trained_on(label: impl Fn(&Images, usize) -> u8) -> Result<f64> {
        let labelled = |part: &str, count: usize| {
            let mut images = regard_nn::data::builtin::digits(0, part, count);
            images.labels = (0..count).map(|i| label(&images, i)).collect();
            Pictures::new(images, (0.1, 0.3))
        };
        let form = VitConfig {
            n_layers: 1,
            n_heads: 2,
            d_model: 16,
            d_hidden: 32,
            patch: 7,
            classes: 10,
            ..VitConfig::default()
        };
        let rate = Schedule { highest: 8e-3, ..Schedule::default() };
        let config =
            TrainConfig { steps: 300, batch_size: 32, evaluate_every: 0, rate, ..TrainConfig::default() };
        let batches = |pictures, size| Batches::new(pictures, size, Key::new(0));
        let model = Box::new(Transformer::new(form.form(), 0)?);
        let mut task = Supervised::new(
            model,
            batches(labelled("train", 1_500), 32)?,
            batches(labelled("held", 64), 64)?,
        )?;
        train(&mut task, &config, &mut Progress::new(&config), &mut ())?;
        let found = evaluate(task.model(), &batches(labelled("test", 400), 64)?, &Context::inference())?;
        Ok(found.measures.iter().find(|(name, _)| name == "accuracy").context("no accuracy")?.1)
    }

    #[test]
    fn a_vit_is_no_better_than_chance_if_labels_mean_nothing() -> Result<()> {
        let key = Key::new(7);
        // The pixels decide which of the labels is drawn, so that the parts do not share their draws.
        let drawn = |images: &Images, i: usize| {
            let ink: u64 = images.image(i).unwrap_or_default().iter().map(|&pixel| u64::from(pixel)).sum();
            key.below(ink, i as u64, 10) as u8
        };
        let (sense, nonsense) = (trained_on(|images, i| images.labels[i])?, trained_on(drawn)?);
        assert!(sense > 0.4, "it learns digits: {sense}");
        // 400 digits: three standard deviations of one in ten are 0.045.
        assert!((nonsense - 0.1).abs() < 0.045, "{nonsense}");
        Ok(())
    }
}
