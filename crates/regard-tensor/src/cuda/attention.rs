//! Attention in tiles on the engine's arrays: from a specification to the kernels' arguments and grids.
//!
//! The kernels are the files of the folder `attention`. Each combination of features and widths is compiled when it is
//! first needed. f32 takes the kernels with ordinary arithmetic (`ffma`), bf16 those on tensor cores where widths and
//! strides allow 16-byte accesses: by warpgroups on Hopper (`wgmma`), else by warps (`mma`).

mod maps;
mod pattern;
mod problem;

use super::arrays::Copy;
use super::device::Device as Cuda;
use super::launch::{Argument, Grid};
use super::memory::{Buffer, Element};
use super::program::{File, Source, Variant};
use super::recording;
use crate::array::Array;
use crate::error::Result;
use crate::kernels::attention::{AttentionGradients, BiasGradient, BiasSpec, Place, Spec, Strides};
use crate::kernels::memory::convert;
use crate::storage::DataType;
use maps::Maps;
use pattern::DevicePattern;
use problem::{Dropout, Heads, Problem, WeightsBlock};
use std::ops::Range;
use std::sync::{Arc, LazyLock};

/// Files that the kernels include.
const HEADERS: [File; 10] = [
    ("problem.cuh", include_str!("attention/problem.cuh")),
    ("pair.cuh", include_str!("attention/pair.cuh")),
    ("ffma.cuh", include_str!("attention/ffma.cuh")),
    ("ffma_slopes.cuh", include_str!("attention/ffma_slopes.cuh")),
    ("ptx.cuh", include_str!("attention/ptx.cuh")),
    ("mma.cuh", include_str!("attention/mma.cuh")),
    ("mma_slopes.cuh", include_str!("attention/mma_slopes.cuh")),
    ("wgmma.cuh", include_str!("attention/wgmma.cuh")),
    ("online.cuh", include_str!("attention/online.cuh")),
    ("scores.cuh", include_str!("attention/scores.cuh")),
];

macro_rules! kernel_file {
    ($name:literal) => {
        Source { file: ($name, include_str!(concat!("attention/", $name))), headers: &HEADERS }
    };
}

/// The kernels of the passes, in one kind of arithmetic.
struct Engine {
    forward: Source,
    backward: Backward,
}

/// How gradients are computed without atomics.
enum Backward {
    /// A pass over the pairs for the gradient of the queries, and one for those of keys and values.
    Apart { query: Source, key_value: Source },
    /// One pass for all. Parts of the gradient of the queries are added in memory, in a fixed order.
    Together(Source),
}

static FFMA: Engine = Engine {
    forward: kernel_file!("ffma_forward.cu"),
    backward: Backward::Apart {
        query: kernel_file!("ffma_query_gradient.cu"),
        key_value: kernel_file!("ffma_key_value_gradient.cu"),
    },
};
static MMA: Engine = Engine {
    forward: kernel_file!("mma_forward.cu"),
    backward: Backward::Apart {
        query: kernel_file!("mma_query_gradient.cu"),
        key_value: kernel_file!("mma_key_value_gradient.cu"),
    },
};
static WGMMA: Engine = Engine {
    forward: kernel_file!("wgmma_forward.cu"),
    backward: Backward::Apart {
        query: kernel_file!("wgmma_query_gradient.cu"),
        key_value: kernel_file!("wgmma_key_value_gradient.cu"),
    },
};
/// A trial, for who sets `REGARD_ATTENTION=one-pass`: five products instead of seven. `records/cuda.md` says what is known of it.
static WGMMA_ONE_PASS: Engine = Engine {
    forward: kernel_file!("wgmma_forward.cu"),
    backward: Backward::Together(kernel_file!("wgmma_gradients.cu")),
};
static BIAS_GRADIENT: Source = kernel_file!("ffma_bias_gradient.cu");
static DELTA: Source = kernel_file!("delta.cu");
static WEIGHTS: Source = kernel_file!("weights.cu");

/// The compute capability that has products by warpgroups.
const HOPPER: (u32, u32) = (9, 0);
/// Tiles of queries and keys in the kernel of the bias's gradient: see `ffma.cuh`.
const SIDE: usize = 64;
/// Distances that a diagonal of tiles has, padded: see `ffma_bias_gradient.cu`.
const FOLDED: usize = 128;
/// Queries are padded to a multiple of this in what the backward pass saves: see `problem.cuh`.
const PADDING: usize = 128;
/// Features of a row are padded to a multiple of this in the kernels for warpgroups, and so many queries share a count of parts.
const PANEL: usize = 64;
const TURN: usize = 32;

