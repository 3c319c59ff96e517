//! `--rate` and `--bandwidth`, with each throttle: the server's own log never has more in any
//! second than the limit allows, and Ctrl-C ends the waits at once.
//!
//! The bound on the log does not depend on the machine. At most the rate plus the burst are admitted
//! in a second. Of the requests admitted before, at most one per slot is still on its way. Likewise, a
//! job cannot take less time than its quota requires, whatever the machine does.

use std::fs;

use redis_on_loopback::Server;
use serde_json::{Value, json};
use uploads::arrivals::{Arrival, peak};

use super::common::{
    Running, TestServer, add_large, contents, equal_files, program, run, small_files,
};

async fn the_rate_is_held(throttle: &str) {
    // Without a limit this takes a third of a second.
    let files = small_files(27);
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .args(["--throttle", throttle, "--max-parallel", "2"])
        .args(["--rate", "20/s burst 2"])
        .arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json = ended.json();
    assert_eq!(
        (&json["verified"], &json["requests"]),
        (&json!(27), &json!(27))
    );
    let arrivals = server.arrivals.all();
    assert_eq!(arrivals.len(), 27, "reading back does not count");
    let most = peak(&arrivals, Arrival::request);
    assert!(most <= 20 + 2 + 2, "{most} in one second");
    // The first two start at once, and the others one after the other.
    let seconds = json["seconds"].as_f64().unwrap();
    assert!(seconds >= 25.0 / 20.0, "{seconds}");
    assert_eq!(server.objects(), contents(files.path()));
}

async fn the_bandwidth_is_held(throttle: &str) {
    let files = equal_files(30, 20_000);
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .args(["--throttle", throttle, "--max-parallel", "2"])
        .args(["--bandwidth", "400kB/s"])
        .arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let json = ended.json();
    assert_eq!(json["verified"], 30);
    let arrivals = server.arrivals.all();
    let bytes: u64 = arrivals.iter().map(Arrival::bytes).sum();
    assert_eq!(bytes, 600_000);
    let most = peak(&arrivals, Arrival::bytes);
    let (burst, on_their_way) = (40_000, 2 * 20_000);
    assert!(
        most <= 400_000 + burst + on_their_way,
        "{most} in one second"
    );
    let seconds = json["seconds"].as_f64().unwrap();
    assert!(seconds >= 560.0 / 400.0, "{seconds}");
}

/// The first request starts at once, and the next one would start an hour later.
#[cfg(unix)]
async fn ctrl_c_ends_the_wait_for_the_rate_at_once(throttle: &str) {
    let files = small_files(20);
    let server = TestServer::start(1_000, vec![]).await;
    let mut running = Running::start(
        server
            .program("uploads")
            .args(["--throttle", throttle, "--max-parallel", "4", "--verbose"])
            .args(["--rate", "1/h", "--bandwidth", "1MB/s"])
            .arg(files.path()),
    );
    running.wait_for_lines("uploaded: ", 1);
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let json = ended.json();
    assert_eq!(
        (&json["verified"], &json["cancelled"]),
        (&json!(1), &json!(19))
    );
    assert_eq!(server.arrivals.all().len(), 1);
}

with_each_throttle! {
    the_rate_is_held,
    the_bandwidth_is_held,
    #[cfg(unix)] ctrl_c_ends_the_wait_for_the_rate_at_once
}

/// The requests are sequential: each has arrived before the next one is admitted. So the log has no more
/// requests than were admitted, except for the one with which a second begins.
#[test]
fn without_others_on_their_way_the_server_sees_the_rate_and_the_burst() {
    let files = small_files(30);
    let ended = run(program()
        .args(["--json", "--max-parallel", "1", "--rate", "20/s burst 5"])
        .arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json["counted_by"], "server");
    assert_eq!(
        (&json["rate"], &json["bandwidth"]),
        (&json!("20/s burst 5"), &Value::Null)
    );
    assert_eq!(json["requests"], 30);
    let most = json["peak_requests_per_second"].as_u64().unwrap();
    assert!((6..=20 + 5).contains(&most), "{most} in one second");
    let mean = json["mean_requests_per_second"].as_f64().unwrap();
    let seconds = json["seconds"].as_f64().unwrap();
    assert!(
        (mean * seconds - 30.0).abs() < 0.1,
        "{mean} for {seconds} s"
    );
}

