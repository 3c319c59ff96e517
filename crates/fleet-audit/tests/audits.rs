//! The promise is kept by a fleet of processes on a real server; and if it were not, it would be
//! noticed.

use std::process::{Command, Output};

fn audit(arguments: &[&str]) -> (Output, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_fleet-audit"))
        .args(arguments)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    println!("{arguments:?}\n{text}");
    (output, text)
}

#[test]
fn a_fleet_has_what_was_promised_and_no_more() {
    let (output, text) = audit(&[]);
    assert!(output.status.success(), "{text}");
    assert!(text.contains("worst window"));
}

#[test]
fn a_fleet_that_takes_ahead_is_charged_no_more() {
    let (output, text) = audit(&["--ahead", "8"]);
    assert!(output.status.success(), "{text}");
}

#[test]
fn faults_admit_no_more_than_a_burst_for_each_loss() {
    let (output, text) = audit(&["--faults", "--millis", "3000"]);
    assert!(output.status.success(), "{text}");
    assert!(!text.contains("no faults"));
}

#[test]
fn five_in_a_hundred_too_many_are_noticed() {
    let (output, text) = audit(&["--cheat", "5"]);
    assert!(!output.status.success(), "{text}");
    assert!(text.contains("NOT KEPT"));
}
