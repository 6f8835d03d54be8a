//! Every command that a text of this project shows is one that the program understands.

use clap::{CommandFactory, Parser};
use regard::commands::Arguments;
use std::path::Path;

/// The words of a line as a shell has them: quotes hold words together; a comment or a semicolon ends them.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
    for character in line.chars() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (None, '"' | '\'') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None, ' ') => words.extend(word.take()),
            (None, '#') if word.is_none() => break,
            (None, ';') => break,
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

/// N stands for a number, and so does a variable of the shell, such as that of a job in an array.
fn with_numbers(word: &str) -> String {
    if word == "N" {
        return "1".to_owned();
    }
    let mut parts = word.split('$');
    let first = parts.next().unwrap_or_default().to_owned();
    let is_name = |character: char| character.is_ascii_alphanumeric() || character == '_';
    parts.fold(first, |text, part| text + "1" + part.trim_start_matches(is_name))
}

/// Fails if a line is not a command of the program. Nothing is run.
pub fn is_understood(line: &str) {
    let words = words(line).into_iter().map(|word| with_numbers(&word));
    // Help and versions are reported as errors with an exit code of 0.
    match Arguments::try_parse_from(words) {
        Err(error) if error.exit_code() != 0 => panic!("{line}\n{error}"),
        _ => {}
    }
}

#[test]
fn words_are_split_as_a_shell_does() {
    assert_eq!(words("regard  view m \"a b\" '' # not this"), ["regard", "view", "m", "a b", ""]);
    assert_eq!(["N", "$TASK/8", "a-$X-$Y", "No"].map(with_numbers), ["1", "1/8", "a-1-1", "No"]);
}

#[test]
fn the_commands_of_the_documentation_are_understood() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let records = std::fs::read_dir(root.join("records")).unwrap().map(|entry| entry.unwrap().path());
    let files = docs.chain(records).chain([root.join("README.md"), root.join("CONTRIBUTING.md")]);
    let mut count = 0;
    for file in files.filter(|file| file.extension().is_some_and(|end| end == "md")) {
        // A line may go on in the next.
        let text = std::fs::read_to_string(&file).unwrap();
        let text = text.split("\\\n").map(str::trim).collect::<Vec<_>>().join(" ");
        for line in text.lines() {
            let line = line.trim();
            let line = match line.strip_prefix("cargo run --release -- ") {
                Some(rest) => format!("regard {rest}"),
                None => line.to_owned(),
            };
            // What follows two spaces is said about the command.
            let command = line.split("  ").next().unwrap_or_default();
            if command.starts_with("regard ") {
                is_understood(command);
                count += 1;
            }
        }
    }
    assert!(count > 20, "{count} commands");
}

#[test]
fn the_examples_of_help_texts_are_understood() {
    let mut count = 0;
    let all = Arguments::command();
    let nested = all.get_subcommands().flat_map(clap::Command::get_subcommands);
    for command in all.get_subcommands().chain(nested) {
        let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        for line in help.lines().map(str::trim).filter(|line| line.starts_with("regard ")) {
            is_understood(line.split("   ").next().unwrap_or_default());
            count += 1;
        }
    }
    assert!(count > 30, "{count} examples");
}
