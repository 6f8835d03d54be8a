//! Updates of all parameters in one launch, and the norm of all gradients.

use super::device::Device;
use super::error::{Result, ensure};
use super::launch::{Argument, Grid, arguments};
use super::memory::{Buffer, Element, View, ViewMut};
use super::program::{Source, source};
use super::recording;
use super::reduce;
use bytemuck::{Pod, Zeroable};
use std::sync::Arc;

pub use crate::kernels::optimiser::Rule;

static PROGRAM: Source = source!("optimiser.cu");

/// Values that a block takes: see `optimiser.cu`.
const CHUNK: usize = 4096;

/// One parameter with its gradient and running means, all f32 and of one length.
pub struct Job<'a> {
    /// The parameter, changed in place.
    pub parameter: ViewMut<'a>,
    /// Its gradient.
    pub gradient: View<'a>,
    /// The running mean of gradients.
    pub first: ViewMut<'a>,
    /// The running mean of their squares, for Adam.
    pub second: Option<ViewMut<'a>>,
    /// Receives the new parameter as bf16.
    pub shadow: Option<ViewMut<'a>>,
    /// One value that multiplies the rate.
    pub pace: Option<View<'a>>,
    /// Decay added to the gradient (L2 regularisation).
    pub coupled: f32,
    /// Decay of the parameter itself, times the rate (AdamW).
    pub decoupled: f32,
}

/// A parameter in the table that kernels read: the layout of `Entry` in `optimiser.cu`.
#[derive(Debug, Clone, Copy, PartialEq, Default, Pod, Zeroable)]
#[repr(C)]
struct Entry {
    parameter: u64,
    gradient: u64,
    first: u64,
    second: u64,
    shadow: u64,
    pace: u64,
    count: u64,
    first_block: u64,
    coupled: f32,
    decoupled: f32,
}

/// The layout of `Settings` in `optimiser.cu`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Settings {
    rate: f32,
    beta1: f32,
    beta2: f32,
    epsilon: f32,
    correction1: f32,
    root_correction2: f32,
}

impl Rule {
    fn settings(self) -> Settings {
        match self {
            Rule::Momentum { rate, momentum } => Settings {
                rate,
                beta1: momentum,
                beta2: 0.0,
                epsilon: 0.0,
                correction1: 1.0,
                root_correction2: 1.0,
            },
            Rule::Adam { rate, beta1, beta2, epsilon, step } => Settings {
                rate,
                beta1,
                beta2,
                epsilon,
                correction1: (1.0 - f64::from(beta1).powi(step)) as f32,
                root_correction2: (1.0 - f64::from(beta2).powi(step)).sqrt() as f32,
            },
        }
    }

    /// The numbers of an update as its kernel reads them.
    pub(crate) fn bytes(self) -> Vec<u8> {
        bytemuck::bytes_of(&self.settings()).to_vec()
    }

    fn kernel(self) -> &'static str {
        match self {
            Rule::Momentum { .. } => "update_momentum",
            Rule::Adam { .. } => "update_adam",
        }
    }
}

/// A table of entries on the device. Buffers return to the same places from step to step, so that it seldom changes.
struct Table {
    entries: Vec<Entry>,
    blocks: usize,
    copy: Buffer,
}

impl Table {
    fn new(device: &Arc<Device>) -> Result<Self> {
        Ok(Self { entries: Vec::new(), blocks: 0, copy: device.allocate(0, Element::U8)? })
    }

    /// A table of its own for a recording: the common one changes with the next optimiser.
    fn of_recording(device: &Arc<Device>, recorded: bool) -> Result<Option<Self>> {
        recorded.then(|| Self::new(device)).transpose()
    }

    /// Brings the device's copy up to date.
    fn set(&mut self, mut entries: Vec<Entry>) -> Result<()> {
        let mut blocks = 0;
        entries.retain(|entry| entry.count > 0);
        for entry in &mut entries {
            entry.first_block = blocks;
            blocks += entry.count.div_ceil(CHUNK as u64);
        }
        if entries != self.entries {
            self.copy =
                self.copy.device().upload(bytemuck::cast_slice::<Entry, u8>(&entries), Element::U8)?;
            (self.entries, self.blocks) = (entries, blocks as usize);
        }
        Ok(())
    }
}

/// Updates parameters and measures gradients, with what stays on the device between steps.
pub struct Optimiser {
    device: Arc<Device>,
    updates: Table,
    gradients: Table,
    settings: Buffer,
}

impl Optimiser {
    /// An optimiser for parameters on a device.
    pub fn new(device: &Arc<Device>) -> Result<Self> {
        Ok(Self {
            device: device.clone(),
            updates: Table::new(device)?,
            gradients: Table::new(device)?,
            settings: device.allocate(size_of::<Settings>(), Element::U8)?,
        })
    }

