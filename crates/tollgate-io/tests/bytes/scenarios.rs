//! Tests sequences of calls of readers, writers and bodies: one table for both directions of each kind of reader
//! and writer, and one for bodies.

use std::collections::BTreeMap;
use std::io::{self, IoSlice, SeekFrom};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncSeek, AsyncWrite};
use tollgate::{AcquireError, RateLimiter};
use tollgate_io::{ThrottleIoExt, Throttled};

use super::{Step, Stream, inside, poll_read};
use crate::support::Counter;
use crate::support::scenarios::{Row, Words, check, follow};
use crate::{Limits, listed};

/// Each row runs four times: `move` reads or writes, by the traits of tokio or those of futures. After the limiter's
/// words (see [`Limits`]), a set-up has those of each new stream: `chunk N`, `reads-only`, `writes-only`, and for a
/// body its size hint, `size LEAST MOST`. [`Limits::call`] has the calls of the limiter, [`World::call`] the others.
const MOVES: &str = "
only moved bytes are charged     | | script a 1 30, move a 100 = 1, left = 999, move a 100 = 30, left = 969,
    move a 100 = 100, left = 869
a stream that moves nothing is refunded in the same poll | | script a not-ready fails ends, move a 100 = waits,
    left = 1000, waiting = 0, move a 100 = fails, left = 1000, move a 100 = 0, left = 1000, asked a = 100 100 100
a stream that panics is refunded | | script a panics, move a 100 = panics, left = 1000, move a 100 = 100, left = 900
a call for no bytes asks nobody  | left 0 | close, move a 0 = 0, asked a = 0
a claim is charged as what it was given | | script a claims, write a 10 = 18446744073709551615, left = 990

# Waits.
the stream is called after the wait | left 40 | move a 100 = waits, waiting = 1, asked a, pass 59ms, woken a = 0,
    pass 1ms, woken a = 1, move a 100 = 100, left = 0
a shorter call after a wait gives back the rest | left 0 | move a 100 = waits, pass 100ms, move a 30 = 30, asked a = 30,
    left = 70
a longer call after a wait moves what was charged | left 0 | move a 100 = waits, pass 100ms, move a 500 = 100, left = 0
a stream that is not ready after its wait is refunded | left 0 | script a not-ready, move a 100 = waits, pass 100ms,
    move a 100 = waits, left = 100, waiting = 0
a refund admits the next waiter  | left 0 | script a not-ready, move a 100 = waits, move b 100 = waits, pass 100ms,
    woken b = 0, move a 100 = waits, woken b = 1, move b 100 = 100
an abandoned wait is charged when it is granted and its bytes move an hour later on top of the burst | left 0 chunk 100 |
    move a 100 = waits, move b 100 = waits, move c 100 = waits, pass 100ms, left = 0, waiting = 2, pass 100ms, left = 0,
    waiting = 1, pass 100ms, left = 0, waiting = 0, pass 1h, left = 1000, move a 100 = 100, move b 100 = 100,
    move c 100 = 100, left = 1000, 10 x move a 100 = 100, move a 100 = waits, move b 100 = waits
a task that polls rarely loses no grant | left 0 chunk 500 | move a 500 = waits,
    10 x pass 3s + move a 500 = 500 + move a 500 = 500 + move a 500 = 500 + move a 500 = waits

# Chunks.
a chunk is half of the burst     | | move a 5000 = 500
a chunk is a byte at least       | of 1 1 | move a 5000 = 1
a chunk is 1 KiB at least        | of 1000 3000 | move a 100000 = 1024
a chunk is 10 ms of the rate     | of 102500 102500 | move a 100000 = 1025
a chunk is 10 ms of a high rate  | of 1000000 1000000 | move a 100000 = 10000
a chunk is the configured one    | chunk 64 | move a 5000 = 64, asked a = 64
a chunk is half of the burst with overdraft | of 1000 10 overdraft | 2 x move a 1000000 = 5, move a 1000000 = waits
# A request larger than the limit blocks forever: amazon-mq/rabbitmq-stream-s3#208.
a chunk is a burst at most       | chunk 18446744073709551615 | move a 5000 = 1000, move a 5000 = waits, asked a = 1000,
    pass 1s, move a 5000 = 1000

