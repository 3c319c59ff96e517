//! Tests that the permit is held to the end of the body, and no longer.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;

use axum::http::Response;
use hyper::body::{Body, SizeHint};
use tollgate::{AcquireError, ErrorKind, Semaphore};
use tollgate_tower::{ThrottleLayer, ThrottledBody};
use tower::Layer;

use super::setup::{ManualService, Page, Pages, Read, Reader, Request, Setup, call, text};
use crate::support::assert_at_rest;
use crate::support::scenarios::{Words, check, follow};
use crate::support::scripted::{Lingers, Log, Script, ScriptedPermit};

/// The set-up of the layer: nothing, `refusing` or `timeout TIME`. [`World::call`] has the calls. The log is that of a
/// [`Setup`], whose throttle admits at first.
const ROWS: &str = "
# The body.
the permit is held while there is something to read and not while the body exists | | answered 1 not-yet 2 not-yet, read = 1,
    read = waits, read = 2, read = waits, log, ended = no, read = end, log = drop body > drop t0, 2 x read = end,
    ended = yes with 0, drop-body, log
the body does not know what follows trailers or text | | answered 1 trailers, read = 1, log, ended = no, read = trailers, log,
    ended = no, read = end, log = drop body > drop t0, ended = yes with 0, read = end
a server reads no more than the promised length | | answered knows-its-end 1 2, read = 1, log, ended = no, read = 2,
    log = drop body > drop t0, ended = yes with 0, read = end
a body that fails has ended      | | answered 1 fails 2, read = 1, log, ended = no, read = fails, log = drop body > drop t0,
    ended = yes with 0, read = end
a body is dropped unread         | | answered 1 2, log, drop-body, log = drop body > drop t0
a body is dropped half read      | | answered 1 2, read = 1, log, drop-body, log = drop body > drop t0

# The future of an answer, dropped at each stage: the work goes first and then the permit.
it leaves the queue while it waits | | now wait, ask a, poll a = waits, log = enter t, drop a, log = leave t
it drops the work that is not done | | ask a, poll a = waits, log = enter t > in t0 > call a, drop a,
    log = drop work a > drop t0
the permit is in the answer      | | ask a, poll a = waits, answer 1, poll a = 200,
    log = enter t > in t0 > call a > drop work a, drop a, log, drop-body, log = drop body > drop t0
an error gives the permit back   | | ask a, poll a = waits, log = enter t > in t0 > call a, answer-error, poll a = no answer,
    log = drop work a > drop t0
a refusing layer decides when it is called | refusing | ask a, log = try t > in t0 > call a, drop a,
    log = drop work a > drop t0
# The service asserts that it was made ready; its clones were not.
the service that was made ready is called however long it waits | | now wait, ask a, poll a = waits, ask b, poll b = waits,
    log = enter t > enter t, now admit, woken a = 1, poll a = waits, woken b = 1, poll b = waits,
    log = in t0 > call a > in t1 > call b

# Refusals.
the wait is over and the work gone | | now wait, ask a, poll a = waits, now refuse, woken a = 1, poll a = 503 Closed,
    log = enter t > refuse t
a timeout does not affect a refusal at once | refusing timeout 1h | now wait, ask a, poll a = 429 NoPermits,
    log = try t > refuse t
a timeout of zero admits requests that need not wait | timeout 0ms | ask a, poll a = waits, now wait, ask b,
    poll b = 429 TimedOut, log = enter t > in t0 > call a > enter t > leave t

# Panics.
a service that panics when it is called | | ask panic-in-call, poll panic-in-call = panics,
    log = enter t > in t0 > call panic in call > drop t0, drop panic-in-call, log
a body that panics               | | answered panics, read = panics, drop-body, log = drop body > drop t0
a throttle that panics and then works again | | now panic-when-asked, ask a = panics, now panic-when-polled, ask b,
    poll b = panics, drop b, log = enter t > enter t > leave t, now admit, answered, read = end
a refusing layer around what panics | refusing | now panic-when-asked, ask a = panics, log = try t, now admit,
    ask panic-in-call = panics, log = try t > in t0 > call panic in call > drop t0
an answered request is not polled again | | ask a, poll a = waits, answer, poll a = 200, drop-body, poll a = panics
a refused request is not polled again | | now refuse, ask a, poll a = 503 Closed, poll a = panics
";

struct World {
    setup: Setup,
    requests: BTreeMap<String, Request>,
    body: Option<Reader<ThrottledBody<Pages, ScriptedPermit>>>,
}

