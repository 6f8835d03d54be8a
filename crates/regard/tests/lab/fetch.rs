//! `regard data fetch`, from a server on loopback.

use crate::checkpoints::made::{regard, text};
use crate::checkpoints::server::{Manner, Server};
use regard::fetch::data::{DataFile, ExpectedHash, fetch_file};
use std::path::Path;
use tempfile::tempdir;

/// A server of one file of a set.
fn serve(name: &str, bytes: &[u8], manner: Manner) -> Server {
    Server::start(vec![(name, bytes.to_vec(), manner)], &[])
}

/// Exit code, output and remarks of a fetch.
fn fetch(server: &str, set: &str, out: Option<&Path>, keep: &Path) -> (i32, String, String) {
    let mut arguments = vec!["data", "fetch", set];
    if let Some(out) = out {
        arguments.extend(["--out", text(out)]);
    }
    let mut command = regard(&arguments);
    command.env("REGARD_DATA", keep).env("REGARD_DATA_MIRROR", format!("{server}/kept"));
    let output = command.output().unwrap();
    let read = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), read(output.stdout), read(output.stderr))
}

fn files(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Not the archive, but a file that differs from what is listed for it is kept: enough to see a download through.
fn archive() -> Vec<u8> {
    (0..40_000_u32).map(|i| (i * i % 251) as u8).collect()
}

#[test]
fn a_set_comes_once_and_is_known_by_its_name() {
    let keep = tempdir().unwrap();
    let server = serve("imdb/aclImdb_v1.tar.gz", &archive(), Manner::Honest);
    let (code, _, remarks) = fetch(&server.address, "imdb", None, keep.path());
    let whole = keep.path().join("imdb/aclImdb_v1.tar.gz");
    assert_eq!(std::fs::read(&whole).unwrap(), archive());
    // It is another file than is listed: whoever trusts it can use it, but nobody is told that all is well.
    assert_eq!((code, remarks.lines().count()), (1, 1), "{remarks}");
    assert!(remarks.contains("SHA-256") && remarks.contains("the file is kept"), "{remarks}");
    assert!(!server.requests().is_empty());
    // What is there is not asked for, whatever it is.
    let (code, path, remarks) = fetch(&server.address, "imdb", None, keep.path());
    assert!(code == 0 && remarks.contains("was there already"), "{remarks}");
    assert_eq!(path.trim(), text(&whole));
    assert!(server.requests().is_empty());
    // The name means the file: it is opened, and found to be none.
    let command = |keep: &Path| {
        let output = regard(&["data", "stats", "imdb"]).env("REGARD_DATA", keep).output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, problem) = command(keep.path());
    assert!(code == Some(1) && problem.contains("aclImdb_v1.tar.gz"), "{problem}");
    let (code, problem) = command(&keep.path().join("elsewhere"));
    assert!(code == Some(1) && problem.contains("regard data fetch imdb"), "{problem}");
}

#[test]
fn a_download_that_breaks_off_goes_on_in_the_same_run_and_in_a_later_one() {
    let keep = tempdir().unwrap();
    let server = serve("imdb/aclImdb_v1.tar.gz", &archive(), Manner::Cuts(9000));
    let (code, _, problem) = fetch(&server.address, "imdb", Some(&keep.path().join("a")), keep.path());
    assert!(code == 1 && problem.contains("the file is kept"), "{problem}");
    assert_eq!(std::fs::read(keep.path().join("a/aclImdb_v1.tar.gz")).unwrap(), archive());
    assert!(server.requests().iter().any(|request| request.contains("Some(9000)")));

    let server = serve("imdb/aclImdb_v1.tar.gz", &archive(), Manner::Honest);
    let folder = keep.path().join("b");
    std::fs::create_dir_all(&folder).unwrap();
    let partial = folder.join(format!("aclImdb_v1.tar.gz.tag-{}.incomplete", archive().len()));
    std::fs::write(&partial, &archive()[..5000]).unwrap();
    assert_eq!(fetch(&server.address, "imdb", Some(&folder), keep.path()).0, 1);
    assert!(server.requests().iter().any(|request| request.contains("Some(5000)")));
    assert_eq!(std::fs::read(folder.join("aclImdb_v1.tar.gz")).unwrap(), archive());
    assert_eq!(files(&folder), ["aclImdb_v1.tar.gz"]);
}

#[test]
fn a_server_that_is_overloaded_costs_nothing_that_came() {
    let keep = tempdir().unwrap();
    let server = serve("imdb/aclImdb_v1.tar.gz", &archive(), Manner::Tires(9000));
    let folder = keep.path().join("a");
    let (code, _, problem) = fetch(&server.address, "imdb", Some(&folder), keep.path());
    assert!(code == 1 && problem.contains("503"), "{problem}");
    let partial = folder.join(format!("aclImdb_v1.tar.gz.tag-{}.incomplete", archive().len()));
    assert_eq!(std::fs::read(partial).unwrap(), archive()[..9000]);
    let server = serve("imdb/aclImdb_v1.tar.gz", &archive(), Manner::Honest);
    fetch(&server.address, "imdb", Some(&folder), keep.path());
    assert!(server.requests().iter().any(|request| request.contains("Some(9000)")));
    assert_eq!(std::fs::read(folder.join("aclImdb_v1.tar.gz")).unwrap(), archive());
}

#[test]
fn what_is_not_the_published_file_is_not_kept() {
    let keep = tempdir().unwrap();
    let server = serve("shakespeare/input.txt", b"First Citizen: no", Manner::Honest);
    let (code, path, problem) = fetch(&server.address, "shakespeare", None, keep.path());
    assert_eq!((code, path.as_str(), problem.lines().count()), (1, "", 1), "{problem}");
    assert!(problem.contains("SHA-256") && problem.contains("by its path"), "{problem}");
    assert!(files(&keep.path().join("shakespeare")).is_empty());
    for manner in [Manner::Lies, Manner::Changes, Manner::Cuts(0)] {
        let server = serve("shakespeare/input.txt", b"First Citizen: no", manner);
        let (code, _, problem) = fetch(&server.address, "shakespeare", None, keep.path());
        assert_eq!((code, problem.lines().count()), (1, 1), "{problem}");
        assert!(!keep.path().join("shakespeare/input.txt").exists());
    }
}

#[test]
fn hashes_are_of_the_file_or_of_what_it_expands_to() {
    // "abc", as FIPS 180-2 has it; and the same as gzip.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    const GZIP: [u8; 23] = [31, 139, 8, 0, 0, 0, 0, 0, 2, 255, 75, 76, 74, 6, 0, 194, 65, 36, 53, 3, 0, 0, 0];
    let folder = tempdir().unwrap();
    let get = |bytes: &[u8], check: ExpectedHash, name: &str| {
        let server = serve("x", bytes, Manner::Honest);
        let url = format!("{}/kept/x", server.address);
        fetch_file(&DataFile { name, url: &url, check }, folder.path(), &mut |_, _, _| {})
    };
    get(b"abc", ExpectedHash::File(ABC), "plain").unwrap();
    get(&GZIP, ExpectedHash::Expanded(ABC), "gzip").unwrap();
    assert!(get(&GZIP, ExpectedHash::File(ABC), "wrong").is_err());
    assert!(get(b"abd", ExpectedHash::Expanded(ABC), "changed").is_err());
    assert!(get(&GZIP[..20], ExpectedHash::Expanded(ABC), "cut").is_err());
    let mut there = files(folder.path());
    there.sort();
    assert_eq!(there, ["gzip", "plain"]);
}

#[test]
fn without_a_network_or_a_file_there_is_one_line_and_a_way_out() {
    let keep = tempdir().unwrap();
    // A port that nobody listens at.
    let (code, _, problem) = fetch("http://127.0.0.1:1", "mnist", None, keep.path());
    assert_eq!((code, problem.lines().count()), (1, 1), "{problem}");
    assert!(
        problem.contains("cannot be reached") && problem.contains("regard train digits --data PATH"),
        "{problem}"
    );
    let server = serve("other", b"x", Manner::Honest);
    let (code, _, problem) = fetch(&server.address, "wikitext2", None, keep.path());
    assert!(code == 1 && problem.contains("status 404") && problem.contains("by its path"), "{problem}");
    let (code, _, problem) = fetch(&server.address, "imbd", None, keep.path());
    assert!(code == 2 && problem.contains("imdb"), "{problem}");
}
