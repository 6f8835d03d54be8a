//! `regard generate`.

use super::made::{bert, complaint, gpt, regard, said, t5, text, tokenizer};
use regard_nn::Context;
use regard_nn::checkpoint;
use regard_nn::generate::{Continue, GenerationSettings, generate};
use regard_nn::tokens::Special;
use tempfile::tempdir;

/// What the library says, without streaming.
fn expected(folder: &std::path::Path, prompt: &str, max_tokens: usize) -> String {
    let model = checkpoint::load(folder).unwrap().model;
    let tokenizer = tokenizer(false);
    let ids = tokenizer.encode(prompt, Special::Keep).unwrap().ids;
    let settings = GenerationSettings { max_tokens, stop_tokens: vec![1], ..GenerationSettings::default() };
    let tokens =
        generate(&Continue::new(&*model).unwrap(), &Context::inference(), &[ids], &settings, &mut |_, _| {
            true
        })
        .unwrap()
        .remove(0)
        .tokens;
    tokenizer.decode(&tokens, Special::Drop).unwrap()
}

#[test]
fn the_stream_is_the_text_and_stops_before_strings() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let model = text(folder.path());
    let whole = expected(folder.path(), "The cat", 30);
    // Random weights say bytes that are no characters: what is shown of them is what decoding makes of the whole.
    assert!(whole.chars().count() > 8, "{whole:?}");
    let greedy = ["generate", model, "The cat", "--greedy", "-n", "30"];
    assert_eq!(said(&greedy), format!("The cat{whole}\n"));
    let bare = [&greedy[..], &["--no-prompt"]].concat();
    assert_eq!(said(&bare), format!("{whole}\n"));
    // Three characters from the middle, which may be in several tokens.
    let (start, _) = whole.char_indices().nth(4).unwrap();
    let stop: String = whole[start..].chars().take(3).collect();
    let before = &whole[..whole.find(&stop).unwrap()];
    assert_eq!(said(&[&bare[..], &["--stop", &stop]].concat()), format!("{before}\n"));
    let one_beam = ["generate", model, "The cat", "--beams", "1", "-n", "30", "--no-prompt"];
    assert_eq!(said(&one_beam), format!("{whole}\n"));
}

#[test]
fn a_seed_decides_what_is_drawn() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let draw = |seed: &str| said(&["generate", text(folder.path()), "The", "--seed", seed, "--top-p", "0.9"]);
    assert_eq!(draw("4"), draw("4"));
    assert_ne!(draw("4"), draw("5"));
}

#[test]
fn a_temperature_of_zero_is_greedy() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let go =
        |more: &[&str]| said(&[&["generate", text(folder.path()), "The cat", "-n", "20"], more].concat());
    assert_eq!(go(&["--temperature", "0"]), go(&["--greedy"]));
    assert_eq!(go(&["--temperature", "0", "--seed", "7", "--top-k", "5"]), go(&["--greedy"]));
    assert_ne!(go(&["--temperature", "1"]), go(&["--greedy"]));
}

#[test]
fn texts_go_on_beyond_the_context_with_one_note() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    // The tokenizer's end of text would stop it.
    let run = |prompt: &str, tokens: &str| {
        let arguments = ["generate", text(folder.path()), prompt, "--no-prompt", "-n", tokens, "--greedy"];
        let output = regard(&arguments).assert().success().get_output().clone();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let note = "note: the text is longer than the model's context of 48 tokens: the oldest ones left it\n";
    let ((short, quiet), (long, said)) = (run("The cat", "20"), run("The cat", "200"));
    assert!(quiet.is_empty(), "{quiet}");
    assert_eq!(said, note);
    assert!(long.starts_with(short.trim_end_matches(['\n', '\u{fffd}'])), "{short:?}, then {long:?}");
    assert!(long.len() > 2 * short.len());
    // So may prompts be, and the texts of beams.
    assert_eq!(run(&"qzx ".repeat(60), "3").1, note);
    let beams = ["generate", text(folder.path()), &"qzx ".repeat(60), "-n", "3", "--beams", "2"];
    let output = regard(&beams).assert().success().get_output().clone();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), note);
}