/// Whether there are kernels for an attention. Heads without features and sizes beyond 32 bits have none.
pub(crate) fn takes(spec: &Spec) -> bool {
    let sizes = [spec.queries + spec.keys, spec.heads, spec.batch];
    spec.width.min(spec.value_width) > 0
        && sizes.iter().all(|&size| i32::try_from(size).is_ok())
        && spec.heads.max(spec.batch) <= 65_535
}

/// The output (batch, queries, heads, value width) and each row's log-sum-exp (batch, heads, queries).
pub(crate) fn forward(spec: &Spec) -> Result<(Array, Array)> {
    let launch = Launch::new(spec)?;
    let Spec { batch, heads, queries, value_width, .. } = *spec;
    let output = launch.device.allocate(batch * queries * heads * value_width, launch.element)?;
    let lse = launch.device.allocate(batch * heads * queries, Element::F32)?;
    let mut problem = launch.problem()?;
    problem.output = Heads::new(output.view(), output_strides(spec));
    problem.log_sum_exp = lse.view().pointer();
    launch.pass(&launch.engine.forward, "attention_forward", (queries, heads), &problem)?;
    Ok((output.into(), lse.into()))
}

/// Where heads lie in the output and in its gradient.
fn output_strides(spec: &Spec) -> Strides {
    let row = spec.heads * spec.value_width;
    Strides { start: 0, batch: spec.queries * row, head: spec.value_width, row }
}

/// All gradients; `fused` if query, key and value are parts of one array.
pub(crate) fn backward(
    spec: &Spec,
    output: &Array,
    lse: &Array,
    upstream: &Array,
    fused: bool,
) -> Result<AttentionGradients> {
    let launch = Launch::new(spec)?;
    let upstream = convert(upstream, output.data_type())?;
    let (strides, device) = (output_strides(spec), launch.device);
    let saved = device.allocate(spec.batch * spec.heads * padded(spec) * 2, Element::F32)?;
    let projections = launch.projection_gradients(fused)?;
    let [query, key, value] = if fused { [0, 0, 0] } else { [0, 1, 2] }.map(|i| projections[i].view());
    let places = [&spec.query, &spec.key, &spec.value];
    let sink = spec.sink.as_ref().map(|_| device.allocate(spec.heads, Element::F32)).transpose()?;
    let mut problem = launch.problem()?;
    problem.output = Heads::new(output.cuda()?, strides);
    problem.upstream = Heads::new(upstream.cuda()?, strides);
    problem.log_sum_exp = lse.cuda()?.pointer();
    problem.saved_rows = saved.view().pointer();
    problem.query_gradient = Heads::new(query, places[0].strides);
    problem.key_gradient = Heads::new(key, places[1].strides);
    problem.value_gradient = Heads::new(value, places[2].strides);
    problem.sink_gradient = sink.as_ref().map_or(0, |sink| sink.view().pointer());

    let (queries, keys) = ((spec.queries, spec.heads), (spec.keys, spec.kv_heads));
    let padded_queries = (padded(spec), spec.heads);
    match &launch.engine.backward {
        Backward::Apart { query, key_value } => {
            launch.tiled(&DELTA, "attention_delta", padded_queries, &problem)?;
            launch.pass(query, "attention_query_gradient", queries, &problem)?;
            launch.pass(key_value, "attention_key_value_gradient", keys, &problem)?;
        }
        Backward::Together(gradients) => {
            let rows = spec.batch * spec.heads * padded(spec);
            let sums = device.allocate(rows * spec.width.next_multiple_of(PANEL), Element::F32)?;
            let turns = device.allocate(rows / TURN, Element::F32)?;
            (problem.query_sums, problem.turns) = (sums.view().pointer(), turns.view().pointer());
            launch.tiled(&DELTA, "attention_delta", padded_queries, &problem)?;
            launch.pass(gradients, "attention_gradients", keys, &problem)?;
            launch.tiled(gradients, "attention_finish_query_gradient", queries, &problem)?;
        }
    }
    if sink.is_some() {
        let grid =
            Grid { blocks: (spec.heads, 1, 1), threads: 256, shared: 256 * size_of::<f64>(), early: false };
        launch.run(&DELTA, "attention_sink_gradient", grid, &problem)?;
    }
    let bias = launch.bias_gradient(problem)?;
    Ok(AttentionGradients {
        projections: projections.into_iter().map(Array::from).collect(),
        bias,
        sink: sink.map(Array::from),
    })
}

