//! The page's server: models and their forward passes, over HTTP on this machine.
//!
//! [`catalogue`] lists the models and [`web`] the files of the page. `pass_cache` keeps forward passes within a limit of memory,
//! `job_queue` runs requests within limits of number and time, `generation` sends sampled tokens one by one, `guard` rejects requests that other sites make,
//! `connections` ends those of clients that stall, `weights` keeps weights from changing under a request, `film` shows a run over time and `live_run` one that this process trains, `routes` and
//! `maps` have one function for each request.

pub mod catalogue;
mod connections;
mod demonstration;
mod description;
mod film;
mod generation;
mod guard;
mod job_queue;
mod live_run;
mod maps;
mod packed;
mod pass_cache;
mod patching;
mod problem;
mod routes;
pub mod web;
mod weights;

pub use description::{Description, describe};
pub use live_run::{Live, LiveRun};
pub use routes::router;

use crate::compute::Placement;
use crate::forward_pass::head_names::HeadNames;
use crate::model::Opened;
use anyhow::{Context as _, Result};
use catalogue::Catalogue;
use job_queue::JobQueue;
use pass_cache::PassCache;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;
use tokio::net::TcpListener;

/// Limits of a server.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The most tokens of a text.
    pub tokens: usize,
    /// The most bytes of a request with a text.
    pub text_bytes: usize,
    /// The most bytes of a request with a picture.
    pub picture_bytes: usize,
    /// The most bytes of cached forward passes.
    pub memory: usize,
    /// How many passes through a model run at once.
    pub passes: usize,
    /// How many other requests are computed at once.
    pub lookups: usize,
    /// How long a request waits for its turn before the server answers that it is busy.
    pub patience: Duration,
    /// How long a request may take.
    pub time: Duration,
    /// How many connections are open at once.
    pub connections: usize,
    /// How long a client may take for the head of a request, and leave a connection idle.
    pub header_time: Duration,
    /// How long a client may take for the body of a request.
    pub body_time: Duration,
    /// How long a client may leave an answer unread.
    pub write_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tokens: 8192,
            text_bytes: 256 << 10,
            picture_bytes: 12 << 20,
            memory: 1 << 30,
            passes: 1,
            lookups: 2,
            patience: Duration::from_secs(3),
            time: Duration::from_secs(120),
            connections: 128,
            header_time: Duration::from_secs(15),
            body_time: Duration::from_secs(30),
            write_time: Duration::from_secs(30),
        }
    }
}

/// The settings of a server.
#[derive(Debug, Clone)]
pub struct ServerSettings {
    /// The address to listen at.
    pub address: IpAddr,
    /// The port; any free one if 0.
    pub port: u16,
    /// Models named at the start.
    pub models: Vec<String>,
    /// Where runs are looked for, and where the demonstration model is trained if there is nothing else.
    pub runs: PathBuf,
    /// Whether models of runs and of the cache are offered too.
    pub search: bool,
    /// Page files from this folder instead of those inside the program.
    pub web: Option<PathBuf>,
    /// A run that this process trains.
    pub watched: Option<LiveRun>,
    /// Where models run.
    pub placement: Placement,
    /// Its limits.
    pub limits: Limits,
}

/// The names of the heads of a model that is open.
pub(crate) type KnownNames = (Weak<Opened>, Arc<HeadNames>);

/// Everything that requests share.
pub struct App {
    pub(crate) catalogue: Catalogue,
    pub(crate) live: Option<LiveRun>,
    pub(crate) passes: PassCache,
    pub(crate) jobs: JobQueue,
    pub(crate) names: Mutex<Vec<KnownNames>>,
    pub(crate) limits: Limits,
    pub(crate) web: Option<PathBuf>,
    pub(crate) address: SocketAddr,
}

/// A server that listens and has not begun to answer.
pub struct Server {
    listener: TcpListener,
    app: Arc<App>,
}

impl Server {
    /// Takes the port. With no model at hand it begins to train the demonstration model.
    pub async fn bind(settings: ServerSettings) -> Result<Self> {
        let ServerSettings { address, port, models, runs, search, web, watched, placement, limits } =
            settings;
        let listener = TcpListener::bind((address, port))
            .await
            .with_context(|| format!("cannot listen at {address} port {port} (another one: --port N)"))?;
        let catalogue = Catalogue::new(models, search.then(|| runs.clone()), placement);
        let live = match watched {
            None if catalogue.list().is_empty() => {
                Some(demonstration::begin(&runs.join(demonstration::NAME))?)
            }
            watched => watched,
        };
        let app = App {
            catalogue,
            live,
            passes: PassCache::new(limits.memory),
            jobs: JobQueue::new(&limits),
            names: Mutex::default(),
            limits,
            web,
            address: listener.local_addr()?,
        };
        Ok(Self { listener, app: Arc::new(app) })
    }

    /// The address it listens at.
    pub fn address(&self) -> SocketAddr {
        self.app.address
    }

    /// Whether it shows a run that this process trains.
    pub fn trains(&self) -> bool {
        self.app.live.as_ref().is_some_and(LiveRun::is_unfinished)
    }

    /// Answers requests until the future ends.
    pub async fn run(self, until: impl Future<Output = ()> + Send + 'static) -> Result<()> {
        let Self { listener, app } = self;
        let limits = app.limits.clone();
        tokio::select! {
            () = connections::accept(listener, router(app), &limits) => {}
            () = until => {}
        }
        Ok(())
    }
}