    /// Updates all parameters. `scale`, one f32 on the device, multiplies every gradient.
    pub fn update(&mut self, rule: Rule, scale: Option<View>, jobs: &mut [Job]) -> Result<()> {
        let entries = jobs.iter_mut().map(|job| entry(rule, job)).collect::<Result<_>>()?;
        let numbers = rule.bytes();
        let recorded = recording::update_place(self.device.ordinal(), &numbers)?;
        let mut own = Table::of_recording(&self.device, recorded.is_some())?;
        let table = own.as_mut().unwrap_or(&mut self.updates);
        table.set(entries)?;
        let settings = match recorded {
            Some(place) => Argument::Word(place),
            None => {
                self.settings.view_mut().write(&numbers)?;
                Argument::from(&self.settings)
            }
        };
        let Table { entries, blocks, copy } = table;
        let arguments = [Argument::from(&*copy), (entries.len() as u32).into(), settings, scale.into()];
        self.device.launch(&PROGRAM, rule.kernel(), Grid::new(*blocks, 256), &arguments)
    }

    /// The device of its parameters.
    pub fn device(&self) -> &Arc<Device> {
        &self.device
    }

    /// The Euclidean norm of all gradients together, and what to multiply them with so that it is at most `limit`: two f32
    /// values.
    pub fn norm(&mut self, gradients: &[View], limit: f32) -> Result<Buffer> {
        let entries = gradients.iter().map(|gradient| {
            ensure(gradient.element() == Element::F32, "norm", "f32 gradients", gradient.element().name())?;
            Ok(Entry { gradient: gradient.pointer(), count: gradient.len() as u64, ..Entry::default() })
        });
        let mut own = Table::of_recording(&self.device, recording::pool(self.device.ordinal()).is_some())?;
        let table = own.as_mut().unwrap_or(&mut self.gradients);
        table.set(entries.collect::<Result<_>>()?)?;
        let Table { entries, blocks, copy } = &*table;
        let partial = self.device.allocate(*blocks, Element::F32)?;
        let out = self.device.allocate(2, Element::F32)?;
        let arguments = arguments![copy, entries.len() as u32, &partial];
        self.device.launch(&PROGRAM, "squares", Grid::new(*blocks, 256), arguments)?;
        let arguments = arguments![&partial, *blocks, limit, &out];
        self.device.launch(&PROGRAM, "gradient_norm", Grid::new(1, 1024), arguments)?;
        Ok(out)
    }
}

/// What to multiply gradients of this norm (one f32) with so that it is at most `limit`: one f32.
pub fn clip_scale(norm: View, limit: f32) -> Result<Buffer> {
    let fits = norm.len() == 1 && norm.element() == Element::F32;
    ensure(fits, "clip_scale", "one f32 norm", norm.len())?;
    let out = norm.device().allocate(1, Element::F32)?;
    norm.device().launch(&PROGRAM, "clip_scale", Grid::new(1, 1), arguments![norm, limit, &out])?;
    Ok(out)
}

/// The root of the mean of the squares of `values`, or `smallest` if that is larger: one f32.
pub fn pace(values: View, smallest: f32) -> Result<Buffer> {
    let sum = reduce::sum_of_squares(values)?;
    let out = values.device().allocate(1, Element::F32)?;
    let arguments = arguments![&sum, values.len().max(1), smallest, &out];
    values.device().launch(&PROGRAM, "pace", Grid::new(1, 1), arguments)?;
    Ok(out)
}

fn entry(rule: Rule, job: &mut Job) -> Result<Entry> {
    let parameter = job.parameter.as_view();
    let count = parameter.len();
    let second = job.second.as_ref().map(ViewMut::as_view);
    let shadow = job.shadow.as_ref().map(ViewMut::as_view);
    ensure(second.is_some() || matches!(rule, Rule::Momentum { .. }), "update", "two running means", "one")?;
    let f32_views = [Some(parameter), Some(job.gradient), Some(job.first.as_view()), second];
    for view in f32_views.into_iter().flatten() {
        let fits = view.len() == count && view.element() == Element::F32;
        ensure(fits, "update", format_args!("{count} f32 values"), view.len())?;
    }
    let fits = shadow.is_none_or(|shadow| shadow.len() == count && shadow.element() == Element::Bf16);
    ensure(fits, "update", format_args!("{count} bf16 values"), "another shadow")?;
    let fits = job.pace.is_none_or(|pace| pace.len() == 1 && pace.element() == Element::F32);
    ensure(fits, "update", "one f32 pace", "another")?;
    Ok(Entry {
        parameter: parameter.pointer(),
        gradient: job.gradient.pointer(),
        first: job.first.as_view().pointer(),
        second: second.map_or(0, |view| view.pointer()),
        shadow: shadow.map_or(0, |view| view.pointer()),
        pace: job.pace.map_or(0, |view| view.pointer()),
        count: count as u64,
        first_block: 0,
        coupled: job.coupled,
        decoupled: job.decoupled,
    })
}
