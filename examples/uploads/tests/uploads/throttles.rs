//! Checks properties that every throttle must have: the cap is held and reached, one permit is enough,
//! and Ctrl-C ends the waits.

use std::process::Command;

use super::common::{
    Ended, Running, THROTTLES, TestServer, add_large, contents, program, run, small_files,
};
use serde_json::Value;

/// Returns a command that uploads to the test's server.
fn to(server: &TestServer, throttle: &str, max_parallel: usize) -> Command {
    let mut command = server.program("uploads");
    command.args(["--throttle", throttle, "--verbose"]);
    command.args(["--max-parallel", &max_parallel.to_string()]);
    command
}

/// Returns the report if it has these figures: verified, failed, cancelled, and the peak.
#[track_caller]
fn assert_figures(ended: &Ended, throttle: &str, expected: [usize; 4]) {
    let json = ended.json();
    assert_eq!(json["throttle"], throttle);
    let figures = ["verified", "failed", "cancelled", "peak_in_flight"].map(|name| &json[name]);
    assert_eq!(figures.map(Value::as_u64), expected.map(|n| Some(n as u64)));
    let [verified, failed, cancelled, _] = expected;
    assert_eq!(json["files"], verified + failed + cancelled);
}

async fn the_cap_is_reached_and_held(throttle: &str) {
    let files = small_files(40);
    let server = TestServer::start(0, vec![]).await;
    let running = Running::start(to(&server, throttle, 4).arg(files.path()));
    // The server holds them, however long it takes until there are four.
    server.gauge.wait_for(|counts| counts.in_flight == 4).await;
    server.open();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_figures(&ended, throttle, [40, 0, 0, 4]);
    let counts = server.gauge.counts();
    assert_eq!((counts.begun, counts.peak, counts.in_flight), (40, 4, 0));
    assert_eq!(server.objects(), contents(files.path()));
}

async fn one_permit_is_enough_for_a_multipart_upload(throttle: &str) {
    let files = small_files(3);
    add_large(files.path());
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(to(&server, throttle, 1).arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_figures(&ended, throttle, [4, 0, 0, 1]);
    let counts = server.gauge.counts();
    assert_eq!((counts.begun, counts.peak), (6, 1), "three files and parts");
    assert_eq!(server.objects(), contents(files.path()));
    assert_eq!(server.left_behind(), [""; 0]);
}

#[cfg(unix)]
async fn ctrl_c_ends_all_waits_at_once(throttle: &str) {
    let files = small_files(20);
    let server = TestServer::start(5, vec![]).await;
    let mut running = Running::start(to(&server, throttle, 4).arg(files.path()));
    // Five are stored, and the server holds four.
    server
        .gauge
        .wait_for(|counts| (counts.begun, counts.in_flight) == (9, 4))
        .await;
    running.interrupt();
    // At this time no request in flight can end.
    running.wait_for_lines("cancelled: ", 11);
    server.open();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_figures(&ended, throttle, [9, 0, 11, 4]);
    assert_eq!(server.gauge.counts().begun, 9, "nobody came after Ctrl-C");
    assert_eq!(server.objects().len(), 9);
}

/// After Ctrl-C, the request that removes the parts takes the single permit.
#[cfg(unix)]
async fn ctrl_c_leaves_no_parts_of_a_multipart_upload(throttle: &str) {
    let files = small_files(0);
    add_large(files.path());
    let server = TestServer::start(1, vec![]).await;
    let mut running = Running::start(to(&server, throttle, 1).arg(files.path()));
    // The first part is stored, the server holds the second, and the third waits.
    server
        .gauge
        .wait_for(|counts| (counts.begun, counts.in_flight) == (2, 1))
        .await;
    running.interrupt();
    running.wait_for_lines("cancelling", 1);
    server.open();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_figures(&ended, throttle, [0, 0, 1, 1]);
    assert_eq!(server.gauge.counts().begun, 2);
    assert!(server.objects().is_empty());
    assert_eq!(server.left_behind(), [""; 0]);
}

with_each_throttle! {
    the_cap_is_reached_and_held,
    one_permit_is_enough_for_a_multipart_upload,
    #[cfg(unix)] ctrl_c_ends_all_waits_at_once,
    #[cfg(unix)] ctrl_c_leaves_no_parts_of_a_multipart_upload
}

#[test]
fn the_first_one_is_the_default() {
    let files = small_files(1);
    let json = run(program().arg("--json").arg(files.path())).json();
    assert_eq!(json["throttle"], THROTTLES[0]);
}

#[test]
fn a_cap_above_what_the_throttle_can_have_is_a_usage_error() {
    let files = small_files(1);
    for (throttle, most) in [
        ("pool", 65_536_u32),
        ("channel", 65_536),
        ("condvar", 1_024),
    ] {
        let too_many = (most + 1).to_string();
        let args = ["--throttle", throttle, "--max-parallel", &too_many];
        let ended = run(program().args(args).arg(files.path()));
        assert_eq!(ended.code, Some(2));
        assert_eq!(ended.stdout, "");
        let expected = format!(
            "error: invalid value '{too_many}' for '--max-parallel <N>': it can be at most {most} "
        );
        assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
        assert!(ended.stderr.contains("Usage: uploads"), "{}", ended.stderr);
    }
}

#[test]
fn the_throttle_is_in_the_report_in_words_and_in_the_plot() {
    let files = small_files(9);
    let plot = files.path().join("plot.svg");
    let args = ["--throttle", "async-lock", "--max-parallel", "2", "--plot"];
    let ended = run(program().args(args).args([plot.as_path(), files.path()]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("2 allowed (async-lock)"),
        "{}",
        ended.stdout
    );
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.contains("throttle: async-lock"));
}
