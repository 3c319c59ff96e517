//! Every file arrives, and never more requests at once than allowed.

use std::fs;

use quick_xml::Reader;
use quick_xml::events::Event;

use super::common::{
    PART_MIB, Running, TestServer, add_large, contents, equal_files, program, run, small_files,
    stored,
};

#[test]
fn every_object_equals_its_file_and_the_cap_is_reached_and_held() {
    let files = small_files(40);
    fs::create_dir_all(files.path().join("deep/er")).unwrap();
    for name in [
        "deep/er/file",
        "with space",
        "~#%+&=?*[x].txt",
        "ünïcödé",
        ".hidden",
    ] {
        fs::write(files.path().join(name), name).unwrap();
    }
    let store = tempfile::tempdir().unwrap();
    let ended = run(program()
        .args(["--json", "--max-parallel", "4", "--store"])
        .args([store.path(), files.path()]));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json["files"], 45);
    assert_eq!(json["verified"], 45);
    assert_eq!(json["failed"], 0);
    assert_eq!(json["cancelled"], 0);
    assert_eq!(json["interrupted"], false);
    assert_eq!(json["renamed"], 0);
    assert_eq!(json["max_parallel"], 4);
    assert_eq!(json["peak_in_flight"], 4);
    assert_eq!(json["counted_by"], "server");
    let expected = contents(files.path());
    let bytes: usize = expected.values().map(Vec::len).sum();
    assert_eq!(json["bytes"], bytes);
    assert_eq!(stored(store.path()), expected);
    assert_eq!(ended.stderr, "", "nothing is to be said without a terminal");
}