#[test]
fn without_limits_there_are_figures_all_the_same() {
    let files = equal_files(3, 1_000);
    let json = run(program().arg("--json").arg(files.path())).json();
    assert_eq!(
        (&json["rate"], &json["bandwidth"]),
        (&Value::Null, &Value::Null)
    );
    assert_eq!(json["requests"], 3);
    let most = json["peak_requests_per_second"].as_u64().unwrap();
    assert!((1..=3).contains(&most), "{most}");
    assert_eq!(json["peak_bytes_per_second"], 1_000 * most);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_multipart_upload_counts() {
    let files = small_files(0);
    add_large(files.path());
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .args(["--rate", "2/s", "--bandwidth", "1GB/s"])
        .arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let arrivals = server.arrivals.all();
    let brought: Vec<_> = arrivals.iter().map(Arrival::bytes).collect();
    let total: usize = contents(files.path()).values().map(Vec::len).sum();
    assert_eq!(brought.len(), 5, "opened, three parts, completed");
    assert_eq!((brought[0], brought[4]), (0, 0));
    assert_eq!(brought.iter().sum::<u64>(), total as u64);
    let json = ended.json();
    assert_eq!(json["requests"], 5);
    let seconds = json["seconds"].as_f64().unwrap();
    assert!(seconds >= 4.0 / 2.0, "{seconds}");
}

#[test]
fn what_is_larger_than_the_burst_goes_alone_and_is_made_up_for() {
    let files = equal_files(4, 200_000);
    let ended = run(program()
        .args(["--json", "--max-parallel", "4", "--bandwidth", "400kB/s"])
        .arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json["bandwidth"], "400kB/s");
    // The first file is sent at once, and each other one takes half a second.
    let seconds = json["seconds"].as_f64().unwrap();
    assert!(seconds >= 1.5, "{seconds}");
}

/// An abort costs no bytes, so it does not wait until the first part's bytes are paid off.
#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn ctrl_c_ends_the_wait_of_parts_for_the_bandwidth_and_leaves_none() {
    let files = small_files(0);
    add_large(files.path());
    let server = TestServer::start(1_000, vec![]).await;
    let mut running = Running::start(
        server
            .program("uploads")
            .args(["--verbose", "--bandwidth", "1KiB/s"])
            .arg(files.path()),
    );
    running.wait_for_lines("part ", 1);
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(ended.json()["cancelled"], 1);
    assert_eq!(server.arrivals.all().len(), 3, "opened, one part, aborted");
    assert_eq!(server.left_behind(), [""; 0]);
}

#[test]
fn limits_that_are_none_are_usage_errors() {
    let files = small_files(1);
    for (option, value, expected) in [
        ("--rate", "0/s", "a quota cannot have a count of 0"),
        ("--rate", "50", "expected"),
        ("--rate", "50/s burst 0", "a quota cannot have a burst of 0"),
        (
            "--rate",
            "50/fortnight",
            "at byte 3: expected a unit of time (d, h, min, s, ms, us or ns)",
        ),
        ("--bandwidth", "20MB", "such as 20MB/s"),
        (
            "--bandwidth",
            "20Mb/s",
            "write B for bytes and bit for bits",
        ),
        ("--bandwidth", "0B/s", "at least 1B/s"),
        ("--bandwidth", "17GB/s", "at most 16GB/s"),
    ] {
        let ended = run(program().args([option, value]).arg(files.path()));
        assert_eq!(ended.code, Some(2), "{option} {value}");
        assert_eq!(ended.stdout, "");
        let start = format!("error: invalid value '{value}' for '{option} ");
        assert!(ended.stderr.starts_with(&start), "{}", ended.stderr);
        assert!(ended.stderr.contains(expected), "{}", ended.stderr);
    }
}

#[test]
fn limits_are_in_the_report_in_words_and_in_the_plot() {
    let files = equal_files(20, 50_000);
    let plots = tempfile::tempdir().unwrap();
    let plot = plots.path().join("plot.svg");
    let ended = run(program()
        .args(["--rate", "40/s", "--bandwidth", "2MB/s", "--plot"])
        .args([plot.as_path(), files.path()]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    for expected in ["requests: 20, ", "allowed: 40/s", "allowed: 2MB/s"] {
        assert!(ended.stdout.contains(expected), "{}", ended.stdout);
    }
    let svg = std::fs::read_to_string(plot).unwrap();
    assert!(svg.contains("requests per second") && svg.contains("bytes per second"));
}

// `--redis` caps several processes together; the server that receives the uploads counts them.

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_have_one_cap() {
    let redis = Server::start();
    let server = TestServer::start(0, vec![]).await;
    let mut fleet: Vec<_> = (0..3)
        .map(|process| {
            // Each process uploads under its own keys.
            let files = small_files(12);
            let directory = files.path().join(format!("process-{process}"));
            fs::create_dir(&directory).unwrap();
            for index in 0..12 {
                let name = format!("file-{index:03}");
                fs::rename(files.path().join(&name), directory.join(name)).unwrap();
            }
            let mut command = server.program("uploads");
            command
                .args(["--max-parallel", "4", "--redis", &redis.address()])
                .arg(files.path());
            (Running::start(&mut command), files)
        })
        .collect();
    // The maximum is in flight, and no more requests arrive while these do not end.
    server.gauge.wait_for(|counts| counts.in_flight == 4).await;
    server.open();
    for (process, files) in fleet.drain(..) {
        let ended = process.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let json = ended.json();
        assert_eq!(json["verified"], json!(12));
        assert_eq!(json["throttle"], json!("redis"));
        drop(files);
    }
    // Each process alone may have four requests; together they had four.
    assert_eq!(server.gauge.counts().peak, 4);
    assert_eq!(server.objects().len(), 36);
}