/// The pages of a body, if it knows its end, `knows-its-end` before them.
fn pages(inner: &ManualService, words: &mut Words<'_>) -> Pages {
    let knows_its_end = words.says("knows-its-end");
    let page = |word: String| match word.as_str() {
        "1" => Page::Text("1"),
        "2" => Page::Text("2"),
        "not-yet" => Page::NotYet,
        "trailers" => Page::Trailers,
        "fails" => Page::Fails,
        "panics" => Page::Panics,
        word => panic!("no page: {word}"),
    };
    let mut pages = inner.pages(std::iter::from_fn(|| words.maybe()).map(page));
    pages.knows_its_end = knows_its_end;
    pages
}

impl World {
    /// Does a call:
    ///
    /// - `ask` for an answer to a request of this name, which `poll` shows: its status, and why it was refused;
    /// - `answer` with these pages, or `answer-error`; `answered`: the four steps to a body, before whose log it begins;
    /// - `read` the body, `drop-body`; `ended`: whether it has, and its size then; `drop` a request;
    /// - `now`: what the throttle does from now on; `woken`: how often a request was; `log`.
    fn call(&mut self, name: &str, words: &mut Words<'_>) -> String {
        match name {
            "now" => self.setup.throttle.now(match words.word() {
                "admit" => Script::Admit,
                "wait" => Script::Wait,
                "refuse" => Script::Refuse(ErrorKind::Closed),
                "panic-when-asked" => Script::PanicWhenAsked,
                "panic-when-polled" => Script::PanicWhenPolled,
                word => panic!("no script: {word}"),
            }),
            "ask" => {
                let word = words.word();
                let known = ["a", "b", "panic in call"].into_iter();
                let name = known
                    .into_iter()
                    .find(|name| name.replace(' ', "-") == word);
                return caught(|| {
                    let request = self.setup.request(name.expect("a known name"));
                    self.requests.insert(word.to_owned(), request);
                    String::new()
                });
            }
            "poll" => {
                let request = self.requests.get_mut(words.word()).expect("a request");
                let body = &mut self.body;
                return caught(|| match request.poll() {
                    Poll::Pending => "waits".into(),
                    Poll::Ready(Err(error)) => error.to_owned(),
                    Poll::Ready(Ok(answer)) => {
                        let refused = answer.extensions().get::<AcquireError>();
                        let refused = refused.map(|error| format!(" {:?}", error.kind()));
                        let status = answer.status().as_u16();
                        *body = Some(Reader(Box::pin(answer.into_body())));
                        format!("{status}{}", refused.unwrap_or_default())
                    }
                });
            }
            "answer" => {
                let pages = pages(&self.setup.inner, words);
                self.setup.inner.answer(Ok(Response::new(pages)));
            }
            "answered" => {
                let pages = pages(&self.setup.inner, words);
                self.body = Some(self.setup.body(pages));
            }
            "answer-error" => self.setup.inner.answer(Err("no answer")),
            "read" => {
                let body = self.body.as_mut().expect("a body");
                return caught(|| match body.read() {
                    Read::Text(text) => text,
                    Read::Trailers => "trailers".into(),
                    Read::Failed => "fails".into(),
                    Read::End => "end".into(),
                    Read::NotYet => "waits".into(),
                });
            }
            "ended" => {
                let body = &self.body.as_ref().expect("a body").0;
                return match body.size_hint().exact() {
                    _ if !body.is_end_stream() => "no".into(),
                    Some(size) => format!("yes with {size}"),
                    None => "yes".into(),
                };
            }
            "drop-body" => drop(self.body.take()),
            "drop" => drop(self.requests.remove(words.word())),
            "woken" => return self.requests[words.word()].wakes().to_string(),
            "log" => return self.setup.log.take().join(" > "),
            name => panic!("no call: {name}"),
        }
        String::new()
    }
}

/// Returns what a call shows, which is also that it panics.
fn caught(call: impl FnOnce() -> String) -> String {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| "panics".into())
}

#[test]
fn the_permit_comes_back_as_the_rows_say() {
    check(ROWS, |row| {
        let setup = Setup::with(|throttle| {
            let (mut layer, mut words) = (ThrottleLayer::new(throttle), Words::new(&row.setup));
            if words.says("refusing") {
                layer = layer.refusing();
            }
            if words.says("timeout") {
                layer = layer.timeout(words.time());
            }
            words.end();
            layer
        });
        let mut world = World {
            setup,
            requests: BTreeMap::new(),
            body: None,
        };
        follow(row, |name, words| world.call(name, words))
    });
}

