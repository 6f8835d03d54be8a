//! A small training loop on a device reads no value before it ends.

use crate::{alone, bits, counted, draw, ids};
use regard_tensor::ops::{Attention, CrossEntropy, Dropout, Layout, Projections, attend};
use regard_tensor::optimiser::{Method, Optimiser, Update, clip_scale, global_norm};
use regard_tensor::random::Key;
use regard_tensor::traffic::Traffic;
use regard_tensor::{Device, Ids, Result, Tensor};

/// The parameters of a small GPT: token and position tables, fused projection, output, two norms.
pub fn parameters(device: Device) -> Vec<Tensor> {
    let shapes: [&[usize]; 8] = [&[11, 16], &[7, 16], &[16, 48], &[16, 16], &[16], &[16], &[16], &[11]];
    let scaled = |(i, shape): (usize, &&[usize])| draw(&format!("parameter {i}"), shape).scale(0.3).unwrap();
    shapes.iter().enumerate().map(scaled).map(|p| p.to(device).unwrap().tracked()).collect()
}

/// Linear layers, norms, attention, embeddings tied to the output, and both forms of the loss.
fn loss(p: &[Tensor], inputs: &Ids, targets: &Ids) -> Result<Tensor> {
    let x = p[0].embedding(inputs)?.add(&p[1].embedding(&ids(&[0, 1, 2, 3, 4, 5, 6]))?)?;
    let packed = x.layer_norm(&p[4], Some(&p[5]), 1e-5)?.linear(&p[2], None, Layout::InOut, None)?;
    let attended = attend(
        Projections::Fused { packed: &packed, heads: 2, kv_heads: 2 },
        &Attention::scaled(0.35).causal(),
    )?;
    let dropout = Dropout { probability: 0.1, key: Key::new(3), first_example: 0 };
    let mixed = attended.output.reshape(x.shape())?.linear(&p[3], None, Layout::InOut, None)?;
    let x = x.add(&mixed.dropout(&dropout)?)?.rms_norm(&p[6], 1e-5)?;
    let settings = CrossEntropy { ignored: Some(3), smoothing: 0.0 };
    let scored = x.scored_cross_entropy(&p[0], Some(&p[7]), targets, settings)?;
    let logits = x.linear(&p[0], Some(&p[7]), Layout::OutIn, None)?;
    scored.add(&logits.cross_entropy(targets, settings)?)?.scale(0.5)
}

/// Four steps of AdamW with clipping: the losses, and the parameters at the end.
pub fn train(device: Device) -> (Vec<Vec<u32>>, Traffic) {
    let (inputs, targets) = (
        Ids::new(&[1, 4, 2, 8, 5, 7, 1, 3, 3, 9, 10, 0, 0, 2], [2, 7]).unwrap(),
        Ids::new(&[4, 2, 8, 5, 7, 1, 3, 3, 9, 10, 0, 0, 2, 6], [2, 7]).unwrap(),
    );
    let mut parameters = parameters(device);
    let mut optimiser = Optimiser::new(Method::adamw(), 0.1).relative(true);
    let (losses, traffic) = counted(|| {
        let step = |_| {
            let loss = loss(&parameters, &inputs, &targets).unwrap();
            let gradients = loss.backward().unwrap();
            let norm = global_norm(parameters.iter().filter_map(|p| gradients.find(p))).unwrap();
            let scale = clip_scale(&norm, 0.5).unwrap();
            let updates = parameters.iter_mut().map(|parameter| Update {
                gradient: gradients.find(parameter),
                parameter,
                decays: true,
            });
            optimiser.step(&mut updates.collect::<Vec<_>>(), 0.01, &scale).unwrap();
            loss
        };
        (0..4).map(step).collect::<Vec<_>>()
    });
    (losses.iter().chain(&parameters).map(bits).collect(), traffic)
}

#[test]
fn training_reads_nothing_to_the_host() {
    let _alone = alone();
    let (on_cpu, no_traffic) = train(Device::Cpu);
    assert_eq!(no_traffic, Traffic::default(), "the CPU touches no counter");
    let (apart, traffic) = train(Device::Apart);
    assert_eq!(on_cpu, apart);
    assert_eq!((traffic.host_reads, traffic.uploads), (0, 0));
    for (kernel, count) in
        [("optimiser", 4), ("attention_gradient", 4), ("global_norm", 4), ("clip_scale", 4)]
    {
        assert_eq!(traffic.fallbacks[kernel], count, "{kernel}");
    }
}
