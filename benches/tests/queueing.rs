//! What `queueing` prints: the verdicts on the default controller, with other seeds than by default;
//! and whether the pictures in `docs` are still what it draws.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn queueing(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_queueing"));
    let output = command.args(arguments).output();
    output.expect("the program can be started")
}

/// The verdict on a controller in the only scenario of that name.
fn verdict(output: &Output, scenario: &str, controller: &str) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    let is_asked = |line: &&str| {
        let (_, rest) = line.split_at(4);
        rest.trim_start()
            .strip_prefix(scenario)
            .is_some_and(|rest| rest.split_whitespace().next() == Some(controller))
    };
    let line = text.lines().find(is_asked);
    let line = line.unwrap_or_else(|| panic!("{scenario}, {controller}: {text}"));
    line[..4].into()
}

#[track_caller]
fn assert_passes(scenario: &str) {
    let output = queueing(&["--seed", "7", "--seeds", "3", scenario]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert_eq!(verdict(&output, scenario, "Gradient"), "PASS", "{text}");
    assert_eq!(output.status.code(), Some(0), "{text}");
}

#[test]
fn gradient_finds_the_limit_of_ten_workers() {
    assert_passes("M/M/10");
}

#[test]
fn gradient_finds_the_limit_of_two_slow_workers() {
    assert_passes("c 2, S 100 ms, 30/s");
}

#[test]
fn gradient_finds_the_limit_with_a_heavy_tail() {
    assert_passes("lognormal, CV 3");
}

#[test]
fn gradient_finds_the_limit_of_a_server_that_wastes_work() {
    assert_passes("thrash 1");
}

#[test]
fn gradient_follows_changing_workers_and_service_times() {
    assert_passes("c 10→5→20→10, load 1.5");
    assert_passes("S 10→40→10 ms, load 1.5");
}

#[test]
fn a_failure_of_another_controller_does_not_decide() {
    let output = queueing(&["--seeds", "1", "load 0.5"]);
    assert_eq!(verdict(&output, "load 0.5", "Gradient"), "PASS");
    assert_eq!(verdict(&output, "load 0.5", "EnvoyGradient"), "FAIL");
    assert_eq!(output.status.code(), Some(0));
}

/// Behind a line that serves first those who are about to give up, no limit has a good answer.
#[test]
fn a_failure_of_the_default_is_one_of_the_program() {
    let output = queueing(&["--seeds", "1", "FIFO line"]);
    let scenario = "c 10→5→20→10, FIFO line";
    assert_eq!(verdict(&output, scenario, "Gradient"), "FAIL");
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn pictures_in_the_documentation_are_what_is_drawn_now() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("queueing");
    let output = queueing(&["--svg", out.to_str().expect("a path in UTF-8")]);
    assert!(output.status.success(), "{output:?}");
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
    for file in ["adaptive-workers.svg", "adaptive-service.svg"] {
        let read = |dir: &Path| fs::read_to_string(dir.join(file)).expect(file);
        assert!(
            read(&out) == read(&docs),
            "docs/{file} is not what this draws: \
             cargo run --release -p tollgate-bench --bin queueing -- --svg docs"
        );
    }
}
