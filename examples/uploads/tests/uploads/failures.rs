//! Each failure is reported once and clearly, other files continue, and the exit code reflects failures.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::TcpListener;
use std::process::Stdio;

use super::common::{
    Ended, Running, TestServer, add_large, at, contents, program, run, small_files,
};
use uploads::server::Refusal;

/// Returns the lines on stderr. There is one for each cause.
fn lines(ended: &Ended) -> Vec<&str> {
    ended.stderr.lines().collect()
}

#[cfg(unix)]
#[test]
fn an_unreadable_file_does_not_stop_the_others() {
    let files = small_files(12);
    std::os::unix::fs::symlink("nowhere", files.path().join("dangling")).unwrap();
    let ended = run(program().arg("--json").arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(1));
    assert_eq!(json["files"], 13);
    assert_eq!(json["verified"], 12);
    assert_eq!(json["failed"], 1);
    let [line] = lines(&ended)[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(
        line.starts_with("1 file failed (dangling): cannot read the file: "),
        "{line}"
    );
    assert_eq!(json["failures"][0]["examples"][0], "dangling");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_shrinks_meanwhile_leaves_no_object() {
    let files = small_files(0);
    let large = add_large(files.path());
    let server = TestServer::start(0, vec![]).await;
    let running = Running::start(
        server
            .program("uploads")
            .args(["--max-parallel", "1"])
            .arg(files.path()),
    );
    server.gauge.wait_for(|counts| counts.in_flight == 1).await;
    File::create(&large).unwrap();
    server.open();
    let ended = running.end();
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["failed"], 1);
    assert!(
        ended.stderr.contains("became shorter while it was read"),
        "{}",
        ended.stderr
    );
    assert!(server.objects().is_empty());
    assert_eq!(server.left_behind(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_changes_meanwhile_is_not_verified() {
    let files = small_files(2);
    let server = TestServer::start(0, vec![]).await;
    let running = Running::start(
        server
            .program("uploads")
            .args(["--max-parallel", "2"])
            .arg(files.path()),
    );
    server.gauge.wait_for(|counts| counts.in_flight == 2).await;
    fs::write(files.path().join("file-000"), "no longer empty").unwrap();
    server.open();
    let ended = running.end();
    let json = ended.json();
    assert_eq!(ended.code, Some(1));
    assert_eq!(json["verified"], 1);
    assert_eq!(json["failed"], 1);
    assert!(ended.stderr.contains("file-000"), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("the file changed during the upload"),
        "{}",
        ended.stderr
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_does_not_stop_the_others() {
    let files = small_files(12);
    add_large(files.path());
    let refusal = |key: &str, part| Refusal {
        key: key.to_owned(),
        part,
        error: ErrorKind::StorageFull,
    };
    let refusals = vec![refusal("file-003", None), refusal("large", Some(2))];
    let server = TestServer::start(1_000, refusals).await;
    let ended = run(server.program("uploads").arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(1));
    assert_eq!(json["files"], 13);
    assert_eq!(json["verified"], 11);
    assert_eq!(json["failed"], 2);
    let [line] = lines(&ended)[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(
        line.starts_with("2 files failed (file-003, large): "),
        "{line}"
    );
    assert!(line.contains("InsufficientStorage"), "{line}");
    let mut expected = contents(files.path());
    expected.retain(|key, _| key != "file-003" && key != "large");
    assert_eq!(server.objects(), expected);
    assert_eq!(
        server.left_behind(),
        [""; 0],
        "the other parts were removed"
    );
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn a_renamed_file_that_failed_has_no_object_of_another_name() {
    let files = small_files(0);
    for name in ["arrives\n", "fails\n"] {
        fs::write(files.path().join(name), name).unwrap();
    }
    let refusal = Refusal {
        key: "fails%0A".to_owned(),
        part: None,
        error: ErrorKind::StorageFull,
    };
    let server = TestServer::start(1_000, vec![refusal]).await;
    let ended = run(server.program("uploads").arg(files.path()));
    let json = ended.json();
    assert_eq!((&json["verified"], &json["failed"]), (&1.into(), &1.into()));
    assert_eq!(json["renamed"], 1);
}

#[test]
fn a_server_that_refuses_is_one_message() {
    let files = small_files(30);
    // No process listens on this address any more.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let ended = run(at(&endpoint, "uploads").arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(1));
    assert_eq!(json["failed"], 30);
    assert_eq!(json["verified"], 0);
    let [line] = lines(&ended)[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(
        line.starts_with("30 files failed (file-000, file-001, file-002, ...): "),
        "{line}"
    );
    assert!(line.contains("the server cannot be reached"), "{line}");
    assert_eq!(json["failures"][0]["count"], 30);
}

#[test]
fn endpoint_that_accepts_and_never_answers_is_one_error() {
    let files = small_files(30);
    // No process accepts connections, but the system completes them.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let ended = run(at(&endpoint, "uploads")
        .args(["--timeout", "1"])
        .arg(files.path()));
    assert_eq!(ended.code, Some(1));
    let error = format!("error: the server at {endpoint} does not answer; given up after 1 s");
    assert_eq!(lines(&ended), [error]);
    assert_eq!(ended.stdout, "");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_bucket_is_one_message() {
    let files = small_files(30);
    add_large(files.path());
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server.program("missing").arg(files.path()));
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["failed"], 31);
    let [line] = lines(&ended)[..] else {
        panic!("{}", ended.stderr)
    };
    assert!(line.starts_with("31 files failed (file-000, "), "{line}");
    assert!(
        line.contains("NoSuchBucket: there is no bucket named missing"),
        "{line}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_credentials_are_one_message() {
    let files = small_files(3);
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .env("AWS_SECRET_ACCESS_KEY", "wrong")
        .arg(files.path()));
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["failed"], 3);
    assert_eq!(lines(&ended).len(), 1, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("SignatureDoesNotMatch"),
        "{}",
        ended.stderr
    );
}

#[test]
fn a_missing_directory_is_said() {
    let files = small_files(0);
    let ended = run(program().arg("--json").arg(files.path().join("none")));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .stderr
            .starts_with("error: cannot read the directory "),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stdout, "");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_the_report_is_said() {
    let files = small_files(2);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let ended = program()
        .arg("--json")
        .arg(files.path())
        .stdout(Stdio::from(full))
        .output()
        .unwrap();
    let stderr = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(ended.status.code(), Some(1));
    assert!(
        stderr.starts_with("error: cannot write the report: "),
        "{stderr}"
    );
}

#[test]
fn a_plot_that_cannot_be_written_does_not_cost_the_report() {
    let files = small_files(2);
    let ended = run(program()
        .arg("--json")
        .arg("--plot")
        .args([files.path().join("none/plot.svg"), files.path().to_owned()]));
    assert_eq!(ended.code, Some(1));
    assert_eq!(ended.json()["verified"], 2);
    assert!(
        ended.stderr.starts_with("error: cannot write the plot "),
        "{}",
        ended.stderr
    );
}

#[test]
fn usage_errors_are_said_before_anything_is_done() {
    for args in [
        &["--max-parallel", "0"][..],
        &["--part-size", "4"],
        &["--endpoint", "http://127.0.0.1:9"],
        &["--bucket", "b"],
        &["--endpoint", "127.0.0.1:9", "--bucket", "b"],
    ] {
        let ended = run(program().args(args));
        assert_eq!(ended.code, Some(2), "{args:?}");
        assert!(ended.stderr.starts_with("error: "), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
    }
    let ended = run(program().args(["--max-parallel", "0"]));
    assert!(ended.stderr.contains("at least 1"), "{}", ended.stderr);
}

#[cfg(unix)]
#[test]
fn a_store_that_cannot_be_made_is_said() {
    let files = small_files(1);
    let file = files.path().join("file-000");
    assert!(fs::metadata(&file).unwrap().is_file());
    let ended = run(program()
        .arg("--store")
        .args([file, files.path().to_owned()]));
    assert_eq!(ended.code, Some(1));
    assert!(
        ended
            .stderr
            .starts_with("error: cannot start the embedded server: "),
        "{}",
        ended.stderr
    );
}
