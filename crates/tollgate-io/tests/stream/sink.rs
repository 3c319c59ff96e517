//! Tests sinks behind a throttle. One unit arrives each millisecond, and up to 1,000 accumulate.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures::Sink;
use tollgate::{Clock, ErrorKind, ManualClock, Quota, RateLimiter};
use tollgate_io::stream::{LimitSinkExt, SinkError};

use crate::support::foreign::panic_message;

const MS: Duration = Duration::from_millis(1);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    NotReady,
    FailsToSend,
}

/// Accepts items, and performs one step for each `poll_ready` while there are any.
#[derive(Debug, Default)]
struct Target {
    steps: VecDeque<Step>,
    fails: bool,
    items: Vec<u64>,
    /// The number of calls of `poll_flush` and `poll_close` that will still be pending.
    blocked: u32,
    flushed: u32,
    closed: u32,
}

impl Target {
    fn end(&mut self) -> Poll<Result<(), &'static str>> {
        if self.blocked > 0 {
            self.blocked -= 1;
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }
}

impl Sink<u64> for Target {
    type Error = &'static str;

    fn poll_ready(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let step = self.steps.pop_front();
        self.fails = step == Some(Step::FailsToSend);
        match step {
            Some(Step::NotReady) => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn start_send(mut self: Pin<&mut Self>, item: u64) -> Result<(), &'static str> {
        if self.fails {
            return Err("it failed");
        }
        self.items.push(item);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.flushed += 1;
        self.end()
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.closed += 1;
        self.end()
    }
}

fn limiter() -> (RateLimiter, ManualClock) {
    let clock = Clock::manual();
    let quota = Quota::per_second(1000).burst(1000);
    (RateLimiter::new(quota).clock(&clock), clock)
}

type Ended = Poll<Result<(), SinkError<&'static str>>>;

fn ready<S: Sink<u64, Error = SinkError<&'static str>> + Unpin>(sink: &mut S) -> Ended {
    Pin::new(sink).poll_ready(&mut Context::from_waker(Waker::noop()))
}

fn flush<S: Sink<u64, Error = SinkError<&'static str>> + Unpin>(sink: &mut S) -> Ended {
    Pin::new(sink).poll_flush(&mut Context::from_waker(Waker::noop()))
}

fn close<S: Sink<u64, Error = SinkError<&'static str>> + Unpin>(sink: &mut S) -> Ended {
    Pin::new(sink).poll_close(&mut Context::from_waker(Waker::noop()))
}

/// Returns whether the limiter refused because it is closed.
fn refused(ended: Ended) -> bool {
    matches!(ended, Poll::Ready(Err(SinkError::Limiter(error))) if error.kind() == ErrorKind::Closed)
}

/// Sends an item; the sink must be ready for it.
#[track_caller]
fn send<S: Sink<u64, Error = SinkError<&'static str>> + Unpin>(sink: &mut S, item: u64) {
    assert!(matches!(ready(sink), Poll::Ready(Ok(()))));
    assert!(Pin::new(sink).start_send(item).is_ok());
}

#[test]
fn poll_flush_charges_an_item_before_it_is_sent() {
    let (limiter, clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 600);
    assert_eq!(limiter.snapshot().available, 1000);
    send(&mut sink, 500);
    assert_eq!(
        (
            limiter.snapshot().available,
            sink.get_ref().items.as_slice()
        ),
        (400, &[600][..])
    );
    assert!(flush(&mut sink).is_pending());
    assert_eq!(limiter.snapshot().waiting, 1);
    clock.advance(100 * MS);
    assert!(flush(&mut sink).is_ready());
    assert_eq!(sink.into_inner().items, [600, 500]);
    assert_eq!(limiter.snapshot().available, 0);
}

#[test]
fn poll_flush_of_an_item_above_the_burst_overdraws() {
    let (limiter, clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 1500);
    send(&mut sink, 1);
    assert_eq!(sink.get_ref().items, [1500]);
    clock.advance(500 * MS);
    assert!(flush(&mut sink).is_pending());
    clock.advance(MS);
    assert!(flush(&mut sink).is_ready());
    assert_eq!(sink.get_ref().items, [1500, 1]);
}

