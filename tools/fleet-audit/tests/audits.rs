//! Tests that a fleet of processes on a real server keeps the promises, and gets what was promised; and
//! that violations are noticed.

use std::process::Command;

/// The result of a run: its success, and its output.
struct Ended {
    well: bool,
    text: String,
}

fn audit(arguments: &str) -> Ended {
    let output = Command::new(env!("CARGO_BIN_EXE_fleet-audit"))
        .args(arguments.split_whitespace())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let text = format!("{arguments}\n{said}{complained}");
    println!("{text}");
    Ended {
        well: output.status.success(),
        text,
    }
}

/// Exceeding a promise fails at once. Too few admissions may be due to the machine, which misses a
/// deadline occasionally if it is busy: that fails only if it happens each time.
fn is_kept(arguments: &str) -> String {
    let mut ended = audit(arguments);
    for _ in 0..3 {
        let little = ended.text.contains("NOT USED") && !ended.text.contains("NOT KEPT");
        if !little {
            break;
        }
        ended = audit(arguments);
    }
    assert!(ended.well, "{}", ended.text);
    assert!(ended.text.contains("worst"), "{}", ended.text);
    assert!(ended.text.contains("used: "), "{}", ended.text);
    let faults = arguments.contains("--faults");
    assert_eq!(!ended.text.contains("no faults"), faults, "{}", ended.text);
    ended.text
}

/// Checks that the error is reported.
fn is_noticed(arguments: &str, wrong: &str) {
    let ended = audit(arguments);
    assert!(!ended.well, "{}", ended.text);
    assert!(ended.text.contains(wrong), "{}", ended.text);
    if wrong.starts_with("NOT USED") {
        assert!(!ended.text.contains("NOT KEPT"), "{}", ended.text);
    }
}

/// Returns the options of a small fleet, or with `WHOLE_FLEET` those of the whole one, which makes up to ten times the
/// calls.
fn sized(small: &'static str, whole: &'static str) -> &'static str {
    let is_whole = std::env::var_os("WHOLE_FLEET").is_some();
    if is_whole { whole } else { small }
}

fn bucket() -> &'static str {
    sized("--nodes 3 --tasks 4 --rate 200 --burst 20", "")
}

fn leases() -> &'static str {
    sized("--lease 3 --nodes 3 --tasks 2", "--lease 3 --tasks 2")
}

fn others() -> [&'static str; 5] {
    [
        "--rate 1000 --algorithm token-bucket --burst 150",
        "--rate 1000 --algorithm fixed-window",
        sized(
            "--rate 500 --algorithm sliding-window",
            "--rate 1000 --algorithm sliding-window",
        ),
        "--rate 1000 --algorithm sliding-log",
        "--rate 1000 --algorithm sub-interval/4 --period 400",
    ]
}

const SEVERAL: &str = "--several --tasks 4 --rate 400 --burst 30";

#[test]
fn a_fleet_has_what_was_promised_and_no_more() {
    is_kept(bucket());
    is_kept("--ahead 8 --think 40");
    is_kept(&format!("{} --drops 20", bucket()));
    is_kept(&format!("{SEVERAL} --millis 1000"));
    is_kept(&format!("{} --millis 2000", leases()));
}

#[test]
fn each_algorithm_keeps_its_own_promise() {
    for other in others() {
        is_kept(&format!("{other} --millis 1000"));
    }
}

#[test]
fn each_algorithm_keeps_its_promise_through_faults() {
    for other in others() {
        is_kept(&format!("{other} --faults=kill,stop"));
    }
}

#[test]
fn faults_admit_no_more_than_a_burst_for_each_loss_and_what_is_left_is_used() {
    is_kept(&format!("{} --faults", bucket()));
    is_kept("--ahead 8 --think 40 --faults=node,kill,pause");
}

#[test]
fn limits_in_one_call_count_the_same_through_faults() {
    is_kept(&format!(
        "{SEVERAL} --faults=drop-replies,stop,node,black-hole,reset"
    ));
}

#[test]
fn nobody_hears_of_scripts_that_the_server_forgets_and_each_call_is_charged_once() {
    // The deadline is so long that it passes on no machine.
    let patient = "--deadline 20000 --faults=flush";
    for limits in [bucket(), SEVERAL] {
        let text = is_kept(&format!("{limits} {patient}"));
        assert!(text.contains(" 0 failed"), "{text}");
    }
    let text = is_kept(&format!("{} {patient}", leases()));
    assert!(text.contains(" 0 failed"), "{text}");
}

#[test]
fn no_more_leases_are_held_than_there_are_through_faults() {
    is_kept(&format!(
        "{} --drops 20 --faults=pause,node,kill,stop,drop-replies,black-hole,reset",
        leases()
    ));
}

#[test]
fn too_many_are_noticed() {
    let wrong = "NOT KEPT: more was admitted";
    is_noticed("--cheat 5 --millis 500", wrong);
    for other in others() {
        is_noticed(&format!("{other} --cheat 10 --millis 500"), wrong);
    }
    is_noticed(&format!("{SEVERAL} --cheat 10 --millis 500"), wrong);
    let wrong = "NOT KEPT: more were held";
    is_noticed(&format!("{} --cheat 50", leases()), wrong);
    let wrong = "NOT KEPT: not all limits counted";
    is_noticed(&format!("{SEVERAL} --uneven 20 --millis 500"), wrong);
}

#[test]
fn process_that_fails_closed_after_a_fault_is_noticed() {
    let gives_up = "--gives-up --faults=reset";
    is_noticed(gives_up, "NOT USED");
    is_noticed(&format!("{SEVERAL} {gives_up}"), "NOT USED");
    is_noticed(&format!("{} {gives_up}", leases()), "NOT USED");
}
