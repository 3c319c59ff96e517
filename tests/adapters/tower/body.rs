//! The permit is held to the end of the body, and no longer.

use hyper::body::{Body, SizeHint};

use super::desk::Page;
use super::office::{Office, Read, text};
use crate::support::scripted::Log;

const GIVEN_BACK: [&str; 2] = ["drop body", "drop t0"];

fn nothing(log: &Log) -> bool {
    log.take().is_empty()
}

#[test]
fn it_is_held_while_there_is_something_to_read() {
    let mut office = Office::new();
    let pages = [Page::Text("1"), Page::NotYet, Page::Text("2"), Page::NotYet];
    let mut body = office.body(office.desk.pages(pages));
    let read: Vec<_> = (0..4).map(|_| body.read()).collect();
    assert_eq!(read, [text("1"), Read::NotYet, text("2"), Read::NotYet]);
    assert!(nothing(&office.log) && !body.0.is_end_stream());
    assert_eq!(body.read(), Read::End);
    // Though the body is still there.
    assert_eq!(office.log.take(), GIVEN_BACK);
    assert_eq!(body.read(), Read::End);
    assert!(body.0.is_end_stream());
    assert_eq!(body.0.size_hint().exact(), Some(0));
    drop(body);
    assert!(nothing(&office.log));
}

#[test]
fn it_is_held_until_the_trailers_were_read() {
    let mut office = Office::new();
    let pages = [Page::Text("1"), Page::Trailers];
    let mut body = office.body(office.desk.pages(pages));
    assert_eq!((body.read(), body.read()), (text("1"), Read::Trailers));
    assert!(nothing(&office.log));
    assert_eq!(body.read(), Read::End);
    assert_eq!(office.log.take(), GIVEN_BACK);
}

/// A server does not ask for more than it was promised.
#[test]
fn it_is_given_back_with_the_last_frame_of_a_body_that_knows_its_end() {
    let mut office = Office::new();
    let mut pages = office.desk.pages([Page::Text("1"), Page::Text("2")]);
    pages.knows_its_end = true;
    let mut body = office.body(pages);
    assert_eq!(body.read(), text("1"));
    assert!(nothing(&office.log) && !body.0.is_end_stream());
    assert_eq!(body.read(), text("2"));
    assert_eq!(office.log.take(), GIVEN_BACK);
    assert!(body.0.is_end_stream());
}

#[test]
fn it_is_given_back_when_the_body_fails_which_ends_it() {
    let mut office = Office::new();
    let pages = [Page::Text("1"), Page::Fails, Page::Text("2")];
    let mut body = office.body(office.desk.pages(pages));
    assert_eq!((body.read(), body.read()), (text("1"), Read::Failed));
    assert_eq!(office.log.take(), GIVEN_BACK);
    assert_eq!(body.read(), Read::End);
}

#[test]
fn it_is_given_back_when_the_body_is_dropped() {
    let mut office = Office::new();
    for read in 0..2 {
        let pages = [Page::Text("1"), Page::Text("2")];
        let mut body = office.body(office.desk.pages(pages));
        for _ in 0..read {
            body.read();
        }
        assert!(nothing(&office.log));
        drop(body);
        let log = [String::from("drop body"), format!("drop t{read}")];
        assert_eq!(office.log.take(), log);
    }
}

#[test]
fn it_is_given_back_at_once_if_there_is_nothing_to_read() {
    let mut office = Office::new();
    let mut pages = office.desk.pages([]);
    pages.knows_its_end = true;
    // As an answer to `HEAD`, which tells what there would be.
    pages.size = SizeHint::with_exact(12);
    let mut request = office.called("a");
    office.log.take();
    office.desk.answer(Ok(axum::http::Response::new(pages)));
    let answer = request.output().unwrap();
    assert_eq!(office.log.take(), ["drop work a", "drop body", "drop t0"]);
    assert!(answer.body().is_end_stream());
    assert_eq!(answer.body().size_hint().exact(), Some(12));
}

#[test]
fn it_looks_like_the_body_inside() {
    let mut office = Office::new();
    let mut pages = office.desk.pages([Page::Text("1"), Page::Text("2")]);
    pages.size.set_lower(2);
    pages.size.set_upper(7);
    let mut body = office.body(pages);
    assert_eq!(body.0.size_hint().lower(), 2);
    assert_eq!(body.0.size_hint().upper(), Some(7));
    assert!(!body.0.is_end_stream());
    assert_eq!((body.read(), body.read()), (text("1"), text("2")));
    // It does not know yet that this was all.
    assert!(!body.0.is_end_stream());
}

#[test]
fn what_is_said_beside_the_body_goes_through() {
    let mut office = Office::new();
    let mut request = office.called("a");
    let answer = axum::http::Response::builder()
        .status(418)
        .header("x-kind", "teapot")
        .body(office.desk.pages([]));
    office.desk.answer(Ok(answer.unwrap()));
    let answer = request.output().unwrap();
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.headers()["x-kind"], "teapot");
    assert!(answer.extensions().is_empty());
}
