//! Published data sets: where they are, how they are known to be whole, and where they are kept.
//!
//! `REGARD_DATA` names the folder that keeps them, one folder a set; else it is `regard/data` in the user's folder for
//! caches. `REGARD_DATA_MIRROR` names a server that has the same files as `SET/FILE`, for where the originals cannot be
//! reached. A file that is in the folder already is taken as it is: the user put it there.

use super::blob::{self, Remote};
use super::{agent, explain, plain_etag};
use anyhow::{Context as _, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use regard_nn::data::file::InputFile;
use sha2::{Digest as _, Sha256};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use ureq::Agent;

/// A data set that can be downloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Set {
    /// 50,000 film reviews (Maas et al., 2011), 84 MB
    Imdb,
    /// Tiny Shakespeare, 1 MB of plays
    Shakespeare,
    /// WikiText-2 (Merity et al., 2016), 13 MB of articles, words between spaces
    Wikitext2,
    /// 70,000 handwritten digits (LeCun et al., 1998), 12 MB
    Mnist,
}

/// A file of a data set.
pub struct DataFile<'a> {
    /// Its name in the folder.
    pub name: &'a str,
    /// Its published address.
    pub url: &'a str,
    /// Its expected hash.
    pub check: ExpectedHash<'a>,
}

/// A SHA-256, in hexadecimal digits, and what it is of.
#[derive(Debug, Clone, Copy)]
pub enum ExpectedHash<'a> {
    /// Of the file. Anything else is rejected.
    File(&'a str),
    /// Of what a gzip file expands to, whatever compressed it. Anything else is rejected.
    Expanded(&'a str),
    /// Of the file, as several projects list it, but without the original at hand to confirm it: another is a failure, but
    /// kept for users who trust it.
    Listed(&'a str),
}

const fn part<'a>(name: &'a str, url: &'a str, check: ExpectedHash<'a>) -> DataFile<'a> {
    DataFile { name, url, check }
}

impl Set {
    /// Its name at the command line.
    pub fn name(self) -> &'static str {
        match self {
            Set::Imdb => "imdb",
            Set::Shakespeare => "shakespeare",
            Set::Wikitext2 => "wikitext2",
            Set::Mnist => "mnist",
        }
    }

    /// Its files.
    pub fn parts(self) -> Vec<DataFile<'static>> {
        use ExpectedHash::{Expanded, File, Listed};
        match self {
            Set::Imdb => vec![part(
                "aclImdb_v1.tar.gz",
                "https://ai.stanford.edu/~amaas/data/sentiment/aclImdb_v1.tar.gz",
                Listed("c40f74a18d3b61f90feba1e17730e0d38e8b97c05fde7008942e91923d1658fe"),
            )],
            Set::Shakespeare => vec![part(
                "input.txt",
                "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt",
                File("86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"),
            )],
            Set::Wikitext2 => vec![
                part(
                    "train.txt",
                    "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/train.txt",
                    Listed("9e9fa1ad55b1c2c95b08e37dd8e653f638fac2c6de904b79e813611eefbc985f"),
                ),
                part(
                    "valid.txt",
                    "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/valid.txt",
                    File("f0737ed31fc1329026e95cb8b98e19c2a182c39c240ab909dc31abf2f8af58e8"),
                ),
                part(
                    "test.txt",
                    "https://raw.githubusercontent.com/pytorch/examples/main/word_language_model/data/wikitext-2/test.txt",
                    File("d790b833ef8cf03a90db7bf1271b7520b83c45ce07ba3c1a9699df81e239eca0"),
                ),
            ],
            Set::Mnist => vec![
                part(
                    "train-images-idx3-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
                    Expanded("ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
                ),
                part(
                    "train-labels-idx1-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
                    Expanded("65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
                ),
                part(
                    "t10k-images-idx3-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
                    Expanded("0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
                ),
                part(
                    "t10k-labels-idx1-ubyte.gz",
                    "https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
                    Expanded("ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
                ),
            ],
        }
    }

    /// The path for commands that take data: the file, if there is one, else the folder.
    pub fn path(self, folder: &Path) -> PathBuf {
        match self.parts().as_slice() {
            [one] => folder.join(one.name),
            _ => folder.to_owned(),
        }
    }

    /// A command that uses it.
    pub fn example(self) -> &'static str {
        match self {
            Set::Imdb => "regard train sentiment-heads --data",
            Set::Shakespeare => "regard train shakespeare-char --data",
            Set::Wikitext2 => "regard train words-gpt --data",
            Set::Mnist => "regard train digits --data",
        }
    }

    /// Whether all of its files are in a folder.
    pub fn is_in(self, folder: &Path) -> bool {
        self.parts().iter().all(|part| folder.join(part.name).is_file())
    }
}

/// The folder that keeps a set.
pub fn folder(set: Set) -> Result<PathBuf> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = named("REGARD_DATA") {
        return Ok(folder.join(set.name()));
    }
    let caches = named("XDG_CACHE_HOME").or_else(|| Some(std::env::home_dir()?.join(".cache")));
    let caches = caches.context("there is no home folder; set REGARD_DATA or --out")?;
    Ok(caches.join("regard/data").join(set.name()))
}

/// The path of a `--data` argument: the argument itself, or the folder of a downloaded set of that name.
pub fn named(argument: &str) -> Result<String> {
    let set = Set::value_variants().iter().copied().find(|set| set.name() == argument);
    let Some(set) = set.filter(|_| !Path::new(argument).exists()) else { return Ok(argument.to_owned()) };
    let folder = folder(set)?;
    match set.is_in(&folder) {
        true => Ok(set.path(&folder).display().to_string()),
        false => bail!(
            "{argument} is neither here nor downloaded: regard data fetch {argument}, or give the path of a copy"
        ),
    }
}