#[test]
fn it_is_given_back_at_once_if_there_is_nothing_to_read() {
    let mut setup = Setup::new();
    let mut pages = setup.inner.pages([]);
    pages.knows_its_end = true;
    // An answer to `HEAD` has the size hint of the body that a `GET` would return.
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
    // The body does not know yet that this was all.
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

// Drops the future of an answer at each stage, or completes it. Everything taken is returned,
// the work first and then the permit.

#[test]
fn the_wait_is_dropped_as_soon_as_it_is_over() {
    let log = Log::default();
    let inner = ManualService::new(&log);
    let call = |throttle| call(&mut ThrottleLayer::new(throttle).layer(inner.clone()), "a");
    let mut admitted = call(Lingers::admits(&log));
    assert!(admitted.is_pending());
    assert_eq!(log.take(), ["over", "call a"]);
    let mut refused = call(Lingers::refuses(&log));
    assert!(refused.output().is_ok());
    // The wait is dropped although the future still exists.
    assert_eq!(log.take(), ["over"]);
}

#[test]
fn each_end_of_a_request_admits_the_next() {
    let slots = Semaphore::new(1);
    let mut setup = Setup::behind(&slots);
    let first = setup.called("a");
    let second = setup.called("b");
    let mut third = setup.called("c");
    let fourth = setup.called("d");
    let mut fifth = setup.called("e");
    assert_eq!(
        (setup.log.take(), slots.snapshot().waiting),
        (vec!["call a".into()], 4)
    );
    // The second request is dropped while it is in the queue.
    drop(second);
    assert_eq!(third.wakes(), 0);
    // The first request is dropped while it is being answered.
    drop(first);
    assert_eq!(third.wakes(), 1);
    assert!(third.is_pending());
    assert_eq!(setup.log.take(), ["drop work a", "call c"]);
    // The request is admitted, and dropped before it noticed.
    setup
        .inner
        .answer(Err("nobody reads it: the request is gone"));
    setup.inner.answer(Err("no answer"));
    assert!(third.output().is_err());
    assert_eq!(fourth.wakes(), 1);
    drop(fourth);
    assert_eq!(fifth.wakes(), 1);
    assert!(fifth.is_pending());
    setup.inner.send([Page::Text("1"), Page::Text("2")]);
    let answer = fifth.output().unwrap();
    drop(fifth);
    assert_eq!(slots.available_permits(), 0);
    // The body has been read halfway.
    let mut body = Reader(Box::pin(answer.into_body()));
    assert_eq!(body.read(), text("1"));
    assert_eq!(slots.available_permits(), 0);
    drop(body);
    assert_at_rest(&slots, 1);
}

/// A future that waits for its slot can be polled by one task and then by another.
#[test]
fn the_waker_that_came_last_is_woken() {
    use std::sync::Arc;
    use std::task::Waker;

    use crate::support::Counter;

    let slots = Semaphore::new(0);
    let mut setup = Setup::behind(&slots);
    let mut request = setup.called("a");
    let last = Arc::new(Counter::default());
    let waker = Waker::from(Arc::clone(&last));
    assert!(request.poll_with(&waker).is_pending());
    slots.set_permits(1);
    assert_eq!((request.wakes(), last.count()), (0, 1));
}

// Tests panics of the service, of a body and of the throttle: the permit is returned, and no other
// request loses its place before the panic propagates.

/// Runs a closure that panics on purpose.
#[track_caller]
fn panics<R>(run: impl FnOnce() -> R) {
    assert!(catch_unwind(AssertUnwindSafe(run)).is_err(), "no panic");
}

/// An executor drops the task after a panic like this.
#[test]
fn work_that_panics_gives_the_permit_back_when_it_is_dropped() {
    let slots = Semaphore::new(1);
    let mut setup = Setup::behind(&slots);
    let mut request = setup.request("panic in work");
    let mut next = {
        panics(|| request.poll());
        setup.called("b")
    };
    drop(request);
    assert_eq!(next.wakes(), 1);
    assert!(next.is_pending());
    setup
        .inner
        .answer(Err("nobody reads it: the request is gone"));
    setup.inner.send([]);
    drop(next.output());
    assert_at_rest(&slots, 1);
}
