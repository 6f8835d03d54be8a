//! All code of this program that uses the network: models from Hugging Face's hub into the cache that its Python libraries use, and
//! published [data sets](data).
//!
//! Nothing here runs unless a command that names it is typed. For models, `HF_ENDPOINT` is the server, `HF_TOKEN` (or the token that
//! `hf auth login` saved) identifies the user, and with `HF_HUB_OFFLINE=1` nothing is requested at all. A download that was cut off
//! continues where it ended, in the same run or in a later one.
//!
//! Why not the crate `hf-hub`: its blocking version (0.5) reads neither `HF_TOKEN` nor `HF_HUB_CACHE` nor `HF_HUB_OFFLINE`.

mod blob;
mod choice;
pub mod data;

use crate::cache::{Cache, Name, home, is_commit};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use blob::Remote;
use regard_nn::data::file::write_whole;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;
use ureq::config::RedirectAuthHeaders;
use ureq::http::Response;
use ureq::{Agent, Body};

/// Called with a file's name, the bytes that have arrived, and its size.
pub type ProgressCallback<'a> = dyn FnMut(&str, u64, u64) + 'a;

/// The largest list of files that is read.
const LARGEST_LIST: u64 = 16 << 20;
/// The most redirects of a request.
const MOST_REDIRECTS: usize = 5;

/// The value of an environment variable, if it is set.
fn set(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.trim().is_empty())
}

/// Whether the environment forbids downloads.
pub fn offline() -> bool {
    let value = set("HF_HUB_OFFLINE").unwrap_or_default().to_lowercase();
    ["1", "true", "yes", "on"].contains(&value.as_str())
}

/// A hub.
pub struct Hub {
    endpoint: String,
    token: Option<String>,
    agent: Agent,
}

/// Version and size of a file, from the server.
struct BlobInfo {
    /// Its name among the blobs.
    etag: String,
    size: u64,
}

