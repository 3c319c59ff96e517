//! Ctrl-C: waiters leave at once, and requests in flight finish or leave nothing behind.

use std::fs;

use super::common::{Running, TestServer, add_large, contents, program, small_files, stored};

#[tokio::test(flavor = "multi_thread")]
async fn those_in_line_go_at_once_and_those_under_way_finish() {
    let files = small_files(20);
    let server = TestServer::start(5, vec![]).await;
    let mut running = Running::start(
        server
            .program("uploads")
            .args(["--verbose", "--max-parallel", "4"])
            .arg(files.path()),
    );
    // Five are stored, and the server holds four.
    server
        .gauge
        .wait_for(|counts| (counts.begun, counts.in_flight) == (9, 4))
        .await;
    running.interrupt();
    running.wait_for_lines("cancelled: ", 11);
    let counts = server.gauge.counts();
    assert_eq!(
        (counts.begun, counts.in_flight),
        (9, 4),
        "nobody under way was dropped"
    );

    server.open();
    let ended = running.end();
    let json = ended.json();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(json["files"], 20);
    assert_eq!(json["verified"], 9);
    assert_eq!(json["cancelled"], 11);
    assert_eq!(json["failed"], 0);
    assert_eq!(json["interrupted"], true);
    let objects = server.objects();
    assert_eq!(objects.len(), 9);
    let files = contents(files.path());
    assert!(objects.iter().all(|(key, content)| files[key] == *content));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_multipart_upload_is_aborted() {
    let files = small_files(0);
    add_large(files.path());
    let server = TestServer::start(1, vec![]).await;
    let mut running = Running::start(
        server
            .program("uploads")
            .args(["--max-parallel", "1"])
            .arg(files.path()),
    );
    // One of three parts is stored, and the server holds the second.
    server
        .gauge
        .wait_for(|counts| (counts.begun, counts.in_flight) == (2, 1))
        .await;
    running.interrupt();
    running.wait_for_lines("cancelling", 1);
    server.open();
    let ended = running.end();
    let json = ended.json();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(json["cancelled"], 1);
    assert_eq!(json["verified"], 0);
    assert_eq!(json["failed"], 0);
    assert_eq!(
        server.gauge.counts().begun,
        2,
        "the third part was not sent"
    );
    assert!(server.objects().is_empty());
    assert_eq!(server.left_behind(), [""; 0]);
}

#[test]
fn the_embedded_server_has_whole_objects_only() {
    let files = small_files(300);
    add_large(files.path());
    let store = tempfile::tempdir().unwrap();
    let mut running = Running::start(
        program()
            .args(["--json", "--verbose", "--max-parallel", "1", "--store"])
            .args([store.path(), files.path()]),
    );
    running.wait_for_lines("uploaded: ", 2);
    running.interrupt();
    let ended = running.end();
    let json = ended.json();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    let verified = json["verified"].as_u64().unwrap();
    let cancelled = json["cancelled"].as_u64().unwrap();
    assert!(verified >= 2 && cancelled >= 1, "{json}");
    assert_eq!(verified + cancelled, 301);
    assert_eq!(json["failed"], 0);
    let objects = stored(store.path());
    assert_eq!(objects.len() as u64, verified);
    let files = contents(files.path());
    assert!(objects.iter().all(|(key, content)| files[key] == *content));
    let left = fs::read_dir(store.path()).unwrap();
    let names = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: Vec<_> = names.filter(|name| name.contains(".part")).collect();
    assert_eq!(names, [""; 0], "no parts are left");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_ctrl_c_does_not_wait_for_the_server() {
    let files = small_files(5);
    let server = TestServer::start(0, vec![]).await;
    let mut running = Running::start(server.program("uploads").arg(files.path()));
    server.gauge.wait_for(|counts| counts.in_flight > 0).await;
    running.interrupt();
    running.wait_for_lines("cancelling: requests in flight have 10 s to finish", 1);
    running.interrupt();
    let ended = running.end();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
    assert_eq!(ended.stdout, "");
}
