//! Ranks connected by MPI.
//!
//! One thread makes all calls of MPI. It carries out exchanges, and sends a sign of life to every other rank all the
//! while, so that a rank that hangs is known from one that computes. After a failure it waits for the end of the
//! process: requests of MPI that will never complete must not be dropped.

use crate::terminal;
use anyhow::{Context as _, Result};
use mpi::Threading;
use mpi::point_to_point::Message;
use mpi::request::{Request, StaticScope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, Destination, Equivalence, Source};
use regard_nn::Error;
use regard_nn::tensor::{Device, GpuPeers};
use regard_nn::train::parallel::{Devices, Group, gather};
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Messages that belong to an exchange.
const DATA: i32 = 1;
/// Signs of life.
const ALIVE: i32 = 2;
/// How often a rank shows that it lives.
const BEAT: Duration = Duration::from_secs(2);
/// How long the other ranks wait for rank 0 to save and to report that one is gone. The launcher ends all when the first
/// of them ends.
const SAVING: Duration = Duration::from_secs(10);
/// How long a rank may be silent, in seconds, unless `REGARD_PATIENCE` says otherwise.
const PATIENCE: u64 = 40;

/// How long a rank may be silent.
fn patience() -> Duration {
    static SET: OnceLock<Duration> = OnceLock::new();
    *SET.get_or_init(|| {
        let set = std::env::var("REGARD_PATIENCE").ok().and_then(|text| text.parse().ok());
        Duration::from_secs(set.unwrap_or(PATIENCE))
    })
}

/// An exchange, and who waits for its result.
struct Job {
    pieces: Vec<Vec<u8>>,
    reply: Sender<Result<Vec<Vec<u8>>, String>>,
}

/// All ranks that the launcher started.
pub struct World {
    rank: usize,
    ranks: usize,
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// What is known of a rank that is gone, while no exchange waits for it.
    gone: Arc<Mutex<Option<String>>>,
    /// The GPUs of the ranks, if they are connected.
    gpus: OnceLock<GpuPeers>,
}

impl World {
    /// Joins the other ranks.
    pub fn join() -> Result<Self> {
        let (jobs, queue) = channel();
        let (ready, joined) = channel();
        let gone = Arc::new(Mutex::new(None));
        let seen = Arc::clone(&gone);
        let thread = std::thread::Builder::new().name("ranks".to_owned()).spawn(move || {
            let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
                return;
            };
            let world = universe.world();
            let _ = ready.send((world.rank() as usize, world.size() as usize));
            Connection::new(world).serve(&queue, &seen);
        })?;
        let (rank, ranks) = joined.recv().context("MPI could not be started")?;
        let (jobs, thread) = (Mutex::new(Some(jobs)), Mutex::new(Some(thread)));
        Ok(Self { rank, ranks, jobs, thread, gone, gpus: OnceLock::new() })
    }
}

impl super::Connected for World {
    /// Waits for the other ranks, so that the launcher knows that all ended well.
    fn leave(&self) {
        drop(self.jobs.lock().map(|mut jobs| jobs.take()));
        if let Ok(Some(thread)) = self.thread.lock().map(|mut thread| thread.take()) {
            let _ = thread.join();
        }
    }
}

impl Group for World {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn exchange(&self, pieces: Vec<Vec<u8>>) -> regard_nn::Result<Vec<Vec<u8>>> {
        let closed = || failed("the connection to the other ranks is closed".to_owned());
        let (reply, result) = channel();
        let jobs = self.jobs.lock().ok().and_then(|jobs| jobs.clone()).ok_or_else(closed)?;
        jobs.send(Job { pieces, reply }).map_err(|_| closed())?;
        result.recv().map_err(|_| closed())?.map_err(failed)
    }