impl Hub {
    /// The hub that the environment names, or an error if it forbids downloads.
    pub fn from_environment() -> Result<Self> {
        if offline() {
            bail!("HF_HUB_OFFLINE is set: nothing is downloaded");
        }
        let endpoint = set("HF_ENDPOINT").unwrap_or_else(|| "https://huggingface.co".to_owned());
        let saved = || {
            let path =
                set("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(home().ok()?.join("token")))?;
            let small = std::fs::metadata(&path).is_ok_and(|file| file.len() < 10_000);
            if small { std::fs::read_to_string(path).ok() } else { None }
        };
        let token = set("HF_TOKEN").or_else(saved).map(|token| token.trim().to_owned());
        Self::at(&endpoint, token.filter(|token| !token.is_empty()))
    }

    /// A hub at an address.
    pub fn at(endpoint: &str, token: Option<String>) -> Result<Self> {
        let endpoint = endpoint.trim().trim_end_matches('/').to_owned();
        ensure!(
            endpoint.starts_with("https://") || endpoint.starts_with("http://"),
            "HF_ENDPOINT is {endpoint:?}; an address that begins with https:// was expected"
        );
        ensure!(
            token.as_ref().is_none_or(|token| token.bytes().all(|byte| byte.is_ascii_graphic())),
            "the token has characters that no token has"
        );
        Ok(Self { endpoint, token, agent: agent() })
    }

    /// Downloads what is needed of a model and is not there yet; returns the folder that has it.
    pub fn pull(&self, cache: &Cache, name: &Name, progress: &mut ProgressCallback) -> Result<PathBuf> {
        let (commit, files) = self.list(name)?;
        let model = cache.model(name);
        let snapshot = model.join("snapshots").join(&commit);
        std::fs::create_dir_all(&snapshot).with_context(|| snapshot.display().to_string())?;
        let mut get = |file: &str| -> Result<PathBuf> {
            let url = format!("{}/{name}/resolve/{commit}/{file}", self.endpoint);
            let info = self.info(&url).with_context(|| format!("{name}: {file}"))?;
            let blob = self
                .blob(&url, &model, &info, &mut |done, total| progress(file, done, total))
                .with_context(|| format!("{name}: {file}"))?;
            link(&blob, &snapshot.join(file)).with_context(|| format!("{name}: {file}"))
        };
        for file in choice::first(name, &files)? {
            get(&file)?;
        }
        for file in choice::weights(name, &files, &snapshot)? {
            get(&file)?;
        }
        let refs = model.join("refs");
        std::fs::create_dir_all(&refs).with_context(|| refs.display().to_string())?;
        write_whole(&refs.join("main"), |file| file.write_all(commit.as_bytes()))?;
        Ok(snapshot)
    }

    /// Downloads a file into the blobs of a model, unless it is there.
    fn blob(
        &self,
        url: &str,
        model: &Path,
        info: &BlobInfo,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<PathBuf> {
        let blobs = model.join("blobs");
        let blob = blobs.join(&info.etag);
        if std::fs::metadata(&blob).is_ok_and(|file| file.len() == info.size) {
            progress(info.size, info.size);
            return Ok(blob);
        }
        std::fs::create_dir_all(&blobs).with_context(|| blobs.display().to_string())?;
        let partial = blobs.join(format!("{}.incomplete", info.etag));
        let own = format!("{}/", self.endpoint);
        let request = |from| self.request(url, from);
        let remote = Remote { request: &request, version: Some((&own, &info.etag)), size: info.size };
        blob::download(&remote, &partial, progress)?;
        std::fs::rename(&partial, &blob)?;
        Ok(blob)
    }

    /// The commit that `main` means, and the names of its files.
    fn list(&self, name: &Name) -> Result<(String, BTreeSet<String>)> {
        let url = format!("{}/api/models/{name}/revision/main", self.endpoint);
        let mut response = self.request(&url, None)?;
        self.ensure_found(&response, name)?;
        let wrong = || format!("{url} did not answer with a list of files");
        let bytes =
            response.body_mut().with_config().limit(LARGEST_LIST).read_to_vec().with_context(wrong)?;
        let answer: Value = serde_json::from_slice(&bytes).with_context(wrong)?;
        let commit = answer.get("sha").and_then(Value::as_str).filter(|commit| is_commit(commit));
        let commit = commit.with_context(wrong)?.to_owned();
        let siblings = answer.get("siblings").and_then(Value::as_array).with_context(wrong)?;
        let file = |sibling: &Value| Some(sibling.get("rfilename")?.as_str()?.to_owned());
        Ok((commit, siblings.iter().filter_map(file).collect()))
    }

    fn ensure_found(&self, response: &Response<Body>, name: &Name) -> Result<()> {
        let endpoint = &self.endpoint;
        match response.status().as_u16() {
            200 => Ok(()),
            // The hub does not reveal to strangers which private models exist.
            401 | 403 | 404 if self.token.is_none() => {
                bail!("{endpoint} has no model {name}, or only for some people; for those, set HF_TOKEN")
            }
            401 | 403 => bail!("{endpoint} does not give {name} to the owner of this token"),
            404 => bail!("{endpoint} has no model {name}"),
            status => bail!("{endpoint} answered with status {status} for {name}"),
        }
    }

    /// A request for all of an address, or for what comes after its first bytes.
    fn request(&self, url: &str, from: Option<u64>) -> Result<Response<Body>> {
        let mut request = self.agent.get(url);
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if let Some(from) = from {
            request = request.header("Range", format!("bytes={from}-"));
        }
        request.call().map_err(|error| explain(&self.endpoint, &error))
    }

    /// Asks for a file's info, without following it to wherever large files are kept.
    fn info(&self, url: &str) -> Result<BlobInfo> {
        let mut url = url.to_owned();
        for _ in 0..MOST_REDIRECTS {
            let mut request =
                self.agent.head(&url).config().max_redirects(0).max_redirects_will_error(false).build();
            if let Some(token) = &self.token {
                request = request.header("Authorization", format!("Bearer {token}"));
            }
            let response = request.call().map_err(|error| explain(&self.endpoint, &error))?;
            let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
            let known = |etag: Option<&str>, size: Option<&str>| -> Result<BlobInfo> {
                let etag = etag.context("the server does not send a version (no ETag)")?;
                let size = size.and_then(|size| size.parse().ok());
                Ok(BlobInfo {
                    etag: plain_etag(etag)?,
                    size: size.context("the server does not send its size")?,
                })
            };
            let linked = header("x-linked-etag").zip(header("x-linked-size"));
            let elsewhere =
                header("location").filter(|place| place.starts_with('/') && !place.starts_with("//"));
            match (response.status().as_u16(), linked, elsewhere) {
                (200..400, Some((etag, size)), _) => return known(Some(etag), Some(size)),
                // Another place on the same server; the headers of this answer are not about the file.
                (300..400, None, Some(place)) => url = format!("{}{place}", self.endpoint),
                (200, None, _) => return known(header("etag"), header("content-length")),
                (status, _, _) => bail!("the server answered with status {status}"),
            }
        }
        bail!("the server sends the question elsewhere again and again")
    }
}

/// How long this program waits, and what it calls itself.
fn agent() -> Agent {
    Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(60)))
        .timeout_per_read(Some(Duration::from_secs(60)))
        .redirect_auth_headers(RedirectAuthHeaders::SameHost)
        .user_agent(concat!("regard/", env!("CARGO_PKG_VERSION")))
        .build()
        .into()
}

/// One line about a failed request.
fn explain(server: &str, error: &ureq::Error) -> anyhow::Error {
    match error {
        ureq::Error::HostNotFound
        | ureq::Error::ConnectionFailed
        | ureq::Error::Io(_)
        | ureq::Error::Timeout(_) => {
            anyhow!("{server} cannot be reached ({error}); is there a network?")
        }
        other => anyhow!("{server}: {other}"),
    }
}

/// An ETag as the name of a file.
fn plain_etag(etag: &str) -> Result<String> {
    let bare = etag.trim().trim_start_matches("W/").trim_matches('"');
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    ensure!(
        (1..=128).contains(&bare.len()) && bare.bytes().all(plain),
        "the server's ETag {bare:?} cannot be the name of a file"
    );
    Ok(bare.to_owned())
}

/// Gives a blob its name in a snapshot: a link, or a copy where there are no links.
fn link(blob: &Path, name: &Path) -> Result<PathBuf> {
    if name.symlink_metadata().is_ok() {
        std::fs::remove_file(name)?;
    }
    #[cfg(unix)]
    {
        let file = blob.file_name().context("a blob has a name")?;
        std::os::unix::fs::symlink(Path::new("../../blobs").join(file), name)?;
    }
    #[cfg(not(unix))]
    std::fs::copy(blob, name)?;
    Ok(name.to_owned())
}