/// The kernels for warpgroups.
fn for_hopper() -> &'static Engine {
    static ONE_PASS: LazyLock<bool> =
        LazyLock::new(|| std::env::var_os("REGARD_ATTENTION").is_some_and(|name| name == "one-pass"));
    if *ONE_PASS { &WGMMA_ONE_PASS } else { &WGMMA }
}

fn padded(spec: &Spec) -> usize {
    spec.queries.next_multiple_of(PADDING)
}

/// A block of the weights of some heads, (example, head) each: (heads named, queries, keys).
pub(crate) fn weights(
    spec: &Spec,
    lse: &Array,
    heads: &[(usize, usize)],
    queries: Range<usize>,
    keys: Range<usize>,
) -> Result<Array> {
    let launch = Launch::new(spec)?;
    let plane = queries.len() * keys.len();
    let out = launch.device.allocate(heads.len() * plane, Element::F32)?;
    let mut problem = launch.problem()?;
    problem.log_sum_exp = lse.cuda()?.pointer();
    let planes: Vec<usize> = heads.iter().map(|&(example, head)| example * spec.heads + head).collect();
    let mut done = 0;
    // Planes that follow one another share a launch.
    for run in planes.chunk_by(|a, b| a + 1 == *b).flat_map(|run| run.chunks(65_535)) {
        let block = WeightsBlock {
            out: out.view().part(done * plane, run.len() * plane)?.pointer(),
            first_plane: run[0] as i32,
            query_start: queries.start as i32,
            queries: queries.len() as i32,
            key_start: keys.start as i32,
            keys: keys.len() as i32,
            gap: 0,
        };
        launch.weights(&problem, &block, run.len())?;
        done += run.len();
    }
    Ok(out.into())
}

/// One attention on its device: its arrays in the types that kernels take, and the variant of the kernels.
struct Launch<'a> {
    spec: &'a Spec,
    device: &'a Arc<Cuda>,
    element: Element,
    engine: &'static Engine,
    defines: String,
    places: [Place; 3],
    key_mask: Option<Copy>,
    pattern: Option<DevicePattern>,
    bias: Option<Array>,
    sink: Option<Array>,
}

impl<'a> Launch<'a> {
    fn new(spec: &'a Spec) -> Result<Self> {
        let (device, data_type) = (spec.query.array.device(), spec.query.array.data_type());
        let place = |place: &Place| -> Result<Place> {
            Ok(Place { array: convert(&place.array, data_type)?, strides: place.strides })
        };
        let places = [place(&spec.query)?, place(&spec.key)?, place(&spec.value)?];
        let f32 = |array: &Array| convert(array, DataType::F32);
        let cuda = spec.query.array.cuda()?.device();
        let on_tensor_cores = data_type == DataType::Bf16 && is_aligned(spec, &places)?;
        let recorded = recording::pool(cuda.ordinal()).is_some();
        let engine = match on_tensor_cores {
            false => &FFMA,
            true if cuda.capability() == HOPPER && fits_warpgroups(spec) => for_hopper(),
            true => &MMA,
        };
        Ok(Self {
            spec,
            device: cuda,
            element: data_type.into(),
            engine,
            defines: defines(spec, data_type, recorded),
            places,
            key_mask: spec.key_mask.as_ref().map(|mask| mask.cuda(device)).transpose()?,
            pattern: spec.blocks.as_ref().map(|blocks| DevicePattern::new(blocks, device)).transpose()?,
            bias: match &spec.bias {
                BiasSpec::None => None,
                BiasSpec::Dense { values, .. } | BiasSpec::Distance(values) => Some(f32(values)?),
            },
            sink: spec.sink.as_ref().map(f32).transpose()?,
        })
    }