    /// Connects the GPUs by NCCL, if every rank has one and NCCL; else gradients go through main memory.
    fn connect(&self, device: Device) -> regard_nn::Result<()> {
        let able = match device {
            Device::Cuda(_) => GpuPeers::ensure_available().map_err(|error| error.to_string()),
            _ => Err(String::new()),
        };
        let problem = able.err();
        let problems = gather(self, problem.as_deref().unwrap_or("able").as_bytes())?;
        if let Some((rank, problem)) = problems.iter().enumerate().find(|(_, said)| said != &b"able") {
            if self.rank == 0 && !problem.is_empty() {
                let problem = String::from_utf8_lossy(problem);
                terminal::remark(format!("gradients go through main memory: rank {rank}: {problem}"));
            }
            return Ok(());
        }
        if self.gpus.get().is_none() {
            let id = if self.rank == 0 { GpuPeers::new_id() } else { Ok(Vec::new()) };
            let first = gather(self, id.as_deref().unwrap_or_default())?.swap_remove(0);
            id?;
            let _ = self.gpus.set(GpuPeers::join(device, &first, self.rank, self.ranks)?);
        }
        Ok(())
    }

    fn devices(&self) -> Option<&dyn Devices> {
        self.gpus.get().map(|gpus| gpus as &dyn Devices)
    }

    fn check(&self) -> regard_nn::Result<()> {
        match self.gone.lock().ok().and_then(|gone| gone.clone()) {
            Some(problem) => Err(failed(problem)),
            None => Ok(()),
        }
    }
}

fn failed(problem: String) -> Error {
    Error::Data { place: "ranks".to_owned(), problem }
}

/// Another rank, as this one sees it.
struct Peer {
    /// Its machine.
    host: String,
    heard: Instant,
    /// What it sent and no exchange has taken yet.
    received: VecDeque<Vec<u8>>,
    /// The last sign of life, if it is still on its way.
    beat: Option<Request<'static, [u8], StaticScope>>,
}

/// The connection to all ranks. Lives on one thread.
struct Connection {
    world: SimpleCommunicator,
    peers: Vec<Peer>,
    beaten: Instant,
    /// Who waits for the current exchange.
    waiting: Option<Sender<Result<Vec<Vec<u8>>, String>>>,
}

impl Connection {
    fn new(world: SimpleCommunicator) -> Self {
        let ranks = world.size() as usize;
        let now = Instant::now();
        let peer = |_| Peer { host: String::new(), heard: now, received: VecDeque::new(), beat: None };
        let peers = (0..ranks).map(peer).collect();
        let mut connection = Self { world, peers, beaten: now, waiting: None };
        let host = mpi::environment::processor_name().unwrap_or_default().into_bytes();
        let hosts = connection.exchange(&vec![host; ranks]);
        for (peer, host) in connection.peers.iter_mut().zip(hosts) {
            peer.host = String::from_utf8_lossy(&host).into_owned();
        }
        connection
    }

