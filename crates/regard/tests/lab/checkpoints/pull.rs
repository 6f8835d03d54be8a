//! `regard pull`, from a server on loopback.

use super::made::{gpt, regard, text};
use super::server::{COMMIT, Manner, Server};
use std::path::{Path, PathBuf};
use tempfile::tempdir;

/// The files of a model.
fn files(folder: &Path, manner: Manner) -> Vec<(&'static str, Vec<u8>, Manner)> {
    gpt(folder, 1);
    let read = |name: &'static str, manner| (name, std::fs::read(folder.join(name)).unwrap(), manner);
    vec![
        read("config.json", Manner::Honest),
        read("tokenizer.json", Manner::Honest),
        read("model.safetensors", manner),
    ]
}

/// Exit code, output and complaint of a pull.
fn pull(server: &str, home: &Path, name: &str, more: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = regard(&["pull", name]);
    command.env("HF_HOME", home).env("HF_ENDPOINT", server).envs(more.iter().copied());
    let output = command.output().unwrap();
    let read = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), read(output.stdout), read(output.stderr))
}

fn model_folder(home: &Path) -> PathBuf {
    home.join("hub/models--owner--tiny")
}

#[test]
fn a_model_comes_into_the_shared_cache_once() {
    let folder = tempdir().unwrap();
    let (made, home) = (folder.path().join("made"), folder.path().join("home"));
    let server = Server::start(files(&made, Manner::Honest), &["pytorch_model.bin", "README.md", "../evil"]);
    let (code, output, problem) = pull(&server.address, &home, "owner/tiny", &[("HF_TOKEN", "hf_secret")]);
    assert_eq!(code, 0, "{problem}");
    let snapshot = model_folder(&home).join("snapshots").join(COMMIT);
    assert_eq!(output.trim(), text(&snapshot));
    for name in ["config.json", "tokenizer.json", "model.safetensors"] {
        assert_eq!(std::fs::read(snapshot.join(name)).unwrap(), std::fs::read(made.join(name)).unwrap());
        #[cfg(unix)]
        assert!(std::fs::read_link(snapshot.join(name)).unwrap().starts_with("../../blobs"));
    }
    assert_eq!(std::fs::read_to_string(model_folder(&home).join("refs/main")).unwrap(), COMMIT);
    let requests = server.requests();
    assert!(requests.iter().all(|request| request.ends_with("Bearer hf_secret")), "{requests:?}");
    assert!(!requests.iter().any(|request| request.contains("pytorch") || request.contains("README")));

    // What is there can be had without asking anyone.
    let offline = pull("http://127.0.0.1:9", &home, "owner/tiny", &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!((offline.0, offline.1.trim()), (0, text(&snapshot)), "{}", offline.2);
    // What is there is not downloaded again, and the name means the folder.
    assert_eq!(pull(&server.address, &home, "owner/tiny", &[]).0, 0);
    assert!(!server.requests().iter().any(|request| request.starts_with("GET /owner")));
    let spoken = |model: &str| {
        let mut command = regard(&["generate", model, "The cat", "--greedy", "-n", "5"]);
        command.env("HF_HOME", &home).assert().success().get_output().stdout.clone()
    };
    assert_eq!(spoken("owner/tiny"), spoken(text(&made)));
}

#[test]
fn a_connection_that_breaks_is_taken_up_again() {
    let folder = tempdir().unwrap();
    let (made, home) = (folder.path().join("made"), folder.path().join("home"));
    let served = files(&made, Manner::Cuts(9000));
    let size = served[2].1.len();
    let server = Server::start(served, &[]);
    let (code, _, problem) = pull(&server.address, &home, "owner/tiny", &[]);
    assert_eq!(code, 0, "{problem}");
    let fetched = model_folder(&home).join("snapshots").join(COMMIT).join("model.safetensors");
    assert_eq!(std::fs::read(fetched).unwrap(), std::fs::read(made.join("model.safetensors")).unwrap());
    let resumed: Vec<String> =
        server.requests().into_iter().filter(|request| request.contains("Some(")).collect();
    assert_eq!(resumed.len(), size.div_ceil(9000) - 1);
    assert!(resumed[0].contains("Some(9000)"), "{resumed:?}");
}

#[test]
fn a_later_run_goes_on_where_one_ended() {
    for manner in [Manner::Honest, Manner::Whole] {
        let folder = tempdir().unwrap();
        let (made, home) = (folder.path().join("made"), folder.path().join("home"));
        let served = files(&made, manner);
        let whole = served[2].1.clone();
        let blobs = model_folder(&home).join("blobs");
        std::fs::create_dir_all(&blobs).unwrap();
        let partial = blobs.join(format!("tag-{}.incomplete", whole.len()));
        // A server without ranges begins anew, so that even another beginning does no harm.
        let beginning = if manner == Manner::Whole { vec![7; 5000] } else { whole[..5000].to_vec() };
        std::fs::write(&partial, beginning).unwrap();
        let server = Server::start(served, &[]);
        let (code, _, problem) = pull(&server.address, &home, "owner/tiny", &[]);
        assert_eq!(code, 0, "{problem}");
        assert!(server.requests().iter().any(|request| request.contains("Some(5000)")));
        let fetched = model_folder(&home).join("snapshots").join(COMMIT).join("model.safetensors");
        assert_eq!(std::fs::read(fetched).unwrap(), whole);
        assert!(!partial.exists());
    }
}

#[test]
fn what_a_server_gets_wrong_never_becomes_a_model() {
    for (manner, expected) in [
        (Manner::Lies, "promised"),
        (Manner::Changes, "it changed while it was downloaded"),
        (Manner::Cuts(0), "the connection broke off"),
    ] {
        let folder = tempdir().unwrap();
        let (made, home) = (folder.path().join("made"), folder.path().join("home"));
        let server = Server::start(files(&made, manner), &[]);
        let (code, _, problem) = pull(&server.address, &home, "owner/tiny", &[]);
        assert_eq!((code, problem.lines().count()), (1, 1), "{problem}");
        assert!(problem.contains(expected) && problem.contains("model.safetensors"), "{problem}");
        assert!(!model_folder(&home).join("refs/main").exists());
        assert!(!model_folder(&home).join("snapshots").join(COMMIT).join("model.safetensors").exists());
    }
}

#[test]
fn files_may_be_kept_elsewhere_but_tokens_stay_here() {
    for manner in [Manner::Stored, Manner::Moved] {
        let folder = tempdir().unwrap();
        let (made, home) = (folder.path().join("made"), folder.path().join("home"));
        let server = Server::start(files(&made, manner), &[]);
        let (code, _, problem) = pull(&server.address, &home, "owner/tiny", &[("HF_TOKEN", "hf_secret")]);
        assert_eq!(code, 0, "{problem}");
        let fetched = model_folder(&home).join("snapshots").join(COMMIT).join("model.safetensors");
        assert_eq!(std::fs::read(fetched).unwrap(), std::fs::read(made.join("model.safetensors")).unwrap());
        let kept: Vec<String> =
            server.requests().into_iter().filter(|request| request.contains("/kept/")).collect();
        let told = kept.iter().any(|request| request.contains("hf_secret"));
        assert!(!kept.is_empty() && (manner != Manner::Stored || !told), "{kept:?}");
    }
}

#[test]
fn shards_come_by_their_index_and_stay_inside() {
    let index = |name: &str| format!(r#"{{"weight_map": {{"a": "{name}"}}}}"#).into_bytes();
    for (name, expected) in
        [("../../evil.safetensors", "is no file of weights"), ("part.safetensors", "is not there")]
    {
        let home = tempdir().unwrap();
        let served = vec![
            ("config.json", b"{}".to_vec(), Manner::Honest),
            ("model.safetensors.index.json", index(name), Manner::Honest),
        ];
        let server = Server::start(served, &[]);
        let (code, _, problem) = pull(&server.address, home.path(), "owner/tiny", &[]);
        assert!(code == 1 && problem.contains(expected), "{problem}");
    }
    let home = tempdir().unwrap();
    let served = vec![
        ("config.json", b"{}".to_vec(), Manner::Honest),
        ("model.safetensors.index.json", index("part.safetensors"), Manner::Honest),
        ("part.safetensors", b"weights".to_vec(), Manner::Honest),
        ("unused.safetensors", b"more weights".to_vec(), Manner::Honest),
    ];
    let server = Server::start(served, &[]);
    assert_eq!(pull(&server.address, home.path(), "owner/tiny", &[]).0, 0);
    let snapshot = model_folder(home.path()).join("snapshots").join(COMMIT);
    assert!(snapshot.join("part.safetensors").exists() && !snapshot.join("unused.safetensors").exists());
}

#[test]
fn without_a_network_or_a_model_there_is_a_plain_line() {
    let home = tempdir().unwrap();
    let server = Server::start(vec![("config.json", b"{}".to_vec(), Manner::Honest)], &["pytorch_model.bin"]);
    let offline = pull(&server.address, home.path(), "owner/tiny", &[("HF_HUB_OFFLINE", "1")]);
    assert_eq!(
        offline,
        (1, String::new(), "error: HF_HUB_OFFLINE is set: nothing is downloaded\n".to_owned())
    );
    assert!(server.requests().is_empty());
    let (_, _, problem) = pull(&server.address, home.path(), "owner/nothing", &[]);
    assert!(problem.contains("has no model owner/nothing"), "{problem}");
    let (_, _, problem) = pull(&server.address, home.path(), "owner/tiny", &[]);
    assert!(problem.contains("pickle"), "{problem}");
    // A port that nobody listens at.
    let (code, _, problem) = pull("http://127.0.0.1:1", home.path(), "owner/tiny", &[]);
    assert!(code == 1 && problem.contains("cannot be reached"), "{problem}");
    assert_eq!(pull(&server.address, home.path(), "../../etc", &[]).0, 2);
    assert_eq!(pull("ftp://x", home.path(), "owner/tiny", &[]).0, 1);
}