# Refusals and new quotas.
a closed limiter refuses         | left 0 | move a 100 = waits, close, 2 x move a 100 = Closed, move b 100 = Closed, asked a
a lower burst makes a wait ask again | left 0 chunk 1000 | move a 1000 = waits, quota 1000 10, move a 1000 = waits,
    waiting = 1, pass 1s, move a 1000 = 10, asked a = 10
a new quota moves a wait         | left 0 chunk 1000 | move a 1000 = waits, quota 100000 1000, pass 10ms, move a 1000 = 1000
without a limit all waits end until a limit is set again | left 0 | move a 500 = waits, move b 500 = waits, unlimited,
    woken a = 1, woken b = 1, move a 500 = 500, move b 500 = 500, move a 1000000 = 1000000, move b 1000000 = 1000000,
    quota 1000 1000, move a 5000 = 500, move b 5000 = 500, move b 5000 = waits, pass 500ms, move b 5000 = 500

# Both directions.
both directions are charged      | | read a 10 = 10, write a 20 = 20, left = 970
reads alone are charged          | reads-only | read a 10 = 10, write a 5000 = 5000, left = 990
writes alone are charged         | reads-only writes-only | read a 5000 = 5000, write a 10 = 10, left = 990
both directions wait independently | left 0 | read a 10 = waits, write a 20 = waits, waiting = 2, pass 10ms, woken a = 1,
    write a 20 = waits, read a 10 = 10, read a 10 = waits, pass 20ms, write a 20 = 20
other calls are free even while a write waits | left 0 | write a 1 = waits, others a = 1 flushed 1 shut down at 5, left = 0
vectored writes are not copied   | chunk 100 | vectored a 30 0 40 = 30 0 40, left = 930, vectored b, left = 930
vectored writes are cut          | chunk 69 | vectored a 30 0 40 = 30 39, left = 931
vectored writes are cut at a slice | chunk 30 | vectored a 30 40 = 30, left = 970, vectored b 0 31 = 30
# Without it, a writer that uses only the first slice would see no bytes.
vectored writes skip empty slices | chunk 1 | vectored a 0 30 40 = 1, left = 999
16 slices are written of a vectored write that is cut | chunk 18 | vectored a 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 =
    1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1, vectored b 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 =
    1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1, left = 966

# Failures seen in other throttles.
# A wait was granted and then dropped: python/asyncio#270.
a drop after the grant admits the next waiter | left 0 | move a 100 = waits, move b 100 = waits, pass 100ms, woken b = 0,
    drop a, woken b = 1, move b 100 = 100
# A large head is cancelled, and the small ones behind it keep sleeping: embassy-rs/embassy#6964.
a drop of a large head wakes the small ones | left 0 chunk 1000 | move a 1000 = waits, move b 10 = waits, move c 10 = waits,
    pass 20ms, woken b = 0, into-inner a, woken b = 1, woken c = 1, move b 10 = 10, move c 10 = 10
# Cancelled waiters leak, and are credited twice: Astro36/qp#3, redisson/redisson#7206.
a thousand dropped waits leave nothing | left 0 | 1000 x read a 100 = waits + write a 100 = waits + waiting = 2 + drop a,
    waiting = 0, left = 0, pass 7ms, left = 7
# A stored wait that is never polled blocks the queue: tokio-rs/tokio#6450.
a stream that is never polled again blocks no other | left 0 | move a 100 = waits,
    3 x move b 100 = waits + pass 200ms + move b 100 = 100 + leave 0
# Many small requests starve a large one: smol-rs/async-lock#23.
small chunks do not overtake a large one | left 0 chunk 1000 | move a 1000 = waits, 99 x pass 10ms + move b 10 = waits,
    pass 10ms, move a 1000 = 1000, move b 10 = waits, pass 10ms, move b 10 = 10
