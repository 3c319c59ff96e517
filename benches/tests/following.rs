//! What `following` prints: the verdicts on a few worlds, with another seed than by default.

use std::process::{Command, Output};

fn following(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_following"));
    let output = command.args(arguments).output();
    output.expect("the program can be started")
}

/// The rows of the worlds with this part in their names, which must be good enough where they decide.
fn rows(world: &str) -> Vec<String> {
    let output = following(&["--seed", "11", world]);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    text.lines().map(str::to_owned).collect()
}

#[test]
fn follow_of_a_bucket_is_good_enough_beside_others() {
    let rows = rows("bucket 100 % 60/min, ");
    assert_eq!(rows.len(), 18);
    let spaced = rows.iter().filter(|row| row.contains("spaced"));
    assert_eq!(spaced.filter(|row| row.starts_with("PASS")).count(), 9);
}

#[test]
fn follow_of_a_window_is_good_enough_beside_others() {
    let rows = rows("window 60/min, ");
    assert_eq!(rows.len(), 18);
    let passed = rows.iter().filter(|row| row.starts_with("PASS"));
    assert_eq!(passed.count(), 18, "{rows:#?}");
}

#[test]
fn follow_of_a_log_alone_loses_nothing() {
    let rows = rows("log 60/min, 50 ms, alone");
    assert_eq!(rows.len(), 2);
    assert!(rows.iter().all(|row| row.starts_with("PASS")), "{rows:?}");
}

#[test]
fn verdicts_depend_on_the_seed_alone() {
    let once = following(&["--seed", "3", "log 60/min, 50 ms..30 s, bursts"]);
    let again = following(&["--seed", "3", "log 60/min, 50 ms..30 s, bursts"]);
    assert_eq!(once.stdout, again.stdout);
    let other = following(&["--seed", "4", "log 60/min, 50 ms..30 s, bursts"]);
    assert_ne!(once.stdout, other.stdout);
}
