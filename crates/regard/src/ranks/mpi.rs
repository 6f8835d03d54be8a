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
use regard_nn::train::parallel::Group;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Messages that belong to an exchange.
const DATA: i32 = 1;
/// Signs of life.
const ALIVE: i32 = 2;
/// How often a rank shows that it lives.
const BEAT: Duration = Duration::from_secs(2);
/// How long a rank may be silent.
const PATIENCE: Duration = Duration::from_secs(40);

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
}

impl World {
    /// Joins the other ranks.
    pub fn join() -> Result<Self> {
        let (jobs, queue) = channel();
        let (ready, joined) = channel();
        let thread = std::thread::Builder::new().name("ranks".to_owned()).spawn(move || {
            let Some((universe, _)) = mpi::initialize_with_threading(Threading::Funneled) else {
                return;
            };
            let world = universe.world();
            let _ = ready.send((world.rank() as usize, world.size() as usize));
            Connection::new(world).serve(&queue);
        })?;
        let (rank, ranks) = joined.recv().context("MPI could not be started")?;
        Ok(Self { rank, ranks, jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)) })
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
        let failed = |problem: String| Error::Data { place: "ranks".to_owned(), problem };
        let closed = || failed("the connection to the other ranks is closed".to_owned());
        let (reply, result) = channel();
        let jobs = self.jobs.lock().ok().and_then(|jobs| jobs.clone()).ok_or_else(closed)?;
        jobs.send(Job { pieces, reply }).map_err(|_| closed())?;
        result.recv().map_err(|_| closed())?.map_err(failed)
    }
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

    fn serve(&mut self, queue: &Receiver<Job>) {
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
                    // Nothing is wanted now, so a rank that hangs is reported by the next exchange.
                    self.beat();
                    self.receive();
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
                sending.push(process.immediate_send_with_tag(scope, &piece[..], DATA));
            }
            let started = Instant::now();
            loop {
                sending = sending.into_iter().filter_map(|request| request.test().err()).collect();
                self.receive();
                self.beat();
                let complete = |(rank, peer): (usize, &Peer)| rank == me || !peer.received.is_empty();
                if sending.is_empty() && self.peers.iter().enumerate().all(complete) {
                    break;
                }
                self.fail_if_silent();
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
                if started.elapsed() > PATIENCE {
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

    fn fail_if_silent(&self) {
        let me = self.world.rank() as usize;
        let silent = |(rank, peer): &(usize, &Peer)| {
            *rank != me && peer.received.is_empty() && peer.heard.elapsed() > PATIENCE
        };
        if let Some((rank, peer)) = self.peers.iter().enumerate().find(silent) {
            let (host, seconds) = (&peer.host, PATIENCE.as_secs());
            self.fail(&format!("rank {rank} on {host} has not answered for {seconds} seconds"));
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
            std::thread::sleep(PATIENCE);
        }
    }

    /// Completes what is on its way, before MPI ends.
    fn finish(&mut self) {
        let started = Instant::now();
        for rank in 0..self.peers.len() {
            while let Some(request) = self.peers[rank].beat.take() {
                self.peers[rank].beat = request.test().err();
                self.receive();
                if started.elapsed() > PATIENCE {
                    std::process::exit(1);
                }
            }
        }
    }
}