# The queue of uploads has no bound: TraceMachina/nativelink#2730.
a full queue refuses and admits a later call | left 0 queue 2 | move a 100 = waits, move b 100 = waits,
    move c 100 = QueueFull, asked c, pass 200ms, waiting = 0, move c 100 = waits, pass 100ms, move c 100 = 100
";

/// What `frame` shows is the size of a frame of data, or what else the body yields.
#[cfg(feature = "http-body")]
const FRAMES: &str = "
frames are charged               | chunk 100 | script a 10 not-ready 20 0 fails, frame a = 10, left = 990, frame a = waits,
    left = 990, waiting = 0, frame a = 20, left = 970, frame a = 0, left = 970, frame a = fails, left = 970, frame a = end
a frame above the chunk is split and its rest is charged by its size | chunk 100 size 5 900 | script a 250 1, frame a = 100,
    left = 900, others a = 155 to 1050, leave 99, frame a = waits, pass 1ms, frame a = 100, pass 50ms, frame a = 50,
    left = 0, pass 100ms, frame a = 1, left = 99, others a = 5 to 900 and ended
# A server does not poll a body that reports its end, and would cut the response.
the last frame is not the end until its rest is out | chunk 100 size 0 900 | script a 250, others a = 0 to 900,
    frame a = 100, others a = 150 to 1050, frame a = 100, others a = 50 to 950, frame a = 50, others a = 0 to 900 and ended
no more is asked than the size hint | left 10 size 10 10 | script a 10, frame a = 10, left = 0
trailers and the end are free    | left 0 size 0 0 | close, script a trailers, frame a = trailers, frame a = end
the end of an unknown size is free | | script a 10, frame a = 10, leave 0, frame a = end, waiting = 0
a wrong size hint is charged     | left 0 size 0 0 | script a 10, frame a = waits, pass 10ms, frame a = 10, left = 0
a closed limiter refuses         | | close, script a 10, frame a = Closed, asked a
frames are no writes             | writes-only | script a 5000 trailers fails, frame a = 5000, frame a = trailers,
    frame a = fails, left = 1000
a rest of a charged frame is no write | chunk 8 | script a 14 5, frame a = 8, writes-only a, frame a = 6, frame a = 5,
    frame a = end, left = 992
";

type Limited = Throttled<Stream, Arc<RateLimiter>>;

