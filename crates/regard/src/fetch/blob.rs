//! One file's content, which may come in several attempts.

use super::plain_etag;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use ureq::http::Response;
use ureq::{Body, ResponseExt as _};

/// After so many attempts in a row that brought nothing, there is no use in going on.
const ATTEMPTS: usize = 4;

/// A remote file, and how to request it.
pub(super) struct Remote<'a> {
    /// Asks for all of it, or for what comes after its first bytes.
    pub request: &'a dyn Fn(Option<u64>) -> Result<Response<Body>>,
    /// Which version it is, as the server whose address begins so calls it. A storage elsewhere has ETags of its own.
    pub version: Option<(&'a str, &'a str)>,
    /// Its size.
    pub size: u64,
}

/// Downloads a file under a name that is not yet its own, from where an earlier attempt ended.
pub(super) fn download(remote: &Remote, partial: &Path, progress: &mut dyn FnMut(u64, u64)) -> Result<()> {
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(partial)
        .with_context(|| partial.display().to_string())?;
    match file.try_lock() {
        Err(TryLockError::WouldBlock) => bail!("another process is downloading it"),
        // Some file systems have no locks.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    if file.metadata()?.len() > remote.size {
        file.set_len(0)?;
    }
    let mut failures = 0;
    loop {
        let before = file.seek(SeekFrom::End(0))?;
        if before == remote.size {
            break;
        }
        let outcome = attempt(remote, &mut file, before, progress);
        let after = file.seek(SeekFrom::End(0))?;
        failures = if after > before { 0 } else { failures + 1 };
        match outcome {
            Err(Trouble::Fatal(error)) => {
                // What came cannot be trusted, so it must not be continued either.
                file.set_len(0)?;
                return Err(error);
            }
            Err(Trouble::Cut(error)) if failures >= ATTEMPTS => return Err(error),
            Err(Trouble::Disk(error)) => return Err(error),
            _ => {}
        }
    }
    Ok(file.sync_all()?)
}

/// Why an attempt ended early.
enum Trouble {
    /// The connection: another attempt may bring the rest.
    Cut(anyhow::Error),
    /// Our own disk: what came so far can be continued once there is room again.
    Disk(anyhow::Error),
    /// The server sends something else than it promised.
    Fatal(anyhow::Error),
}

fn attempt(
    remote: &Remote,
    file: &mut File,
    from: u64,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<(), Trouble> {
    let response = (remote.request)((from > 0).then_some(from)).map_err(Trouble::Cut)?;
    let status = response.status();
    if status.as_u16() == 429 || status.is_server_error() {
        return Err(Trouble::Cut(anyhow::anyhow!("the server answers {status}")));
    }
    let start = check(&response, from, remote).map_err(Trouble::Fatal)?;
    let disk = |error: std::io::Error| Trouble::Disk(error.into());
    file.set_len(start).map_err(disk)?;
    file.seek(SeekFrom::Start(start)).map_err(disk)?;
    let (mut done, mut buffer) = (start, vec![0; 1 << 16]);
    let mut body = response.into_body().into_reader();
    loop {
        progress(done, remote.size);
        let count = match body.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) => return Err(Trouble::Cut(anyhow::anyhow!("the connection broke off ({error})"))),
        };
        done += count as u64;
        if done > remote.size {
            let error = anyhow::anyhow!("the server sends more than the {} bytes it promised", remote.size);
            return Err(Trouble::Fatal(error));
        }
        file.write_all(&buffer[..count]).map_err(disk)?;
    }
    match done == remote.size {
        true => Ok(()),
        false => Err(Trouble::Cut(anyhow::anyhow!("the server sent {done} of {} bytes", remote.size))),
    }
}

/// Where in the file the answer begins.
fn check(response: &Response<Body>, from: u64, remote: &Remote) -> Result<u64> {
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let address = response.get_uri().to_string();
    let known = remote.version.filter(|(server, _)| address.starts_with(server));
    if let Some((etag, (_, version))) = header("etag").zip(known) {
        let same = plain_etag(etag).is_ok_and(|etag| etag == version);
        ensure!(same, "it changed while it was downloaded; try again");
    }
    match response.status().as_u16() {
        200 => {
            let length = header("content-length").and_then(|length| length.parse::<u64>().ok());
            ensure!(
                length.is_none_or(|length| length == remote.size),
                "the server sends {} bytes, but promised {}",
                length.unwrap_or(0),
                remote.size
            );
            Ok(0)
        }
        206 => {
            let range = header("content-range").unwrap_or_default();
            let expected = format!("bytes {from}-{}/{}", remote.size.saturating_sub(1), remote.size);
            ensure!(range == expected, "the server sends {range:?}, but the request was for {expected:?}");
            Ok(from)
        }
        status => bail!("the server answered with status {status}"),
    }
}
