//! Ranks that share the batches of an update make, bit for bit, the update of one process.

use crate::numbers::ids;
use crate::zoo;
use regard_nn::data::batches::{Batches, Classification, PackedWindows, RandomWindows, Tagging};
use regard_nn::data::text::TokenStream;
use regard_nn::models::{GptConfig, Transformer};
use regard_nn::tensor::random::Key;
use regard_nn::tensor::{Device, GpuPeers, Gradient, Gradients, Tensor};
use regard_nn::train::parallel::{Alone, Devices, Group};
use regard_nn::train::{
    Flow, LanguageModelling, Observer, Progress, Step, Supervised, Task, TrainConfig, TrainingEnd, train,
    train_together,
};
use regard_nn::{Error, Module, Result};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

/// Lines from one thread to each, by rank.
struct Lines<T> {
    to: Vec<Sender<T>>,
    from: Vec<Mutex<Receiver<T>>>,
}

impl<T> Lines<T> {
    fn new(ranks: usize) -> Vec<Self> {
        let mut all: Vec<Self> = (0..ranks).map(|_| Self { to: Vec::new(), from: Vec::new() }).collect();
        for sender in 0..ranks {
            for receiver in 0..ranks {
                let (to, from) = channel();
                all[sender].to.push(to);
                all[receiver].from.push(Mutex::new(from));
            }
        }
        all
    }

    fn send(&self, rank: usize, message: T) -> Result<()> {
        self.to[rank].send(message).map_err(|_| gone(rank))
    }

    fn receive(&self, rank: usize) -> Result<T> {
        self.from[rank].lock().unwrap().recv().map_err(|_| gone(rank))
    }
}

fn gone(rank: usize) -> Error {
    Error::input("ranks", format!("rank {rank} is gone"))
}

/// Ranks that are threads of this process.
struct Threads {
    rank: usize,
    lines: Lines<Vec<u8>>,
    /// What stands for a connection between their devices.
    devices: Option<Lines<Tensor>>,
}

impl Threads {
    fn new(ranks: usize) -> Vec<Self> {
        let lines = Lines::new(ranks).into_iter().enumerate();
        lines.map(|(rank, lines)| Self { rank, lines, devices: None }).collect()
    }

    fn connected(ranks: usize) -> Vec<Self> {
        let devices = Lines::new(ranks).into_iter().map(Some);
        Self::new(ranks).into_iter().zip(devices).map(|(group, devices)| Self { devices, ..group }).collect()
    }
}

impl Group for Threads {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.lines.to.len()
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        for (rank, piece) in pieces.into_iter().enumerate() {
            self.lines.send(rank, piece)?;
        }
        (0..self.ranks()).map(|rank| self.lines.receive(rank)).collect()
    }

    fn devices(&self) -> Option<&dyn Devices> {
        self.devices.as_ref().map(|lines| lines as &dyn Devices)
    }
}

impl Devices for Lines<Tensor> {
    fn exchange(&self, sent: &[(usize, Tensor)], received: &[(usize, usize)]) -> Result<Vec<Tensor>> {
        for (rank, tensor) in sent {
            self.send(*rank, tensor.clone())?;
        }
        received.iter().map(|(rank, _)| self.receive(*rank)).collect()
    }

    fn wait(&self, check: &dyn Fn() -> Result<()>) -> Result<()> {
        check()
    }
}

/// A task with its settings.
type Made = (Box<dyn Task>, TrainConfig);

/// A tied GPT with dropout on windows of a text.
fn gpt(accumulate: usize, checkpointed: bool) -> Made {
    let config = GptConfig { dropout: 0.3, checkpointing: checkpointed, ..zoo::gpt_config() };
    let model = Box::new(Transformer::new(config.form(), 1).unwrap());
    let text = ids("text", zoo::VOCABULARY, [300]).values().to_vec();
    let windows = RandomWindows::new(TokenStream::new(&text).unwrap(), 5, 2, Key::new(3)).unwrap();
    let held_out = PackedWindows::new(TokenStream::new(&text[..60]).unwrap(), 5, 2).unwrap();
    let task = LanguageModelling::new(model, windows, held_out).unwrap();
    (Box::new(task), TrainConfig { batch_size: 2, ..settings(accumulate) })
}