    fn serve(&mut self, queue: &Receiver<Job>, gone: &Mutex<Option<String>>) {
        loop {
            match queue.recv_timeout(Duration::from_millis(2)) {
                Ok(Job { pieces, reply }) => {
                    self.waiting = Some(reply);
                    let received = self.exchange(&pieces);
                    if let Some(reply) = self.waiting.take() {
                        let _ = reply.send(Ok(received));
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    self.beat();
                    self.receive();
                    // Reported by the next exchange, or to whoever waits for a GPU meanwhile.
                    if let (Some((_, problem)), Ok(mut gone)) = (self.silent(|_| false), gone.lock()) {
                        *gone = Some(problem);
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return self.finish(),
            }
        }
    }

    /// Sends each rank its piece, and waits for one of each.
    fn exchange(&mut self, pieces: &[Vec<u8>]) -> Vec<Vec<u8>> {
        let me = self.world.rank() as usize;
        let world = SimpleCommunicator::world();
        mpi::request::scope(|scope| {
            let mut sending = Vec::new();
            for (rank, piece) in pieces.iter().enumerate().filter(|(rank, _)| *rank != me) {
                let process = world.process_at_rank(rank as i32);
                sending.push((rank, process.immediate_send_with_tag(scope, &piece[..], DATA)));
            }
            let started = Instant::now();
            loop {
                sending = sending
                    .into_iter()
                    .filter_map(|(rank, request)| Some((rank, request.test().err()?)))
                    .collect();
                self.receive();
                self.beat();
                let complete = |(rank, peer): (usize, &Peer)| rank == me || !peer.received.is_empty();
                if sending.is_empty() && self.peers.iter().enumerate().all(complete) {
                    break;
                }
                self.fail_if_silent(|rank| sending.iter().any(|(to, _)| *to == rank));
                // Answers come within microseconds, or after another rank's computation.
                if started.elapsed() > Duration::from_millis(1) {
                    std::thread::sleep(Duration::from_micros(50));
                } else {
                    std::thread::yield_now();
                }
            }
            let take = |(rank, peer): (usize, &mut Peer)| match rank == me {
                true => pieces[me].clone(),
                false => peer.received.pop_front().unwrap_or_default(),
            };
            self.peers.iter_mut().enumerate().map(take).collect()
        })
    }

    /// Receives whatever has arrived.
    fn receive(&mut self) {
        while let Some((message, status)) = self.world.any_process().immediate_matched_probe() {
            let (rank, tag) = (status.source_rank() as usize, status.tag());
            let length = status.count(u8::equivalent_datatype());
            let bytes = self.take(message, length as usize);
            self.peers[rank].heard = Instant::now();
            if tag == DATA {
                self.peers[rank].received.push_back(bytes);
            }
        }
    }

    fn take(&self, message: Message, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let started = Instant::now();
        mpi::request::scope(|scope| {
            let mut receiving = message.immediate_matched_receive_into(scope, &mut bytes[..]);
            while let Err(request) = receiving.test() {
                receiving = request;
                if started.elapsed() > patience() {
                    self.fail("a message from another rank stays incomplete");
                }
                std::thread::yield_now();
            }
        });
        bytes
    }

    /// Shows the others that this rank lives.
    fn beat(&mut self) {
        if self.beaten.elapsed() < BEAT {
            return;
        }
        self.beaten = Instant::now();
        let me = self.world.rank() as usize;
        for rank in (0..self.peers.len()).filter(|rank| *rank != me) {
            let left = self.peers[rank].beat.take().and_then(|request| request.test().err());
            self.peers[rank].beat = Some(left.unwrap_or_else(|| {
                static BYTE: [u8; 1] = [0];
                self.world.process_at_rank(rank as i32).immediate_send_with_tag(StaticScope, &BYTE[..], ALIVE)
            }));
        }
    }

    /// A rank that was silent for too long, and what to say of it. One that has sent its piece may have ended, unless it has
    /// not taken ours: `waits_for` says which ranks have not.
    fn silent(&self, waits_for: impl Fn(usize) -> bool) -> Option<(usize, String)> {
        let me = self.world.rank() as usize;
        let silent = |(rank, peer): &(usize, &Peer)| {
            let needed = peer.received.is_empty() || waits_for(*rank);
            *rank != me && needed && peer.heard.elapsed() > patience()
        };
        let (rank, peer) = self.peers.iter().enumerate().find(silent)?;
        let (host, seconds) = (&peer.host, patience().as_secs());
        Some((rank, format!("rank {rank} on {host} has not answered for {seconds} seconds")))
    }

    fn fail_if_silent(&self, waits_for: impl Fn(usize) -> bool) {
        if let Some((rank, problem)) = self.silent(waits_for) {
            if self.world.rank() > 0 && rank > 0 {
                std::thread::sleep(SAVING);
            }
            self.fail(&problem);
        }
    }

    /// Reports a failure, and keeps everything as it is until the process ends.
    fn fail(&self, problem: &str) -> ! {
        match &self.waiting {
            Some(reply) => drop(reply.send(Err(problem.to_owned()))),
            None => {
                terminal::remark(format!("error: {problem}"));
                std::process::exit(1);
            }
        }
        loop {
            std::thread::sleep(Duration::from_secs(60));
        }
    }

    /// Completes what is on its way, before MPI ends.
    fn finish(&mut self) {
        let started = Instant::now();
        for rank in 0..self.peers.len() {
            while let Some(request) = self.peers[rank].beat.take() {
                self.peers[rank].beat = request.test().err();
                self.receive();
                if started.elapsed() > patience() {
                    std::process::exit(1);
                }
            }
        }
    }
}