/// A key cannot have control characters, so the object's name has them percent-encoded.
#[cfg(unix)]
#[test]
fn names_with_control_characters_are_encoded_and_two_of_one_key_are_a_failure() {
    let files = small_files(1);
    fs::create_dir(files.path().join("in\tside")).unwrap();
    let names = [
        ("tab\there", "tab%09here"),
        ("new\nline", "new%0Aline"),
        ("\u{7f}", "%7F"),
        ("in\tside/100%", "in%09side/100%"),
        // Another file has this name.
        ("taken%0A", "taken%0A"),
    ];
    for (name, _) in names {
        fs::write(files.path().join(name), name).unwrap();
    }
    fs::write(files.path().join("taken\n"), "the other one").unwrap();
    let store = tempfile::tempdir().unwrap();
    let ended = run(program()
        .args(["--json", "--store"])
        .args([store.path(), files.path()]));
    let json = ended.json();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert_eq!((&json["files"], &json["verified"]), (&7.into(), &6.into()));
    assert_eq!(json["renamed"], 4);
    assert_eq!(
        ended.stderr,
        "1 file failed (taken\\n): another file already has the key of this name\n"
    );
    let objects = stored(store.path());
    assert_eq!(objects.len(), 6);
    for (name, key) in names {
        assert_eq!(objects[key], name.as_bytes());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_server_is_not_sent_more_than_allowed_either() {
    let files = small_files(30);
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .args(["--max-parallel", "3"])
        .arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json["verified"], 30);
    assert_eq!(json["counted_by"], "client");
    assert_eq!(json["peak_in_flight"], 3);
    let counts = server.gauge.counts();
    assert_eq!((counts.begun, counts.peak, counts.in_flight), (30, 3, 0));
    let counts = server.requests.counts();
    assert_eq!(
        (counts.begun, counts.peak),
        (61, 3),
        "reading back included, and the one that asks whether the server answers"
    );
    assert_eq!(
        (&json["requests"], &json["requests_in_all"]),
        (&30.into(), &60.into())
    );
    assert_eq!(server.objects(), contents(files.path()));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_permit_is_enough_for_multipart_uploads() {
    let files = small_files(3);
    add_large(files.path());
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .args(["--max-parallel", "1"])
        .arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["verified"], 4);
    let counts = server.gauge.counts();
    assert_eq!(
        (counts.begun, counts.peak),
        (6, 1),
        "three files and three parts"
    );
    assert_eq!(server.objects(), contents(files.path()));
    assert_eq!(server.left_behind(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn parts_of_one_file_are_sent_at_the_same_time() {
    let files = small_files(0);
    add_large(files.path());
    let server = TestServer::start(0, vec![]).await;
    let running = Running::start(
        server
            .program("uploads")
            .args(["--max-parallel", "8"])
            .arg(files.path()),
    );
    server.gauge.wait_for(|counts| counts.in_flight == 3).await;
    server.open();
    let ended = running.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["peak_in_flight"], 3);
    assert_eq!(server.objects(), contents(files.path()));
}

#[test]
fn a_file_of_exactly_one_part_is_not_split() {
    let files = small_files(0);
    let mib = 1024 * 1024;
    fs::write(files.path().join("file"), vec![7; PART_MIB * mib]).unwrap();
    let ended = run(program()
        .args(["--json", "--verbose", "--part-size", &PART_MIB.to_string()])
        .arg(files.path()));
    assert_eq!(ended.code, Some(0));
    assert_eq!(ended.stderr, "uploaded: file\n");
}

#[test]
fn an_empty_directory_is_a_job_too() {
    let files = small_files(0);
    let ended = run(program().arg("--json").arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(json["files"], 0);
    assert_eq!(json["peak_in_flight"], 0);
    assert_eq!(json["wait_p50_ms"], serde_json::Value::Null);
}

#[test]
fn the_report_in_words_has_the_figures() {
    let files = small_files(9);
    let ended = run(program().args(["--max-parallel", "2"]).arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.contains("requests in flight: 2 at most"),
        "{}",
        ended.stdout
    );
    assert!(
        ended
            .stdout
            .contains("verified: 9, failed: 0, cancelled: 0"),
        "{}",
        ended.stdout
    );
}

/// All files change while two requests are in flight: only the two files already read differ.
#[tokio::test(flavor = "multi_thread")]
async fn no_more_files_are_read_than_may_be_under_way() {
    let files = equal_files(10, 1_000);
    let server = TestServer::start(0, vec![]).await;
    let running = Running::start(
        server
            .program("uploads")
            .args(["--max-parallel", "2"])
            .arg(files.path()),
    );
    server.gauge.wait_for(|counts| counts.in_flight == 2).await;
    for name in contents(files.path()).into_keys() {
        fs::write(files.path().join(name), [255; 1_000]).unwrap();
    }
    server.open();
    let json = running.end().json();
    assert_eq!((&json["verified"], &json["failed"]), (&8.into(), &2.into()));
}

// `--plot` writes a well-formed SVG.

/// Returns the names of the elements if the text is well-formed XML with one root.
fn elements(xml: &str) -> Vec<String> {
    let mut reader = Reader::from_str(xml);
    let mut names = Vec::new();
    let mut depth = 0_usize;
    loop {
        let event = reader.read_event().unwrap();
        if let Event::Start(element) | Event::Empty(element) = &event {
            assert!(depth > 0 || names.is_empty(), "one root");
            names.push(String::from_utf8(element.name().as_ref().to_vec()).unwrap());
            for attribute in element.attributes() {
                attribute.unwrap();
            }
        }
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(depth, 0);
    names
}

#[test]
fn uploads_in_flight_are_drawn() {
    let files = small_files(20);
    let plots = tempfile::tempdir().unwrap();
    let plot = plots.path().join("plot.svg");
    let ended = run(program()
        .args(["--json", "--max-parallel", "3", "--plot"])
        .args([plot.as_path(), files.path()]));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(ended.json()["verified"], 20);
    let svg = fs::read_to_string(plot).unwrap();
    let names = elements(&svg);
    assert_eq!(names[0], "svg");
    assert!(names.iter().any(|name| name == "polyline"));
    assert!(svg.contains("cap: 3"));
}
