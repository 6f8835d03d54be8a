//! The page on a run while this process trains it.

use crate::browser;
use crate::commands::serve::runtime;
use crate::compute::Placement;
use crate::run::{Controls, Session};
use crate::server::{Limits, LiveRun, Server, ServerSettings};
use crate::{signals, terminal};
use anyhow::{Result, anyhow};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

/// A page that is served on a thread of its own until the process ends.
pub struct Page {
    address: String,
}

/// Serves the page and opens it in the browser.
pub fn begin(folder: &Path, port: u16, controls: Arc<Controls>, session: &Session) -> Result<Page> {
    let (count, bytes) = session.snapshots();
    if count > 0 {
        let size = (count * bytes).div_ceil(1 << 20);
        terminal::remark(format!("keeps {count} snapshots for the page, {size} MB in all (run.snapshots)"));
    }
    let limits = Limits::default();
    let settings = ServerSettings {
        address: IpAddr::V4(Ipv4Addr::LOCALHOST),
        port,
        models: vec![folder.display().to_string()],
        runs: folder.to_owned(),
        search: false,
        web: None,
        watched: Some(LiveRun { folder: folder.to_owned(), controls }),
        placement: Placement::CPU,
        limits: limits.clone(),
    };
    let (sender, receiver) = channel();
    std::thread::Builder::new().name("page".to_owned()).spawn(move || {
        let runtime = match runtime(&limits) {
            Ok(runtime) => runtime,
            Err(error) => return drop(sender.send(Err(error.into()))),
        };
        runtime.block_on(async move {
            match Server::bind(settings).await {
                Ok(server) => {
                    let _ = sender.send(Ok(format!("http://{}", server.address())));
                    let _ = server.run(std::future::pending()).await;
                }
                Err(error) => drop(sender.send(Err(error))),
            }
        });
    })?;
    let address = receiver.recv().map_err(|_| anyhow!("the page's server ended at once"))??;
    terminal::remark(format!("watch it at {address}"));
    browser::open(&address);
    Ok(Page { address })
}

impl Page {
    /// Keeps the page after the run, until a signal ends the program.
    pub fn stay(self) {
        signals::nothing_to_save();
        terminal::remark(format!("the page stays at {}; press Ctrl-C to end", self.address));
        loop {
            std::thread::sleep(Duration::from_secs(3600));
        }
    }
}
