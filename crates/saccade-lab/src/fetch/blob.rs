//! One file's content, which may come in several attempts.

use super::{Facts, Hub, plain_etag};
use anyhow::{Context as _, Result, bail, ensure};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use ureq::http::Response;
use ureq::{Body, ResponseExt as _};

/// After so many attempts in a row that brought nothing, there is no use in going on.
const ATTEMPTS: usize = 4;

/// Downloads a file into the blobs of a model, unless it is there.
pub(super) fn download(
    hub: &Hub,
    url: &str,
    model: &Path,
    facts: &Facts,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<PathBuf> {
    let blobs = model.join("blobs");
    let blob = blobs.join(&facts.etag);
    if std::fs::metadata(&blob).is_ok_and(|file| file.len() == facts.size) {
        progress(facts.size, facts.size);
        return Ok(blob);
    }
    std::fs::create_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
    let partial = blobs.join(format!("{}.incomplete", facts.etag));
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&partial)
        .with_context(|| partial.display().to_string())?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another process is downloading it"),
        // Some file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    if file.metadata()?.len() > facts.size {
        file.set_len(0)?;
    }
    let mut failures = 0;
    loop {
        let before = file.seek(SeekFrom::End(0))?;
        if before == facts.size {
            break;
        }
        let outcome = attempt(hub, url, &mut file, before, facts, progress);
        let after = file.seek(SeekFrom::End(0))?;
        failures = if after > before { 0 } else { failures + 1 };
        match outcome {
            Err(Trouble::Fatal(error)) => {
                // What came cannot be trusted, so it must not be continued either.
                file.set_len(0)?;
                return Err(error);
            }
            Err(Trouble::Cut(error)) if failures >= ATTEMPTS => return Err(error),
            _ => {}
        }
    }
    file.sync_all()?;
    std::fs::rename(&partial, &blob)?;
    Ok(blob)
}

/// Why an attempt ended early.
enum Trouble {
    /// The connection: another attempt may bring the rest.
    Cut(anyhow::Error),
    /// The server sends something else than it promised.
    Fatal(anyhow::Error),
}

fn attempt(
    hub: &Hub,
    url: &str,
    file: &mut File,
    from: u64,
    facts: &Facts,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Trouble> {
    let response = hub.ask(url, (from > 0).then_some(from)).map_err(Trouble::Cut)?;
    let start = check(&response, &hub.endpoint, from, facts).map_err(Trouble::Fatal)?;
    let disk = |error: std::io::Error| Trouble::Fatal(error.into());
    file.set_len(start).map_err(disk)?;
    file.seek(SeekFrom::Start(start)).map_err(disk)?;
    let (mut done, mut buffer) = (start, vec![0; 1 << 16]);
    let mut body = response.into_body().into_reader();
    loop {
        progress(done, facts.size);
        let count = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Err(Trouble::Cut(anyhow::anyhow!("the connection broke off ({error})"))),
        };
        done += count as u64;
        if done > facts.size {
            let error = anyhow::anyhow!("the server sends more than the {} bytes it promised", facts.size);
            return Err(Trouble::Fatal(error));
        }
        file.write_all(&buffer[..count]).map_err(disk)?;
    }
    match done == facts.size {
        true => Ok(()),
        false => Err(Trouble::Cut(anyhow::anyhow!("the server sent {done} of {} bytes", facts.size))),
    }
}

/// Where in the file the answer begins.
fn check(response: &Response<Body>, endpoint: &str, from: u64, facts: &Facts) -> Result<u64> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    // A storage elsewhere has ETags of its own.
    let from_hub = response.get_uri().to_string().starts_with(&format!("{endpoint}/"));
    if let Some(etag) = header("etag").filter(|_| from_hub) {
        let same = plain_etag(etag).is_ok_and(|etag| etag == facts.etag);
        ensure!(same, "it changed while it was downloaded; try again");
    }
    match response.status().as_u16() {
        200 => {
            let length = header("content-length").and_then(|length| length.parse::<u64>().ok());
            ensure!(
                length.is_none_or(|length| length == facts.size),
                "the server sends {} bytes, but promised {}",
                length.unwrap_or(0),
                facts.size
            );
            Ok(0)
        }
        206 => {
            let range = header("content-range").unwrap_or_default();
            let expected = format!("bytes {from}-{}/{}", facts.size.saturating_sub(1), facts.size);
            ensure!(range == expected, "the server sends {range:?}, but was asked for {expected:?}");
            Ok(from)
        }
        status => bail!("the server answered with status {status}"),
    }
}
