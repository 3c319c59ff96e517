//! Tests sinks behind a throttle: each item costs its own value.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use futures::Sink;
use tollgate::RateLimiter;
use tollgate_io::stream::{LimitSinkExt, LimitedSink, SinkError};

use crate::support::foreign::panic_message;
use crate::support::scenarios::{Row, Words, check, follow};
use crate::{Limits, listed};

const SENDS: &str = "
an item is charged before it is sent | | send 600, left = 1000, send 500, left = 400, sent = 600, flush = waits, waiting = 1,
    pass 100ms, flush = ready, sent = 600 500, left = 0
an item above the burst overdraws | | send 1500, send 1, sent = 1500, pass 500ms, flush = waits, pass 1ms, flush = ready,
    sent = 1500 1
the whole cost is awaited        | left 700 | send 800, flush = waits, pass 99ms, flush = waits, pass 1ms,
    flush = ready, left = 0
a free item does not ask         | | close, send 0, flush = ready, sent = 0
a sink that is not ready is charged nothing | | send 600, script not-ready, flush = waits, left = 1000, waiting = 0,
    flush = ready, left = 400
a sink that fails is refunded and its item is lost | | send 600, script fails, flush = fails, left = 1000, send 5,
    flush = ready, sent = 5
# `StreamExt::forward` polls like this and flushes only when its stream has nothing. Without the flush, items already
# passed on would stay in the buffer of the inner sink.
a wait flushes the inner sink | | send 1000, send 1, flushed = 0, block, ready = waits, flushed = 1,
    ready = waits, flushed = 2, ready = waits, flushed = 3, flush = waits, flushed = 4, sent = 1000, waiting = 1
a closed limiter keeps the item  | | close, send 5, 2 x flush = Closed, sent, take = 5
a refused item leaves the inner sink open | | send 5, send 6, close, end = Closed, ended = 0, sent = 5, take = 6
the item is sent before the end  | | send 5, end = ready, sent = 5, ended = 1, left = 995
the end waits for the item       | | send 1000, send 10, end = waits, ended = 0, pass 10ms, end = ready, ended = 1, sent = 1000 10
the item is taken from a wait uncharged | | send 1000, send 10, flush = waits, take = 10, pass 5ms, left = 5, waiting = 0
a drop in a wait charges nothing | | send 1000, send 10, flush = waits, drop, pass 5ms, left = 5, waiting = 0
an item is sent unasked and the first one is kept | | send 5, send-unasked 6 = an item was sent to a sink that was not ready,
    flush = ready, sent = 5
";

/// Accepts items, and performs one step for each `poll_ready` while there are any.
#[derive(Debug, Default)]
struct Target {
    steps: VecDeque<String>,
    fails: bool,
    items: Vec<u64>,
    /// Whether the next flush is pending.
    blocked: bool,
    flushed: u32,
    ended: u32,
}

impl Sink<u64> for Target {
    type Error = &'static str;

    fn poll_ready(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        let step = self.steps.pop_front();
        self.fails = step.as_deref() == Some("fails");
        match step.as_deref() {
            Some("not-ready") => Poll::Pending,
            _ => Poll::Ready(Ok(())),
        }
    }

    fn start_send(mut self: Pin<&mut Self>, item: u64) -> Result<(), &'static str> {
        if self.fails {
            return Err("fails");
        }
        self.items.push(item);
        Ok(())
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.flushed += 1;
        if std::mem::take(&mut self.blocked) {
            return Poll::Pending;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        self.ended += 1;
        Poll::Ready(Ok(()))
    }
}

type Limited = LimitedSink<Target, u64, Arc<RateLimiter>, fn(&u64) -> u64>;

/// Does a call of a sink. `send` waits for nothing; `end` closes the sink, and `close` the limiter. `script` is the
/// next step of the inner sink, and `block` holds up its next flush.
fn call(sink: &mut Option<Limited>, limits: &Limits, name: &str, words: &mut Words<'_>) -> String {
    if let "take" | "drop" = name {
        let kept = match (name, sink.take().expect("a sink")) {
            ("take", sink) => sink.into_parts().1,
            (_, sink) => {
                drop(sink);
                None
            }
        };
        return kept.map_or(String::new(), |item| item.to_string());
    }
    let mut context = Context::from_waker(Waker::noop());
    let Some(sink) = sink else {
        return limits.call(name, words);
    };
    let shown = |polled: Poll<Result<(), SinkError<&str>>>| match polled {
        Poll::Pending => "waits".to_owned(),
        Poll::Ready(Ok(())) => "ready".to_owned(),
        Poll::Ready(Err(SinkError::Inner(error))) => error.to_owned(),
        Poll::Ready(Err(SinkError::Limiter(error))) => format!("{:?}", error.kind()),
        Poll::Ready(Err(error)) => panic!("{error}"),
    };
    match name {
        "send" => {
            let ready = Pin::new(&mut *sink).poll_ready(&mut context);
            assert_eq!(shown(ready), "ready");
            assert!(Pin::new(sink).start_send(words.parse()).is_ok());
        }
        "send-unasked" => {
            let unasked = panic_message(|| Pin::new(sink).start_send(words.parse()));
            return unasked.expect("a panic");
        }
        "ready" => return shown(Pin::new(sink).poll_ready(&mut context)),
        "flush" => return shown(Pin::new(sink).poll_flush(&mut context)),
        "end" => return shown(Pin::new(sink).poll_close(&mut context)),
        "script" => sink.get_mut().steps.push_back(words.word().to_owned()),
        "block" => sink.get_mut().blocked = true,
        "sent" => return listed(&sink.get_ref().items),
        "flushed" => return sink.get_ref().flushed.to_string(),
        "ended" => return sink.get_ref().ended.to_string(),
        name => return limits.call(name, words),
    }
    String::new()
}

#[test]
fn limited_sink_sends_what_the_limiter_admits() {
    check(SENDS, |row: &Row| {
        let limits = Limits::new(&row.setup, |word, _| panic!("no set-up: {word}"));
        let cost: fn(&u64) -> u64 = |item| *item;
        let mut sink = Some(Target::default().limited(Arc::clone(&limits.limiter), cost));
        follow(row, |name, words| call(&mut sink, &limits, name, words))
    });
}
