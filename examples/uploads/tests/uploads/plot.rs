//! `--plot` writes a well-formed SVG.

mod common;

use std::fs;

use common::{program, run, small_files};
use quick_xml::Reader;
use quick_xml::events::Event;

/// The names of the elements, if it is well-formed XML with one root.
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