#[test]
fn prompts_come_from_standard_input() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let arguments = ["generate", text(folder.path()), "-", "--greedy", "-n", "5"];
    let output = regard(&arguments).write_stdin("The dög\n").assert().success().get_output().clone();
    let whole = expected(folder.path(), "The dög", 5);
    assert_eq!(String::from_utf8(output.stdout).unwrap(), format!("The dög{whole}\n"));
    let wrong = regard(&arguments).write_stdin(&b"\xff"[..]).assert().failure().get_output().clone();
    assert_eq!(String::from_utf8(wrong.stderr).unwrap(), "error: standard input is not UTF-8 text\n");
}

#[test]
fn a_t5_answers() {
    let folder = tempdir().unwrap();
    t5(folder.path());
    let ask = |more: &[&str]| {
        said(&[&["generate", text(folder.path()), "The cat sat.", "-n", "12"], more].concat())
    };
    // The best answer is the default, and the prompt is not part of it.
    assert_eq!(ask(&[]), ask(&["--greedy"]));
    assert_eq!(ask(&[]), ask(&["--beams", "1"]));
    assert!(!ask(&[]).starts_with("The cat sat."));
    assert!(!ask(&["--beams", "3"]).is_empty());
}

#[test]
fn generation_settings_of_the_folder_are_used_or_reported() {
    let folder = tempdir().unwrap();
    gpt(folder.path(), 1);
    let arguments = ["generate", text(folder.path()), "The cat", "--greedy", "-n", "20"];
    let spoken = |more: &[&str]| {
        let output = regard(&[&arguments[..], more].concat()).assert().success().get_output().clone();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let plain = spoken(&[]);
    let penalised = spoken(&["--repetition-penalty", "2.5"]);
    assert_ne!(plain.0, penalised.0);
    let settings = r#"{"repetition_penalty": 2.5, "no_repeat_ngram_size": 3, "min_length": 0}"#;
    std::fs::write(folder.path().join("generation_config.json"), settings).unwrap();
    let said = spoken(&[]);
    assert_eq!(said.0, penalised.0);
    assert_eq!(said.1, "note: the model's folder sets no_repeat_ngram_size = 3, which has no effect here\n");
    assert_eq!(spoken(&["--repetition-penalty", "1"]).0, plain.0);
}

#[test]
fn impossible_requests_are_errors_of_one_line() {
    let folder = tempdir().unwrap();
    let (gpt_folder, bert_folder) = (folder.path().join("gpt"), folder.path().join("bert"));
    gpt(&gpt_folder, 1);
    bert(&bert_folder);
    let (problem, code) = complaint(&["generate", text(&bert_folder), "The"]);
    assert!(problem.contains("is a bert model, which does not generate text"), "{problem}");
    assert_eq!((problem.lines().count(), code), (1, 1));
    let (problem, _) = complaint(&["generate", "owner/nothing", "The"]);
    assert!(problem.contains("regard pull owner/nothing"), "{problem}");
    for usage in [
        &["generate", text(&gpt_folder), "The", "--temperature", "-0.5"][..],
        &["generate", text(&gpt_folder), "The", "--top-p", "2"],
        &["generate", text(&gpt_folder), "The", "--beams", "0"],
        &["generate", text(&gpt_folder), "The", "--stop", ""],
        &["generate", text(&gpt_folder), "The", "--beams", "2", "--greedy"],
        &["generate"],
    ] {
        assert_eq!(complaint(usage).1, 2, "{usage:?}");
    }
    std::fs::remove_file(gpt_folder.join("tokenizer.json")).unwrap();
    let (problem, _) = complaint(&["generate", text(&gpt_folder), "The"]);
    assert!(problem.contains("has no tokenizer"), "{problem}");
}
