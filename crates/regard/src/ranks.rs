//! Processes that train one model together, started by `mpirun` or `srun`.
//!
//! MPI starts and connects them; the feature `mpi` of this crate builds it in. Without the feature, or started alone, a
//! process is a group of one.

#[cfg(feature = "mpi")]
mod mpi;

use crate::error::Elsewhere;
use anyhow::{Result, bail};
use regard_nn::train::parallel::{Alone, Group, gather};
use std::sync::OnceLock;

/// Variables in which launchers of MPI programs give the number of processes: Open MPI, MPICH and others, Slurm.
const SIZES: [&str; 3] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"];

/// Variables in which they give the number of a process among those of its machine.
const LOCAL: [&str; 4] = ["OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"];

/// The most that one message of a file has.
const CHUNK: usize = 1 << 27;

/// How many processes the launcher started; 1 without one.
fn started() -> usize {
    let sizes = SIZES.iter().filter_map(|name| std::env::var(name).ok()?.parse().ok());
    sizes.max().unwrap_or(1)
}

/// Which of the GPUs of its machine a process uses: one rank a GPU. Where a launcher shows each process a GPU of its own, the first.
pub fn own_gpu(gpus: usize) -> usize {
    let local = LOCAL.iter().find_map(|name| std::env::var(name).ok()?.parse().ok()).unwrap_or(0);
    if started() > 1 && gpus > 1 { local } else { 0 }
}

/// A group with connections that must be closed.
pub trait Connected: Group {
    /// Closes them, at the end of a program that ended well on all ranks.
    fn leave(&self) {}
}

impl Connected for Alone {}

static GROUP: OnceLock<Box<dyn Connected>> = OnceLock::new();

/// The group of this process. The first call connects to the others.
pub fn group() -> Result<&'static dyn Connected> {
    if GROUP.get().is_none() {
        let group = match started() {
            0 | 1 => Box::new(Alone),
            count => connected(count)?,
        };
        let _ = GROUP.set(group);
    }
    Ok(&**GROUP.get_or_init(|| Box::new(Alone)))
}

/// Whether this process reports to the user: rank 0 does.
pub fn reports() -> bool {
    GROUP.get().is_none_or(|group| group.rank() == 0)
}

/// Closes the connections, if there are any.
pub fn leave() {
    if let Some(group) = GROUP.get() {
        group.leave();
    }
}

#[cfg(feature = "mpi")]
fn connected(_: usize) -> Result<Box<dyn Connected>> {
    Ok(Box::new(mpi::World::join()?))
}

#[cfg(not(feature = "mpi"))]
fn connected(count: usize) -> Result<Box<dyn Connected>> {
    bail!(
        "{count} processes were started together, but this program was built without MPI: install Open MPI or MPICH, then \
         cargo install --path crates/regard --features mpi"
    )
}

/// What came of a step that every rank takes before training: if it failed on one, it fails on all, so that none waits for
/// those that are gone.
pub fn together<T>(group: &dyn Group, result: Result<T>) -> Result<T> {
    if group.ranks() == 1 {
        return result;
    }
    let problem = result.as_ref().err().map(|error| format!("{error:#}")).unwrap_or_default();
    let problems = gather(group, problem.as_bytes())?;
    match problems.iter().enumerate().find(|(_, problem)| !problem.is_empty()) {
        Some(_) if group.rank() > 0 => Err(Elsewhere { stopped: false }.into()),
        None | Some((0, _)) => result,
        Some((rank, problem)) => bail!("rank {rank}: {}", String::from_utf8_lossy(problem)),
    }
}

/// Fails unless a number is the same on all ranks.
pub fn ensure_same(group: &dyn Group, what: &str, number: u64) -> Result<()> {
    let numbers = gather(group, &number.to_le_bytes())?;
    match numbers.iter().position(|other| *other != numbers[0]) {
        Some(rank) => bail!("rank {rank} has other {what} than rank 0"),
        None => Ok(()),
    }
}

/// Files that rank 0 has, on all ranks: the others receive them.
pub fn broadcast(group: &dyn Group, files: &[Vec<u8>]) -> Result<Vec<Vec<u8>>> {
    let lengths: Vec<u8> = files.iter().flat_map(|file| (file.len() as u64).to_le_bytes()).collect();
    let lengths = gather(group, &lengths)?.swap_remove(0);
    let lengths = lengths
        .chunks_exact(8)
        .map(|eight| u64::from_le_bytes(eight.try_into().unwrap_or_default()) as usize);
    let mut received = Vec::new();
    for (number, length) in lengths.enumerate() {
        let mut whole = Vec::with_capacity(length);
        while whole.len() < length {
            let end = length.min(whole.len() + CHUNK);
            let mine = files.get(number).map(|file| file[whole.len()..end].to_vec()).unwrap_or_default();
            whole.extend(group.exchange(vec![mine; group.ranks()])?.swap_remove(0));
        }
        received.push(whole);
    }
    Ok(received)
}