/// A BiLSTM classifier on padded texts: its table of words has sparse gradients.
fn classifier(accumulate: usize) -> Made {
    let words = ids("words", zoo::VOCABULARY, [200]);
    let texts: Vec<Vec<u32>> = (0..20).map(|i| words.values()[7 * i..8 * i + 2].to_vec()).collect();
    let labels = (0..20).map(|i| i % 2).collect();
    let examples = || Classification::new(texts.clone(), Vec::clone(&labels), 0).unwrap();
    let batches = || Batches::new(examples(), 3, Key::new(5)).unwrap();
    let task = Supervised::new(zoo::named("sentiment, heads"), batches(), batches()).unwrap();
    (Box::new(task), TrainConfig { batch_size: 3, ..settings(accumulate) })
}

/// A tagger on texts of different lengths: batches have unequal numbers of targets.
fn tagger(accumulate: usize) -> Made {
    let words = ids("words", zoo::VOCABULARY, [200]);
    let texts: Vec<Vec<u32>> = (0..17).map(|i| words.values()[5 * i..5 * i + 1 + i % 7].to_vec()).collect();
    let tags: Vec<Vec<u32>> = texts.iter().map(|text| text.iter().map(|word| word % 2).collect()).collect();
    let batches =
        || Batches::new(Tagging::new(texts.clone(), tags.clone(), 0).unwrap(), 2, Key::new(5)).unwrap();
    let task = Supervised::new(zoo::named("tagger"), batches(), batches()).unwrap();
    (Box::new(task), TrainConfig { batch_size: 2, ..settings(accumulate) })
}

fn settings(accumulate: usize) -> TrainConfig {
    TrainConfig { steps: 6, accumulate, evaluate_every: 3, ..TrainConfig::default() }
}

/// What there is after training: every parameter, the losses, the position in the data.
#[derive(Debug, PartialEq)]
struct Outcome {
    parameters: Vec<Vec<u32>>,
    losses: Vec<u32>,
    sparse: bool,
    best: Option<(u64, u64)>,
    position: u64,
}

#[derive(Default)]
struct Losses {
    bits: Vec<u32>,
    /// Whether any gradient was sparse.
    sparse: bool,
}

impl Observer for Losses {
    fn gradients(&mut self, _: u64, model: &dyn Module, gradients: &Gradients) -> Result<()> {
        let parameters = model.parameters();
        let mut found = parameters.iter().filter_map(|(_, parameter)| gradients.find(parameter.tensor()));
        self.sparse |= found.any(|gradient| matches!(gradient, Gradient::Rows(_)));
        Ok(())
    }

    fn stepped(&mut self, step: &Step, _: &dyn Task, _: &Progress) -> Result<Flow> {
        self.bits.extend([step.loss.to_bits(), step.gradient_norm.to_bits()]);
        Ok(Flow::Continue)
    }
}

fn trained((mut task, config): Made, group: &dyn Group) -> Outcome {
    let (mut progress, mut losses) = (Progress::new(&config), Losses::default());
    train_together(&mut *task, &config, &mut progress, &mut losses, group).unwrap();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect();
    Outcome {
        parameters: task.model().parameters().iter().map(|(_, one)| bits(&one.tensor().values())).collect(),
        losses: losses.bits,
        sparse: losses.sparse,
        best: progress.best.map(|(loss, step)| (loss.to_bits(), step)),
        position: progress.position.batch,
    }
}

