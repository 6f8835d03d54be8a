//! Runs as `mpirun` starts them, and what they leave.

use std::path::Path;
use std::process::{Command, Output};

/// Settings of a run of seconds.
pub const TINY: &[&str] =
    &["data.texts=60", "data.length=16", "train.steps=6", "train.batch_size=2", "train.evaluate_every=3"];

/// The arguments of a new run.
pub fn begun(preset: &str, settings: &[&str], out: &Path) -> Vec<String> {
    let mut arguments = vec!["train".to_owned(), preset.to_owned(), format!("--out={}", out.display())];
    arguments.extend(settings.iter().map(|setting| format!("--set={setting}")));
    arguments
}

/// The arguments of a run that goes on.
pub fn resumed(out: &Path) -> Vec<String> {
    vec!["train".to_owned(), "--resume".to_owned(), format!("--out={}", out.display())]
}

/// The program on several ranks, of which there may be more than cores.
pub fn mpirun(ranks: usize, arguments: &[String]) -> Command {
    let mut command = launcher(ranks);
    command.arg(env!("CARGO_BIN_EXE_regard")).args(arguments);
    command
}

/// The same with a script that may treat ranks differently, as `$0 "$@"`.
pub fn mpirun_by(script: &str, ranks: usize, arguments: &[String]) -> Command {
    let mut command = launcher(ranks);
    command.args(["sh", "-c", script, env!("CARGO_BIN_EXE_regard")]).args(arguments);
    command
}

fn launcher(ranks: usize) -> Command {
    let mut command = Command::new("mpirun");
    command.args(["-n", &ranks.to_string()]);
    // What options of Open MPI say, in a form that other launchers ignore.
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
        ("OMPI_MCA_hwloc_base_binding_policy", "none"),
        ("REGARD_THREADS", "1"),
        ("REGARD_PATIENCE", "5"),
    ] {
        command.env(name, value);
    }
    command
}

/// The program in one process.
pub fn alone(arguments: &[String]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_regard"));
    command.args(arguments).env("REGARD_THREADS", "1");
    command
}

pub fn succeeds(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Two runs left the same model, the same configuration and, but for times, the same metrics.
pub fn assert_same(found: &Path, expected: &Path) {
    for name in ["model.safetensors", "train.toml", "config.json", "tokenizer.json"] {
        let read = |folder: &Path| std::fs::read(folder.join(name)).unwrap();
        assert!(read(found) == read(expected), "{name} in {} differs", found.display());
    }
    let metrics = |folder: &Path| -> Vec<Vec<String>> {
        let text = std::fs::read_to_string(folder.join("metrics.csv")).unwrap();
        let without = |line: &str| {
            let fields = line.split(',').enumerate().filter(|(column, _)| *column != 4);
            fields.map(|(_, field)| field.to_owned()).collect()
        };
        text.lines().map(without).collect()
    };
    assert_eq!(metrics(found), metrics(expected), "metrics.csv in {}", found.display());
}
