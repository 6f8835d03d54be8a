//! `regard models`.

use super::made::{bert, gpt, regard, text, vit};
use regard_nn::checkpoint;
use tempfile::tempdir;

#[test]
fn models_and_what_they_lack_are_listed() {
    let folder = tempdir().unwrap();
    let runs = folder.path().join("runs");
    for (name, make) in
        [("good", (|folder| gpt(folder, 1)) as fn(&std::path::Path)), ("bare", bert), ("seen", vit)]
    {
        make(&runs.join(name));
    }
    std::fs::remove_file(runs.join("bare/tokenizer.json")).unwrap();
    let changed = |name: &str, from: &str, to: &str| {
        gpt(&runs.join(name), 1);
        let path = runs.join(name).join("config.json");
        let config = std::fs::read_to_string(&path).unwrap();
        assert!(config.contains(from), "{config}");
        std::fs::write(path, config.replace(from, to)).unwrap();
    };
    changed("other", "\"model_type\": \"gpt2\"", "\"model_type\": \"gpt_neox_japanese\"");
    changed("empty", "gpt2", "gpt2");
    std::fs::remove_file(runs.join("empty/model.safetensors")).unwrap();
    // A cache with one model, and one that was not downloaded in full.
    let cache = folder.path().join("hub");
    gpt(&cache.join("models--owner--tiny/snapshots/0123456789"), 1);
    std::fs::create_dir_all(cache.join("models--owner--begun/blobs")).unwrap();
    let output = regard(&["models", "--runs", text(&runs)]).env("HF_HUB_CACHE", &cache).assert().success();
    let listed = String::from_utf8(output.get_output().stdout.clone()).unwrap();
    let line = |name: &str| {
        let found = listed
            .lines()
            .find(|line| line.split_whitespace().next().is_some_and(|first| first.ends_with(name)));
        found.unwrap_or_else(|| panic!("{name} in {listed}")).to_owned()
    };
    assert!(line("runs/good").ends_with("opens") && line("runs/good").contains(" gpt2 "), "{listed}");
    assert!(line("runs/seen").ends_with("opens"), "{listed}");
    assert!(line("runs/bare").contains("has no tokenizer"), "{listed}");
    assert!(line("runs/other").contains("the nearest supported type is gpt_neox (regard models"), "{listed}");
    assert!(line("runs/empty").contains("has no model.safetensors"), "{listed}");
    assert!(line("owner/tiny").ends_with("opens"), "{listed}");
    assert!(line("owner/begun").contains("regard pull owner/begun"), "{listed}");
    for kind in checkpoint::families() {
        assert!(
            listed.lines().any(|line| line.split_whitespace().next() == Some(kind)),
            "{kind} in {listed}"
        );
    }
    assert!(line("qwen3").contains("generate, predict"), "{listed}");
    assert!(line("clip_vision_model").ends_with("vectors"), "{listed}");
    let types = regard(&["models", "--types"]).assert().success().get_output().stdout.clone();
    assert!(listed.ends_with(&String::from_utf8(types).unwrap()));
}