/// The outcomes of all ranks.
fn together(groups: Vec<Threads>, make: impl Fn() -> Made + Sync) -> Vec<Outcome> {
    let make = &make;
    std::thread::scope(|scope| {
        let running: Vec<_> =
            groups.into_iter().map(|group| scope.spawn(move || trained(make(), &group))).collect();
        running.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

fn ranks_agree_with_one_process(make: impl Fn(usize) -> Made + Sync) {
    for (ranks, accumulate) in [(1, 1), (2, 2), (3, 3), (4, 4), (2, 4), (2, 3), (3, 4)] {
        let alone = trained(make(accumulate), &Alone);
        assert!(alone.losses.first() != alone.losses.get(10), "something was learned");
        for groups in [Threads::new(ranks), Threads::connected(ranks)] {
            let connected = groups[0].devices.is_some();
            for outcome in together(groups, || make(accumulate)) {
                assert!(
                    outcome == alone,
                    "{ranks} ranks, {accumulate} batches, devices connected: {connected}: another result than one process"
                );
            }
        }
    }
}

#[test]
fn a_gpt_with_dropout() {
    ranks_agree_with_one_process(|accumulate| gpt(accumulate, false));
}

#[test]
fn a_checkpointed_gpt() {
    ranks_agree_with_one_process(|accumulate| gpt(accumulate, true));
}

#[test]
fn a_classifier_with_sparse_gradients_and_padding() {
    assert!(trained(classifier(1), &Alone).sparse);
    ranks_agree_with_one_process(classifier);
}

#[test]
fn a_tagger_with_unequal_numbers_of_targets() {
    ranks_agree_with_one_process(tagger);
}

#[test]
fn a_run_goes_on_with_another_number_of_ranks() {
    let alone = trained(gpt(4, false), &Alone);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("state.safetensors");
    let halfway = |group: &dyn Group| {
        let (mut task, config) = gpt(4, false);
        let mut progress = Progress::new(&config);
        let end = train_together(&mut *task, &config, &mut progress, &mut StopAt(3), group).unwrap();
        assert_eq!(end, TrainingEnd::Stopped);
        if group.rank() == 0 {
            regard_nn::train::save_state(&path, &*task, &progress, "", "").unwrap();
        }
    };
    std::thread::scope(|scope| {
        for group in Threads::new(4) {
            scope.spawn(move || halfway(&group));
        }
    });
    let rest = |group: &dyn Group| {
        let (mut task, config) = gpt(4, false);
        let (mut progress, _) = regard_nn::train::load_state(&path, &mut *task, &config, "").unwrap();
        train_together(&mut *task, &config, &mut progress, &mut (), group).unwrap();
        let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<u32>>();
        task.model().parameters().iter().map(|(_, one)| bits(&one.tensor().values())).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let ranks: Vec<_> =
            Threads::new(3).into_iter().map(|group| scope.spawn(move || rest(&group))).collect();
        for rank in ranks {
            assert!(rank.join().unwrap() == alone.parameters);
        }
    });
}

/// Stops at a step.
struct StopAt(u64);

impl Observer for StopAt {
    fn stepped(&mut self, step: &Step, _: &dyn Task, _: &Progress) -> Result<Flow> {
        Ok(if step.step == self.0 { Flow::Stop } else { Flow::Continue })
    }
}

#[test]
fn more_ranks_than_batches_are_rejected() {
    let (mut task, config) = gpt(1, false);
    let group = Threads::new(2).remove(0);
    let error = train_together(&mut *task, &config, &mut Progress::new(&config), &mut (), &group);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("2 ranks") && error.contains("accumulate is 1"), "{error}");
    assert!(train(&mut *task, &config, &mut Progress::new(&config), &mut ()).is_ok());
}

#[test]
fn a_rank_that_is_gone_ends_the_others() {
    let mut groups = Threads::new(2);
    drop(groups.pop());
    let (mut task, config) = gpt(2, false);
    let error = train_together(&mut *task, &config, &mut Progress::new(&config), &mut (), &groups[0]);
    assert!(error.unwrap_err().to_string().contains("rank 1 is gone"));
}

/// One rank whose GPU is connected by NCCL, to itself.
struct Gpu(GpuPeers);

impl Group for Gpu {
    fn rank(&self) -> usize {
        0
    }

    fn ranks(&self) -> usize {
        1
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> Result<Vec<Vec<u8>>> {
        Ok(pieces)
    }

    fn devices(&self) -> Option<&dyn Devices> {
        Some(&self.0)
    }
}

#[test]
#[ignore = "needs a GPU and NCCL"]
fn gradients_travel_by_nccl() {
    let device = Device::Cuda(0);
    let id = GpuPeers::new_id().unwrap();
    let group = Gpu(GpuPeers::join(device, &id, 0, 1).unwrap());
    // Values come back as they were sent, in order.
    let sent: Vec<(usize, Tensor)> = [3, 1, 1000]
        .map(|count| {
            (0, Tensor::new(&Key::new(count as u64).normal(count, 1.0), [count]).unwrap().to(device).unwrap())
        })
        .into();
    let received = Devices::exchange(&group.0, &sent, &[(0, 3), (0, 1), (0, 1000)]).unwrap();
    group.0.wait(&|| Ok(())).unwrap();
    for ((_, sent), received) in sent.iter().zip(&received) {
        assert_eq!(sent.values(), received.values());
    }
    for make in [|accumulate| gpt(accumulate, false), classifier, tagger] {
        let on_gpu = |accumulate| {
            let (mut task, config) = make(accumulate);
            task.model_mut().to(device).unwrap();
            (task, config)
        };
        assert!(trained(on_gpu(3), &group) == trained(on_gpu(3), &Alone), "another result than without NCCL");
    }
    group.0.abandon();
    assert!(Devices::exchange(&group.0, &sent, &[(0, 3)]).is_err(), "given up is given up");
}