    /// What every kernel reads. The caller sets what a pass writes.
    fn problem(&self) -> Result<Problem> {
        let spec = self.spec;
        let [query, key, value] = &self.places;
        let heads = |place: &Place| Ok::<_, crate::Error>(Heads::new(place.array.cuda()?, place.strides));
        let pointer = |array: &Option<Array>| {
            array.as_ref().map_or(Ok(0), |array| Ok::<_, crate::Error>(array.cuda()?.pointer()))
        };
        let (bias_batch, bias_head) = match spec.bias {
            BiasSpec::Dense { batch, head, .. } => (batch, head),
            BiasSpec::None | BiasSpec::Distance(_) => (0, 0),
        };
        let mut problem = Problem {
            query: heads(query)?,
            key: heads(key)?,
            value: heads(value)?,
            bias: pointer(&self.bias)?,
            bias_batch_stride: bias_batch as i64,
            bias_head_stride: bias_head as i64,
            sink: pointer(&self.sink)?,
            batch: spec.batch as i32,
            heads: spec.heads as i32,
            kv_heads: spec.kv_heads as i32,
            queries: spec.queries as i32,
            keys: spec.keys as i32,
            scale: spec.scale,
            soft_cap: spec.soft_cap.unwrap_or(0.0),
            ..Problem::default()
        };
        if let Some(mask) = &self.key_mask {
            problem.key_mask = mask.view()?.pointer();
        }
        if let (Some(pattern), Some(blocks)) = (&self.pattern, &spec.blocks) {
            problem.pattern = pattern.pointers(blocks)?;
        }
        if let Some(draws) = spec.dropout {
            let key_at = recording::key_place(self.device.ordinal(), draws.key)?;
            problem.dropout = Dropout::new(draws, key_at);
        }
        Ok(problem)
    }

    /// Room for the gradients of query, key and value, or of the one array that holds all three.
    fn projection_gradients(&self, fused: bool) -> Result<Vec<Buffer>> {
        let [query, key, value] = &self.places;
        if fused {
            // Its parts cover it.
            return Ok(vec![self.device.allocate(query.array.len(), self.element)?]);
        }
        let spec = self.spec;
        let one = |place: &Place, written: usize| {
            let len = place.array.len();
            // A cache has room behind its keys and values, whose gradient is 0.
            let zeros = written < len;
            if zeros { self.device.zeros(len, self.element) } else { self.device.allocate(len, self.element) }
        };
        let keys = spec.batch * spec.keys * spec.kv_heads;
        Ok(vec![
            self.device.allocate(query.array.len(), self.element)?,
            one(key, keys * spec.width)?,
            one(value, keys * spec.value_width)?,
        ])
    }