/// Downloads the files of a set that are not there yet.
pub fn fetch(set: Set, folder: &Path, progress: &mut super::ProgressCallback) -> Result<()> {
    let mirror = std::env::var("REGARD_DATA_MIRROR").ok().filter(|mirror| !mirror.trim().is_empty());
    let mut problem = None;
    for part in set.parts() {
        let url = match &mirror {
            Some(mirror) => format!("{}/{}/{}", mirror.trim().trim_end_matches('/'), set.name(), part.name),
            None => part.url.to_owned(),
        };
        let part = DataFile { url: &url, ..part };
        if let Err(error) = fetch_file(&part, folder, progress) {
            let (name, example) = (set.name(), set.example());
            problem.get_or_insert_with(|| {
                anyhow!(
                    "{name}: {error:#}; a copy of yours can be used as it is, by its path: {example} PATH"
                )
            });
            // A file that is kept although it differs is no reason to go without the others.
            if !folder.join(part.name).is_file() {
                break;
            }
        }
    }
    problem.map_or(Ok(()), Err)
}

/// Downloads one file, checks it, and gives it its name; what is there already is left alone.
pub fn fetch_file(part: &DataFile, folder: &Path, progress: &mut super::ProgressCallback) -> Result<()> {
    let whole = folder.join(part.name);
    if whole.is_file() {
        return Ok(());
    }
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let agent = agent();
    let remote = remote_file(&agent, part.url).with_context(|| part.url.to_owned())?;
    let version = remote.etag.as_deref().unwrap_or("unknown");
    let partial = folder.join(format!("{}.{version}.incomplete", part.name));
    let request = |from: Option<u64>| {
        let request = agent.get(part.url);
        let request = match from {
            Some(from) => request.header("Range", format!("bytes={from}-")),
            None => request,
        };
        request.call().map_err(|error| explain(server(part.url), &error))
    };
    let own = server(part.url);
    let remote = Remote {
        request: &request,
        version: remote.etag.as_deref().map(|etag| (own, etag)),
        size: remote.size,
    };
    blob::download(&remote, &partial, &mut |done, total| progress(part.name, done, total))
        .with_context(|| part.url.to_owned())?;
    let keep = || std::fs::rename(&partial, &whole).with_context(|| whole.display().to_string());
    let differs = match difference(&partial, part) {
        Ok(None) => return keep(),
        Ok(Some(differs)) if matches!(part.check, ExpectedHash::Listed(_)) => {
            keep()?;
            bail!("{differs}, as others list it; the file is kept as {}", whole.display());
        }
        Ok(Some(differs)) => differs,
        Err(error) => format!("{}: {error:#}", part.url),
    };
    // It must not be taken for a beginning of the right one.
    let _ = std::fs::remove_file(&partial);
    bail!("{differs}: it was changed or damaged on the way, and is not kept")
}

/// Version and size of a file, from the server.
struct RemoteFile {
    etag: Option<String>,
    size: u64,
}

fn remote_file(agent: &Agent, url: &str) -> Result<RemoteFile> {
    ensure!(
        url.starts_with("https://") || url.starts_with("http://"),
        "an address that begins with https:// was expected"
    );
    let response = agent.head(url).call().map_err(|error| explain(server(url), &error))?;
    let status = response.status().as_u16();
    ensure!(status == 200, "the server answered with status {status}");
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let size = header("content-length").and_then(|size| size.parse().ok());
    Ok(RemoteFile {
        etag: header("etag").and_then(|etag| plain_etag(etag).ok()),
        size: size.context("the server does not send its size")?,
    })
}

/// The server of an address.
fn server(url: &str) -> &str {
    let rest = url.find("://").map_or(0, |at| at + 3);
    let end = url[rest..].find('/').map_or(url.len(), |at| rest + at);
    &url[..end]
}

/// In what a file differs from what it should be.
fn difference(path: &Path, part: &DataFile) -> Result<Option<String>> {
    let (found, expected) = match part.check {
        ExpectedHash::File(expected) | ExpectedHash::Listed(expected) => {
            (sha256(std::fs::File::open(path)?)?, expected)
        }
        ExpectedHash::Expanded(expected) => (sha256(Expanded(InputFile::open(path)?))?, expected),
    };
    let differs = || format!("{}: its SHA-256 is {found}, expected was {expected}", part.url);
    Ok((found != expected).then(differs))
}

/// A file as its reader expands it.
struct Expanded(InputFile);

impl std::io::Read for Expanded {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.0.fill(buffer).map_err(std::io::Error::other)
    }
}

fn sha256(mut content: impl std::io::Read) -> Result<String> {
    let (mut digest, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match content.read(&mut buffer)? {
            0 => break,
            count => digest.update(&buffer[..count]),
        }
    }
    let mut hexadecimal = String::new();
    for byte in digest.finalize() {
        let _ = write!(hexadecimal, "{byte:02x}");
    }
    Ok(hexadecimal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_the_published_one() {
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(sha256(&b"abc"[..]).unwrap(), abc);
    }

    #[test]
    fn every_part_has_a_sound_address_and_hash() {
        for set in Set::value_variants() {
            for part in set.parts() {
                assert!(part.url.starts_with("https://") && part.url.ends_with(part.name), "{}", part.url);
                let (ExpectedHash::File(hash) | ExpectedHash::Expanded(hash) | ExpectedHash::Listed(hash)) =
                    part.check;
                assert!(hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hash}");
            }
        }
    }

    #[test]
    fn servers_and_paths_are_distinguished() {
        assert_eq!(server("https://a.b/c/d"), "https://a.b");
        assert_eq!(server("http://127.0.0.1:80"), "http://127.0.0.1:80");
    }
}
