//! Tests a rate limiter as a stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::stream::FusedStream;
use tollgate::rate::Charge;
use tollgate::wait::Waiting;
use tollgate::{Clock, ErrorKind, LeakyBucket, Quota, RateLimiter, Throttle, TryThrottle};
use tollgate_io::stream::{ThrottleStreamExt, Ticks};

use super::Polled;
use crate::Limits;
use crate::support::Waiter;
use crate::support::scenarios::{Row, Words, check, follow};

/// The set-up is that of the limiter, see [`Limits`]; [`World::call`] has the calls.
const ROWS: &str = "
it yields at the rate to the tick | of 10 1 | next a = now,
    20 x next a = waits + pass 100ms-1ns + next a = waits + woken a = 0 + pass 1ns + woken a = 1 + next a = now
a burst is yielded at once and missed ticks only as a burst | of 100 3 | 2 x next a = now + next a = now + next a = now +
    next a = waits + pass 10ms-1ns + next a = waits + woken a = 0 + pass 1ns + woken a = 1 + next a = now + pass 5s
streams and another caller take turns | of 10 1 left 0 | next a = waits, next b = waits, next c = waits, acquire, pass 100ms,
    next a = now, next a = waits, pass 100ms, next b = now, next b = waits, pass 100ms, next c = now, next c = waits, pass 100ms,
    acquired = yes, 4 x pass 100ms + next a = now + next a = waits + pass 100ms + next b = now + next b = waits + pass 100ms +
    next c = now + next c = waits
closing ends it also while it waits | of 10 1 | next a = now, next a = waits, refused a = no, close, woken a = 1, 3 x next a = end,
    refused a = Closed, 3 x next b = end, refused b = Closed
a full queue ends it even when there is room again | of 10 1 queue 1 | next a = now, acquire, next a = end,
    refused a = QueueFull for 100ms, pass 1s, next a = end
it is in the queue while it waits and a drop leaves | of 10 1 | next a = now, waiting = 0, next a = waits, waiting = 1,
    pass 100ms, waiting = 0, refund a, next a = now, next a = waits, acquire, waiting = 2, drop a, waiting = 1, pass 100ms,
    acquired = yes
a tick that was not read is yielded next or given back | of 10 1 | next a = now, next a = waits, pass 150ms, next a = 100ms,
    next a = waits, pass 50ms, try = RateLimited, drop a, try = now
a wait for the next keeps its place | of 10 1 | next a = now, next a = waits, acquire, pass 100ms, next a = now, acquired = no
a new quota moves the next tick  | of 1 1 | next a = now, next a = waits, quota 10 1, pass 100ms, next a = now, next a = waits,
    pass 100ms-1ns, next a = waits, pass 1ns, woken a = 1, next a = now
";

type Limiter = Arc<RateLimiter>;

/// The streams of a limiter, which come into being when they are first named, and how often each had been woken when
/// it was last polled.
struct World {
    limits: Limits,
    streams: BTreeMap<String, (Polled<Ticks<Limiter>>, usize)>,
    others: Vec<Waiter<Waiting<<Limiter as Throttle>::Enter>>>,
}

impl World {
    /// Does a call: `next` shows when a tick was charged; `acquire` and `try` are those of other callers.
    fn call(&mut self, name: &str, words: &mut Words<'_>) -> String {
        let limiter = Arc::clone(&self.limits.limiter);
        let now = self.limits.clock.now().as_nanos();
        let at = |charge: Charge| match charge.at().as_nanos() {
            at if at == now => "now".to_owned(),
            at => format!("{:?}", Duration::from_nanos(at)),
        };
        match name {
            "next" => {
                let (stream, seen) = self.named(words);
                let polled = stream.poll();
                *seen = stream.wakes();
                let ended = matches!(polled, Poll::Ready(None));
                assert_eq!(stream.stream.is_terminated(), ended);
                return match polled {
                    Poll::Ready(Some(charge)) => at(charge),
                    Poll::Ready(None) => "end".into(),
                    Poll::Pending => "waits".into(),
                };
            }
            "woken" => {
                let (stream, seen) = self.named(words);
                return (stream.wakes() - *seen).to_string();
            }
            "refused" => {
                return match self.named(words).0.stream.refused() {
                    None => "no".into(),
                    Some(error) => match error.retry_after().filter(|after| *after < Duration::MAX)
                    {
                        None => format!("{:?}", error.kind()),
                        Some(after) => format!("{:?} for {after:?}", error.kind()),
                    },
                };
            }
            "refund" => {
                let charge = self.named(words).0.next();
                limiter.refund(charge.expect("a tick"));
            }
            "drop" => drop(self.streams.remove(words.word())),
            "acquire" => self.others.push(Waiter::parked(limiter.enter())),
            "acquired" => {
                let polled = self.others[0].poll();
                return if polled.is_ready() { "yes" } else { "no" }.into();
            }
            "try" => {
                return match limiter.try_enter() {
                    Ok(charge) => at(charge),
                    Err(error) => format!("{:?}", error.kind()),
                };
            }
            name => return self.limits.call(name, words),
        }
        String::new()
    }

    /// Returns the stream that the next word names.
    fn named(&mut self, words: &mut Words<'_>) -> &mut (Polled<Ticks<Limiter>>, usize) {
        let fresh = || (Polled::new(Arc::clone(&self.limits.limiter).ticks()), 0);
        let name = words.word().to_owned();
        self.streams.entry(name).or_insert_with(fresh)
    }
}

#[test]
fn ticks_come_as_the_rows_say() {
    check(ROWS, |row: &Row| {
        let mut world = World {
            limits: Limits::new(&row.setup, |word, _| panic!("no set-up: {word}")),
            streams: BTreeMap::new(),
            others: Vec::new(),
        };
        follow(row, |name, words| world.call(name, words))
    });
}

#[test]
fn a_leaky_bucket_releases_one_after_the_other() {
    let clock = Clock::manual();
    let bucket = LeakyBucket::new(Quota::per_second(10), 1).clock(&clock);
    let mut ticks = Polled::new(bucket.ticks());
    for pause in [0, 0, 5000, 0] {
        assert_eq!(ticks.next().map(|charge| charge.at()), Some(clock.now()));
        if pause > 0 {
            clock.advance(Duration::from_millis(pause));
            assert_eq!(ticks.next().map(|charge| charge.at()), Some(clock.now()));
        }
        ticks.assert_pending();
        clock.advance(Duration::from_nanos(99_999_999));
        ticks.assert_pending();
        let seen = ticks.wakes();
        clock.advance(Duration::from_nanos(1));
        assert_eq!(ticks.wakes(), seen + 1);
    }
    ticks.next();
    // The stream has the only place in the queue, so no other caller or stream can join.
    ticks.assert_pending();
    assert_eq!(
        Waiter::new(bucket.acquire()).refused(),
        ErrorKind::QueueFull
    );
    assert!(Polled::new(bucket.ticks()).next().is_none());
    bucket.close();
    assert!(ticks.next().is_none());
    assert!(ticks.stream.is_terminated());
    let refused = ticks.stream.refused().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::Closed));
}

#[test]
fn it_shows_why_it_has_ended() {
    let limiter = RateLimiter::new(Quota::per_hour(1)).clock(Clock::manual());
    let mut ticks = Polled::new(limiter.ticks());
    assert_eq!(format!("{:?}", ticks.stream), "Ticks { refused: None, .. }");
    limiter.close();
    assert!(ticks.next().is_none());
    let shown = format!("{:?}", ticks.stream);
    assert!(shown.contains("kind: Closed"), "{shown}");
}
