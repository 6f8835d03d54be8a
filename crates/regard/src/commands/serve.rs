//! `regard serve`: look inside models in the browser.

use crate::browser;
use crate::compute::Compute;
use crate::run::interrupt_flag;
use crate::server::{Limits, Server, ServerSettings};
use crate::terminal;
use anyhow::Result;
use clap::Args;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Look inside models in the browser, on this machine.
///
/// Offers the models given, those in ./runs and those in the Hugging Face cache. If there are none, a small demonstration
/// model is trained while you watch, in less than a minute. Runs with snapshots have a slider over their training.
#[derive(Args)]
#[command(after_help = "Examples:
  regard serve --open
  regard serve gpt2 runs/sentiment-additive --port 9000")]
pub struct Serve {
    /// Run or checkpoint folders, or names in the Hugging Face cache
    models: Vec<String>,
    /// The port
    #[arg(long, value_name = "N", default_value_t = 8420)]
    port: u16,
    /// Open the page in the browser
    #[arg(long)]
    open: bool,
    /// The address to listen at; beyond loopback everyone who reaches it can use the models
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    address: IpAddr,
    /// Offer only the models given
    #[arg(long, requires = "models")]
    only: bool,
    /// The memory for what was read, in MB
    #[arg(long, value_name = "MB", default_value_t = 1024)]
    memory: usize,
    /// Page files from a folder, to work on them
    #[arg(long, value_name = "FOLDER", hide = true)]
    web_dir: Option<PathBuf>,
    #[command(flatten)]
    compute: Compute,
}

impl Serve {
    /// Runs the command.
    pub fn run(self) -> Result<()> {
        // A misspelt name is reported at once, not when it is chosen. The others can be used all the same.
        let mut missing: Vec<_> =
            self.models.iter().filter_map(|model| crate::model::find(model).err()).collect();
        if missing.len() == self.models.len() && !missing.is_empty() {
            return Err(missing.swap_remove(0));
        }
        for error in missing {
            terminal::remark(format!("left out: {error:#}"));
        }
        let limits = Limits { memory: self.memory.saturating_mul(1 << 20), ..Limits::default() };
        let settings = ServerSettings {
            address: self.address,
            port: self.port,
            models: self.models,
            runs: PathBuf::from("runs"),
            search: !self.only,
            web: self.web_dir,
            watched: None,
            placement: self.compute.placement()?,
            limits: limits.clone(),
        };
        runtime(&limits)?.block_on(async move {
            let server = Server::bind(settings).await?;
            let address = format!("http://{}", server.address());
            terminal::line(&address);
            if server.trains() {
                terminal::remark(
                    "there is no model here yet: training a small one, which the page shows live",
                );
            }
            terminal::remark("press Ctrl-C to end");
            if self.open {
                browser::open(&address);
            }
            // Without training there is nothing to lose, and Ctrl-C ends the program as it does any other.
            let stop = server.trains().then(interrupt_flag);
            tokio::select! {
                ended = server.run(std::future::pending()) => ended,
                () = stopped(stop) => Ok(()),
            }
        })
    }
}

/// Few threads: each keeps memory of its own, and no more work than this is let through at once anyway.
pub(super) fn runtime(limits: &Limits) -> std::io::Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(limits.passes + limits.lookups + 1)
        .enable_all()
        .build()
}

/// Waits until Ctrl-C was pressed, and for the training to save what it has.
async fn stopped(flag: Option<Arc<AtomicBool>>) {
    let Some(flag) = flag else { return std::future::pending().await };
    while !flag.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
}