/// The traits by which a stream is called.
#[derive(Clone, Copy)]
struct Adapter {
    read: fn(&mut Limited, &mut Context<'_>, usize) -> String,
    write: fn(&mut Limited, &mut Context<'_>, &[u8]) -> String,
    vectored: fn(&mut Limited, &mut Context<'_>, &[IoSlice<'_>]) -> String,
    /// Calls the other methods.
    others: fn(&mut Limited, &mut Context<'_>) -> String,
}

const TOKIO: Adapter = Adapter {
    read: |stream, context, size| moved(poll_read(stream, size, context.waker())),
    write: |stream, context, bytes| moved(Pin::new(stream).poll_write(context, bytes)),
    vectored: |stream, context, slices| {
        assert!(stream.is_write_vectored());
        moved(Pin::new(stream).poll_write_vectored(context, slices))
    },
    others: |stream, context| {
        let mut stream = Pin::new(stream);
        assert!(stream.as_mut().poll_flush(context).is_ready());
        assert!(stream.as_mut().poll_shutdown(context).is_ready());
        let started = stream.as_mut().start_seek(SeekFrom::Start(5));
        started.expect("it does not fail");
        counted(stream.as_mut().poll_complete(context), stream.get_ref())
    },
};

#[cfg(feature = "futures-io")]
mod of_futures {
    use super::{Adapter, Pin, SeekFrom, counted, moved};
    use futures::io::{AsyncRead, AsyncSeek, AsyncWrite};

    pub(super) const FUTURES: Adapter = Adapter {
        read: |stream, context, size| {
            moved(Pin::new(stream).poll_read(context, &mut vec![0; size]))
        },
        write: |stream, context, bytes| moved(Pin::new(stream).poll_write(context, bytes)),
        vectored: |stream, context, slices| {
            moved(Pin::new(stream).poll_write_vectored(context, slices))
        },
        others: |stream, context| {
            let mut stream = Pin::new(stream);
            assert!(stream.as_mut().poll_flush(context).is_ready());
            assert!(stream.as_mut().poll_close(context).is_ready());
            let sought = stream.as_mut().poll_seek(context, SeekFrom::Start(5));
            counted(sought, stream.get_ref())
        },
    };
}

#[cfg(feature = "http-body")]
mod of_bodies {
    use super::{AcquireError, Adapter, Pin, Poll};
    use hyper::body::Body;

    pub(super) const BODY: Adapter = Adapter {
        read: |body, context, _| match Pin::new(body).poll_frame(context) {
            Poll::Pending => "waits".into(),
            Poll::Ready(None) => "end".into(),
            Poll::Ready(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) => data.len().to_string(),
                Err(_) => "trailers".into(),
            },
            Poll::Ready(Some(Err(error))) => match error.downcast_ref::<AcquireError>() {
                Some(refused) => format!("{:?}", refused.kind()),
                None => "fails".into(),
            },
        },
        write: |_, _, _| panic!("a body is not written"),
        vectored: |_, _, _| panic!("a body is not written"),
        others: |body, _| {
            let hint = body.size_hint();
            let (least, most) = (hint.lower(), hint.upper().expect("an upper bound"));
            let ended = if body.is_end_stream() {
                " and ended"
            } else {
                ""
            };
            format!("{least} to {most}{ended}")
        },
    };
}

/// Shows how much has moved, or why nothing has.
fn moved(polled: Poll<io::Result<usize>>) -> String {
    match polled {
        Poll::Pending => "waits".into(),
        Poll::Ready(Ok(bytes)) => bytes.to_string(),
        Poll::Ready(Err(error)) => match inside(&error) {
            Some(refused) => {
                assert_eq!(error.kind(), io::ErrorKind::Other);
                format!("{:?}", refused.kind())
            }
            None => {
                assert_eq!(error.kind(), io::ErrorKind::ConnectionReset);
                "fails".into()
            }
        },
    }
}

/// Shows which calls have reached a stream.
fn counted(sought: Poll<io::Result<u64>>, stream: &Stream) -> String {
    let Poll::Ready(Ok(sought)) = sought else {
        panic!("it waits or fails");
    };
    let (flushed, shut_down) = (stream.flushed, stream.shut_down);
    format!("{flushed} flushed {shut_down} shut down at {sought}")
}

/// The streams of a row, which come into being when they are first named, and the wakes of each.
struct World {
    limits: Limits,
    adapter: Adapter,
    moves: &'static str,
    fresh: Box<dyn Fn() -> Limited>,
    streams: BTreeMap<String, (Limited, Arc<Counter>)>,
}

fn run(row: &Row, adapter: Adapter, moves: &'static str) -> Result<(), String> {
    let (mut chunk, mut directions, mut size) = (None, String::new(), (0, None));
    let limits = Limits::new(&row.setup, |word, words| match word {
        "chunk" => chunk = Some(words.parse()),
        "size" => size = (words.parse(), Some(words.parse())),
        word => directions = word.to_owned(),
    });
    let limiter = Arc::clone(&limits.limiter);
    let fresh = move || {
        let mut stream = Stream::of([]);
        (stream.least, stream.most) = size;
        let stream = stream.throttled(Arc::clone(&limiter));
        let stream = match directions.as_str() {
            "reads-only" => stream.reads_only(),
            // It replaces the other one.
            "writes-only" => stream.reads_only().writes_only(),
            _ => stream,
        };
        match chunk {
            Some(chunk) => stream.chunk(chunk),
            None => stream,
        }
    };
    let mut world = World {
        limits,
        adapter,
        moves,
        fresh: Box::new(fresh),
        streams: BTreeMap::new(),
    };
    follow(row, |name, words| world.call(name, words)).map_err(|error| format!("{moves}: {error}"))
}

impl World {
    /// Does a call; all but those of the limiter name a stream:
    ///
    /// - `read`, `write` and `move` a number of bytes; `vectored` with the sizes of the slices, which shows those that
    ///   the inner stream got; `frame` and `others`;
    /// - `script`: the next steps of the inner stream; `drop`; `writes-only`;
    /// - `asked`: how many bytes each call of the inner stream asked for; `woken`: how often its tasks were woken.
    fn call(&mut self, name: &str, words: &mut Words<'_>) -> String {
        let adapter = self.adapter;
        match if name == "move" { self.moves } else { name } {
            "read" | "frame" => {
                let (stream, waker) = self.named(words);
                let size = words.maybe().unwrap_or(0);
                caught(|| (adapter.read)(stream, &mut Context::from_waker(&waker), size))
            }
            "write" => {
                let (stream, waker) = self.named(words);
                let bytes = vec![7; words.parse()];
                caught(|| (adapter.write)(stream, &mut Context::from_waker(&waker), &bytes))
            }
            "vectored" => {
                let (stream, waker) = self.named(words);
                let sizes = std::iter::from_fn(|| words.maybe());
                let buffers: Vec<_> = sizes.map(|size| vec![7; size]).collect();
                let slices: Vec<_> = buffers.iter().map(|buffer| IoSlice::new(buffer)).collect();
                let mut context = Context::from_waker(&waker);
                let moved = (adapter.vectored)(stream, &mut context, &slices);
                let got = &stream.get_ref().slices;
                assert_eq!(moved, got.iter().sum::<usize>().to_string());
                listed(got)
            }
            "others" => {
                let (stream, waker) = self.named(words);
                (adapter.others)(stream, &mut Context::from_waker(&waker))
            }
            "script" => {
                let inner = self.named(words).0.get_mut();
                inner
                    .steps
                    .extend(std::iter::from_fn(|| words.maybe::<Step>()));
                String::new()
            }
            "drop" => {
                drop(self.streams.remove(words.word()).expect("a stream"));
                String::new()
            }
            "into-inner" => {
                let (stream, _) = self.streams.remove(words.word()).expect("a stream");
                drop(stream.into_inner());
                String::new()
            }
            "writes-only" => {
                let (name, (stream, counter)) = self.streams.pop_last().expect("a stream");
                assert_eq!(name, words.word());
                self.streams.insert(name, (stream.writes_only(), counter));
                String::new()
            }
            "asked" => listed(&self.named(words).0.get_ref().asked),
            "woken" => self.streams[words.word()].1.count().to_string(),
            name => self.limits.call(name, words),
        }
    }

    /// Returns the stream that the next word names, and its waker.
    fn named(&mut self, words: &mut Words<'_>) -> (&mut Limited, Waker) {
        let name = words.word().to_owned();
        let new = || ((self.fresh)(), Arc::default());
        let (stream, counter) = self.streams.entry(name).or_insert_with(new);
        (stream, Waker::from(Arc::clone(counter)))
    }
}

/// Returns what a poll shows, which is also that it panics.
fn caught(poll: impl FnOnce() -> String) -> String {
    catch_unwind(AssertUnwindSafe(poll)).unwrap_or_else(|_| "panics".into())
}

#[test]
fn throttled_by_the_traits_of_tokio() {
    for moves in ["read", "write"] {
        check(MOVES, |row| run(row, TOKIO, moves));
    }
}

#[cfg(feature = "futures-io")]
#[test]
fn throttled_by_the_traits_of_futures() {
    for moves in ["read", "write"] {
        check(MOVES, |row| run(row, of_futures::FUTURES, moves));
    }
}

#[cfg(feature = "http-body")]
#[test]
fn throttled_as_a_body() {
    check(FRAMES, |row| run(row, of_bodies::BODY, "frame"));
}