    fn variant(&self, source: &'static Source) -> Variant<'_> {
        Variant { source, defines: &self.defines }
    }

    fn run(&self, source: &'static Source, kernel: &str, grid: Grid, problem: &Problem) -> Result<()> {
        let arguments = [Argument::Bytes(bytemuck::bytes_of(problem))];
        Ok(self.device.launch_variant(self.variant(source), kernel, grid, &arguments)?)
    }

    /// One of the engine's passes.
    fn pass(
        &self,
        source: &'static Source,
        kernel: &str,
        rows: (usize, usize),
        problem: &Problem,
    ) -> Result<()> {
        if !std::ptr::eq(self.engine, &raw const WGMMA) {
            return self.tiled(source, kernel, rows, problem);
        }
        let maps = Maps::new(self.spec, problem)?;
        let arguments = [Argument::Bytes(bytemuck::bytes_of(problem)), Argument::Bytes(maps.as_bytes())];
        // Thread blocks stay on their multiprocessor and take tile after tile.
        let Grid { blocks: (tiles, heads, batch), threads, shared, .. } = self.grid(source, kernel, rows)?;
        let blocks = (tiles * heads * batch).min(self.device.multiprocessors());
        let grid = Grid { blocks: (blocks, 1, 1), threads, shared, early: false };
        Ok(self.device.launch_variant(self.variant(source), kernel, grid, &arguments)?)
    }

    /// A thread block for each tile of rows of each head of each example.
    fn grid(&self, source: &'static Source, kernel: &str, (rows, heads): (usize, usize)) -> Result<Grid> {
        let [threads, shared, tile] = self.shape_of(source, kernel)?;
        Ok(Grid { blocks: (rows.div_ceil(tile), heads, self.spec.batch), threads, shared, early: false })
    }

    /// Threads, shared memory and rows of a thread block, as the kernel's file exports them.
    fn shape_of(&self, source: &'static Source, kernel: &str) -> Result<[usize; 3]> {
        Ok(self.device.constants(self.variant(source), &format!("{kernel}_launch"))?)
    }

    /// A kernel with a thread block for each tile of rows of each head of each example.
    fn tiled(
        &self,
        source: &'static Source,
        kernel: &str,
        rows: (usize, usize),
        problem: &Problem,
    ) -> Result<()> {
        self.run(source, kernel, self.grid(source, kernel, rows)?, problem)
    }

    fn weights(&self, problem: &Problem, block: &WeightsBlock, planes: usize) -> Result<()> {
        let [threads, shared, tile] = self.shape_of(&WEIGHTS, "attention_weights")?;
        let tiles = |count: i32| (count as usize).div_ceil(tile);
        let grid =
            Grid { blocks: (tiles(block.keys), tiles(block.queries), planes), threads, shared, early: false };
        let arguments =
            [Argument::Bytes(bytemuck::bytes_of(problem)), Argument::Bytes(bytemuck::bytes_of(block))];
        Ok(self.device.launch_variant(self.variant(&WEIGHTS), "attention_weights", grid, &arguments)?)
    }

    /// The gradient of the bias, in its form. Needs what the other passes left in the problem's memory.
    fn bias_gradient(&self, mut problem: Problem) -> Result<BiasGradient> {
        let spec = self.spec;
        let Some(bias) = &self.bias else { return Ok(BiasGradient::None) };
        let [threads, shared, tile] = self.shape_of(&BIAS_GRADIENT, "attention_bias_gradient")?;
        let (query_tiles, key_tiles) = (spec.queries.div_ceil(tile), spec.keys.div_ceil(tile));
        let launch = |blocks, problem: &Problem| {
            self.run(
                &BIAS_GRADIENT,
                "attention_bias_gradient",
                Grid { blocks, threads, shared, early: false },
                problem,
            )
        };
        if let BiasSpec::Dense { .. } = spec.bias {
            let out = self.device.allocate(bias.len(), Element::F32)?;
            problem.bias_gradient = out.view().pointer();
            launch((key_tiles, query_tiles, bias.len() / (spec.queries * spec.keys)), &problem)?;
            return Ok(BiasGradient::Dense(out.into()));
        }
        debug_assert_eq!(tile, SIDE);
        let diagonals = query_tiles + key_tiles - 1;
        let parts = self.device.allocate(spec.heads * diagonals * FOLDED, Element::F32)?;
        let total = self.device.allocate(bias.len(), Element::F32)?;
        problem.bias_gradient = parts.view().pointer();
        launch((diagonals, spec.heads, 1), &problem)?;
        let span = spec.queries + spec.keys - 1;
        let grid = Grid { blocks: (span.div_ceil(256), spec.heads, 1), ..Grid::new(1, 256) };
        let arguments = [Argument::Bytes(bytemuck::bytes_of(&problem)), (&total).into()];
        let variant = self.variant(&BIAS_GRADIENT);
        self.device.launch_variant(variant, "attention_distance_gradient", grid, &arguments)?;
        Ok(BiasGradient::Distance(total.into()))
    }
}

/// The macros of a variant: see `problem.cuh`.
fn defines(spec: &Spec, data_type: DataType, recorded: bool) -> String {
    let bias = match spec.bias {
        BiasSpec::None => 0,
        BiasSpec::Dense { .. } => 1,
        BiasSpec::Distance(_) => 2,
    };
    let macros = [
        ("ELEMENT_BF16", usize::from(data_type == DataType::Bf16)),
        ("WIDTH", spec.width),
        ("VALUE_WIDTH", spec.value_width),
        ("CAUSAL", usize::from(spec.causal)),
        ("KEY_MASK", usize::from(spec.key_mask.is_some())),
        ("PATTERN", usize::from(spec.blocks.is_some())),
        ("BIAS", bias),
        ("SOFT_CAP", usize::from(spec.soft_cap.is_some())),
        ("SINK", usize::from(spec.sink.is_some())),
        ("DROPOUT", usize::from(spec.dropout.is_some()) * if recorded { 2 } else { 1 }),
    ];
    macros.map(|(name, value)| format!("-D{name}={value}")).join(" ")
}

/// Whether the kernels on tensor cores can take an attention: rows of 16-byte pieces, up to 256 features.
fn is_aligned(spec: &Spec, places: &[Place; 3]) -> Result<bool> {
    let eights = |value: usize| value.is_multiple_of(8);
    let mut aligned = [spec.width, spec.value_width].into_iter().all(|width| eights(width) && width <= 256);
    for Place { array, strides } in places {
        let Strides { start, batch, head, row } = *strides;
        aligned &=
            array.cuda()?.pointer().is_multiple_of(16) && [start, batch, head, row].into_iter().all(eights);
    }
    Ok(aligned)
}

/// Whether the registers of a warpgroup can hold what an attention needs: see `wgmma.cuh`.
fn fits_warpgroups(spec: &Spec) -> bool {
    spec.blocks.is_none() && spec.soft_cap.is_none() && spec.width.max(spec.value_width) <= 128
}

#[cfg(test)]
mod tests;