#[test]
fn poll_flush_of_a_free_item_does_not_enter() {
    let (limiter, _clock) = limiter();
    limiter.close();
    let mut sink = Target::default().limited(&limiter, |_| 0);
    send(&mut sink, 7);
    assert!(flush(&mut sink).is_ready());
    assert_eq!(sink.get_ref().items, [7]);
}

#[test]
fn poll_flush_of_a_pending_sink_charges_nothing() {
    let (limiter, _clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 600);
    sink.get_mut().steps.push_back(Step::NotReady);
    assert!(flush(&mut sink).is_pending());
    assert_eq!(
        (limiter.snapshot().available, limiter.snapshot().waiting),
        (1000, 0)
    );
    assert!(flush(&mut sink).is_ready());
    assert_eq!(limiter.snapshot().available, 400);
}

#[test]
fn poll_flush_of_a_failing_sink_refunds() {
    let (limiter, _clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 600);
    sink.get_mut().steps.push_back(Step::FailsToSend);
    assert!(matches!(
        flush(&mut sink),
        Poll::Ready(Err(SinkError::Inner("it failed")))
    ));
    assert_eq!(limiter.snapshot().available, 1000);
    // The item is lost, because the inner sink has taken it.
    send(&mut sink, 5);
    assert!(flush(&mut sink).is_ready());
    assert_eq!(sink.get_ref().items, [5]);
}

/// `StreamExt::forward` calls it like this and flushes only when its stream has nothing. Without this flush, items
/// already passed on would stay in the buffer of the inner sink.
#[test]
fn poll_ready_in_a_wait_flushes_the_inner_sink() {
    let (limiter, _clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 1000);
    send(&mut sink, 1);
    assert_eq!(sink.get_ref().flushed, 0);
    sink.get_mut().blocked = 1;
    for flushed in 1..=3 {
        assert!(ready(&mut sink).is_pending());
        assert_eq!(sink.get_ref().flushed, flushed);
    }
    assert!(flush(&mut sink).is_pending());
    assert_eq!(sink.get_ref().flushed, 4);
    assert_eq!(
        (sink.get_ref().items.len(), limiter.snapshot().waiting),
        (1, 1)
    );
}

#[test]
fn poll_close_with_a_refused_item_leaves_the_inner_sink_open() {
    let (limiter, _clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 5);
    send(&mut sink, 6);
    limiter.close();
    assert!(refused(close(&mut sink)));
    assert_eq!(sink.get_ref().closed, 0);
    let (target, item) = sink.into_parts();
    assert_eq!((target.items, item), (vec![5], Some(6)));
}

#[test]
fn into_parts_and_drop_in_a_wait_charge_nothing() {
    for drops in [false, true] {
        let (limiter, clock) = limiter();
        let mut sink = Target::default().limited(&limiter, |item| *item);
        send(&mut sink, 1000);
        send(&mut sink, 10);
        assert!(flush(&mut sink).is_pending());
        if !drops {
            assert_eq!(sink.into_parts().1, Some(10));
        } else {
            drop(sink);
        }
        clock.advance(5 * MS);
        assert_eq!(
            (limiter.snapshot().available, limiter.snapshot().waiting),
            (5, 0)
        );
    }
}

#[test]
fn poll_flush_with_a_closed_limiter_keeps_the_item() {
    let (limiter, _clock) = limiter();
    limiter.close();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 5);
    for _ in 0..2 {
        assert!(refused(flush(&mut sink)));
    }
    assert!(sink.get_ref().items.is_empty());
}

#[test]
fn poll_close_sends_the_item_first() {
    let (limiter, _clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 5);
    assert!(close(&mut sink).is_ready());
    assert_eq!(
        (sink.get_ref().items.as_slice(), sink.get_ref().closed),
        (&[5][..], 1)
    );
}

#[test]
fn start_send_without_poll_ready_panics_and_keeps_the_first_item() {
    let (limiter, _clock) = limiter();
    let mut sink = Target::default().limited(&limiter, |item| *item);
    send(&mut sink, 5);
    let message = panic_message(|| Pin::new(&mut sink).start_send(6));
    assert_eq!(
        message.as_deref(),
        Some("an item was sent to a sink that was not ready")
    );
    assert!(flush(&mut sink).is_ready());
    assert_eq!(sink.get_ref().items, [5]);
}
