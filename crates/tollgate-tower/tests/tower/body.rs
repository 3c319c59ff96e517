//! The permit is held to the end of the body, and no longer.

use hyper::body::{Body, SizeHint};

use super::service::Page;
use super::setup::{Read, Setup, text};
use crate::support::scripted::Log;

const GIVEN_BACK: [&str; 2] = ["drop body", "drop t0"];

fn nothing(log: &Log) -> bool {
    log.take().is_empty()
}

#[test]
fn it_is_held_while_there_is_something_to_read() {
    let mut setup = Setup::new();
    let pages = [Page::Text("1"), Page::NotYet, Page::Text("2"), Page::NotYet];
    let mut body = setup.body(setup.inner.pages(pages));
    let read: Vec<_> = (0..4).map(|_| body.read()).collect();
    assert_eq!(read, [text("1"), Read::NotYet, text("2"), Read::NotYet]);
    assert!(nothing(&setup.log) && !body.0.is_end_stream());
    assert_eq!(body.read(), Read::End);
    // Though the body is still there.
    assert_eq!(setup.log.take(), GIVEN_BACK);
    assert_eq!(body.read(), Read::End);
    assert!(body.0.is_end_stream());
    assert_eq!(body.0.size_hint().exact(), Some(0));
    drop(body);
    assert!(nothing(&setup.log));
}

/// What a body consists of, whether it knows its end, and what is read while the permit is held and
/// with the frame that gives it back.
#[test]
fn it_is_given_back_with_the_last_frame_that_is_read() {
    let table = [
        // What comes after trailers, and after text, is not known.
        (
            vec![Page::Text("1"), Page::Trailers],
            false,
            vec![text("1"), Read::Trailers],
            Read::End,
        ),
        // A server does not ask for more than it was promised.
        (
            vec![Page::Text("1"), Page::Text("2")],
            true,
            vec![text("1")],
            text("2"),
        ),
        // A body that fails is over.
        (
            vec![Page::Text("1"), Page::Fails, Page::Text("2")],
            false,
            vec![text("1")],
            Read::Failed,
        ),
    ];
    for (pages, knows_its_end, held, last) in table {
        let mut setup = Setup::new();
        let mut body = setup.inner.pages(pages);
        body.knows_its_end = knows_its_end;
        let mut body = setup.body(body);
        for expected in held {
            assert_eq!(body.read(), expected);
            assert!(nothing(&setup.log) && !body.0.is_end_stream());
        }
        assert_eq!(body.read(), last);
        assert_eq!(setup.log.take(), GIVEN_BACK);
        assert!(body.0.is_end_stream());
        assert_eq!(body.read(), Read::End);
    }
}

#[test]
fn it_is_given_back_when_the_body_is_dropped() {
    let mut setup = Setup::new();
    for read in 0..2 {
        let pages = [Page::Text("1"), Page::Text("2")];
        let mut body = setup.body(setup.inner.pages(pages));
        for _ in 0..read {
            body.read();
        }
        assert!(nothing(&setup.log));
        drop(body);
        let log = [String::from("drop body"), format!("drop t{read}")];
        assert_eq!(setup.log.take(), log);
    }
}

#[test]
fn it_is_given_back_at_once_if_there_is_nothing_to_read() {
    let mut setup = Setup::new();
    let mut pages = setup.inner.pages([]);
    pages.knows_its_end = true;
    // As an answer to `HEAD`, which tells what there would be.
    pages.size = SizeHint::with_exact(12);
    let mut request = setup.called("a");
    setup.log.take();
    setup.inner.answer(Ok(axum::http::Response::new(pages)));
    let answer = request.output().unwrap();
    assert_eq!(setup.log.take(), ["drop work a", "drop body", "drop t0"]);
    assert!(answer.body().is_end_stream());
    assert_eq!(answer.body().size_hint().exact(), Some(12));
}

#[test]
fn it_looks_like_the_body_inside() {
    let mut setup = Setup::new();
    let mut pages = setup.inner.pages([Page::Text("1"), Page::Text("2")]);
    pages.size.set_lower(2);
    pages.size.set_upper(7);
    let mut body = setup.body(pages);
    assert_eq!(body.0.size_hint().lower(), 2);
    assert_eq!(body.0.size_hint().upper(), Some(7));
    assert!(!body.0.is_end_stream());
    assert_eq!((body.read(), body.read()), (text("1"), text("2")));
    // It does not know yet that this was all.
    assert!(!body.0.is_end_stream());
}

#[test]
fn what_is_said_beside_the_body_goes_through() {
    let mut setup = Setup::new();
    let mut request = setup.called("a");
    let answer = axum::http::Response::builder()
        .status(418)
        .header("x-kind", "teapot")
        .body(setup.inner.pages([]));
    setup.inner.answer(Ok(answer.unwrap()));
    let answer = request.output().unwrap();
    assert_eq!(answer.status(), 418);
    assert_eq!(answer.headers()["x-kind"], "teapot");
    assert!(answer.extensions().is_empty());
}
