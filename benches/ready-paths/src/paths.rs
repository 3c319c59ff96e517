//! The ready paths: calls that need no wait, and what a waiter costs in a queue, each on one thread.
//!
//! Results go through `black_box`, as in the benchmarks beside other crates, so that each is in memory.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::hint::black_box;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use foldhash::fast::FixedState;
use futures::executor::block_on;
use http::{Request, Response};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio_util::sync::CancellationToken;
use tollgate::fair::{FairPermit, FairQueue, Queueable};
use tollgate::{
    Algorithm, ChannelSemaphore, Clock, CondvarSemaphore, Gate, Keyed, LeakyBucket, Pool, Quota,
    RateLimiter, Semaphore, all,
};
use tollgate_adaptive::{
    AdaptiveRate, AdaptiveSemaphore, Controller, Gradient, SampleWindow, Target,
};
use tollgate_io::ThrottleIoExt;
use tollgate_tower::{ClientIp, ThrottleLayer};
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::quotas::{PLENTY, PLENTY_EVEN, PLENTY_LOGGED, SCARCE_LOGGED};

/// An operation.
pub struct ReadyPath {
    /// Its name: that of the row of BENCHMARKS.md, if there is one.
    pub name: String,
    /// The number of operations in one repetition.
    pub unit: u64,
    prepare: Box<dyn Fn() -> Box<dyn FnMut(u64)>>,
}

impl ReadyPath {
    /// Prepares the function that repeats the operation.
    pub fn prepare(&self) -> Box<dyn FnMut(u64)> {
        (self.prepare)()
    }

    fn new<W: FnMut(u64) + 'static>(name: &str, prepare: impl Fn() -> W + 'static) -> Self {
        Self {
            name: name.to_owned(),
            unit: 1,
            prepare: Box::new(move || Box::new(prepare())),
        }
    }
}

/// Repeats a call on a value, which `black_box` hides before each.
fn path<T: 'static>(
    name: &str,
    make: impl Fn() -> T + 'static,
    call: impl Fn(&T) + Copy + 'static,
) -> ReadyPath {
    ReadyPath::new(name, move || {
        let made = make();
        move |times| (0..times).for_each(|_| call(black_box(&made)))
    })
}

/// Repeats an asynchronous call, inside one future on a plain executor.
fn awaited<T: 'static>(
    name: &str,
    make: impl Fn() -> T + 'static,
    call: impl AsyncFn(&T) + Copy + 'static,
) -> ReadyPath {
    ReadyPath::new(name, move || {
        let made = make();
        move |times| {
            block_on(async {
                for _ in 0..times {
                    call(black_box(&made)).await;
                }
            });
        }
    })
}

/// Keeps a result in memory, like a permit that is held during work.
fn consume<R>(result: R) {
    drop(black_box(result));
}

const LIMIT: usize = 8;

/// Returns all paths.
pub fn ready_paths() -> Vec<ReadyPath> {
    [
        semaphores(),
        rates(),
        keys(),
        compositions(),
        adapters(),
        queues(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn slots() -> Semaphore {
    Semaphore::new(LIMIT)
}

fn shared() -> Arc<Semaphore> {
    Arc::new(slots())
}

fn items() -> Pool<()> {
    Pool::new((0..LIMIT).map(drop))
}

fn semaphores() -> Vec<ReadyPath> {
    let with_token = || (slots(), CancellationToken::new());
    vec![
        path("try_acquire + drop", slots, |it| consume(it.try_acquire())),
        awaited("acquire ready + drop", slots, async |it| {
            consume(it.acquire().await);
        }),
        awaited("acquire_cancellable ready + drop", with_token, async |it| {
            consume(it.0.acquire().cancel_on(&it.1).await);
        }),
        path("owned try + drop", shared, |it| {
            consume(Arc::clone(it).try_acquire_owned());
        }),
        awaited("owned acquire ready + drop", shared, async |it| {
            consume(Arc::clone(it).acquire_owned().await);
        }),
        path("pool: try + drop", items, |it| consume(it.try_acquire())),
        awaited("pool: acquire ready + drop", items, async |it| {
            consume(it.acquire().await);
        }),
        path(
            "channel semaphore: try + drop",
            || ChannelSemaphore::new(LIMIT),
            |it| consume(it.try_acquire()),
        ),
        path(
            "condvar semaphore: try + drop",
            || CondvarSemaphore::new(LIMIT),
            |it| consume(it.try_acquire()),
        ),
        awaited(
            "adaptive, measured: acquire ready + end",
            || AdaptiveSemaphore::new(Gradient::default()),
            async |it| consume(it.acquire().await),
        ),
        path("adaptive: try + drop", unmeasured, |it| {
            consume(it.try_acquire());
        }),
        awaited("adaptive: acquire ready + drop", unmeasured, async |it| {
            consume(it.acquire().await);
        }),
        awaited(
            "adaptive: owned acquire ready + drop",
            || Arc::new(unmeasured()),
            async |it| consume(Arc::clone(it).acquire_owned().await),
        ),
        path("adaptive rate: try + drop", fast, |it| {
            consume(it.try_acquire());
        }),
        awaited("adaptive rate: acquire ready + drop", fast, async |it| {
            consume(it.acquire().await);
        }),
        awaited(
            "adaptive rate: owned acquire ready + drop",
            || Arc::new(fast()),
            async |it| consume(Arc::clone(it).acquire_owned().await),
        ),
    ]
}

/// A controller whose window has one sample, and places for one more call. Both are taken by calls that never end, so
/// no other call is measured.
struct Never;

impl Controller for Never {
    fn initial(&self) -> Target {
        Target {
            limit: LIMIT as f64,
            samples: 1,
        }
    }

    fn update(&mut self, window: &SampleWindow) -> Target {
        panic!("no window ends, but this one has: {window:?}");
    }
}

/// Returns a semaphore that measures no more calls.
fn unmeasured() -> AdaptiveSemaphore {
    let semaphore = AdaptiveSemaphore::new(Never);
    for _ in 0..2 {
        std::mem::forget(semaphore.try_acquire());
    }
    semaphore
}

/// Returns a rate that never binds.
fn fast() -> AdaptiveRate {
    AdaptiveRate::new().limits(1e6..=1e6).burst(250_000)
}

fn rates() -> Vec<ReadyPath> {
    let allowed = |name: &str, quota| {
        let limiter = move || RateLimiter::new(quota);
        path(name, limiter, |it| consume(it.try_acquire()))
    };
    let scarce = || used_up(RateLimiter::new(SCARCE_LOGGED));
    let plenty = || RateLimiter::new(PLENTY);
    let mut paths = vec![
        allowed("rate: decision allowed", PLENTY),
        path("rate: decision denied", scarce, |it| {
            consume(it.try_acquire());
        }),
        awaited("rate: acquire ready", plenty, async |it| {
            consume(it.acquire().await);
        }),
        allowed("even rate: decision allowed", PLENTY_EVEN),
        allowed("unlimited: decision allowed", Quota::UNLIMITED),
        path("gate: check, open", Gate::new, |it| consume(it.check())),
        path(
            "leaky bucket: decision allowed",
            || LeakyBucket::new(Quota::per_second(1_000_000_000), 8),
            |it| consume(it.try_acquire()),
        ),
        ReadyPath::new("local(32): decision allowed", move || {
            let limiter = plenty();
            move |times| {
                let mut local = limiter.local(32);
                for _ in 0..times {
                    consume(black_box(&mut local).try_acquire());
                }
            }
        }),
    ];
    for &algorithm in Algorithm::all() {
        let limiter = move |quota| RateLimiter::new(quota).algorithm(algorithm);
        let [allowed, denied] = ["allowed", "denied"].map(|it| format!("{algorithm}: {it}"));
        let plenty = match algorithm {
            Algorithm::SlidingLog => PLENTY_LOGGED,
            _ => PLENTY_EVEN,
        };
        paths.push(path(
            &allowed,
            move || limiter(plenty),
            |it| consume(it.try_acquire()),
        ));
        paths.push(path(
            &denied,
            move || used_up(limiter(SCARCE_LOGGED)),
            |it| consume(it.try_acquire()),
        ));
    }
    paths
}

fn used_up(limiter: RateLimiter) -> RateLimiter {
    while limiter.try_acquire().is_ok() {}
    limiter
}

/// Numbers in an order that a processor cannot predict.
fn scattered(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A map with a hasher whose seed is fixed, so that every run has the same collisions.
type Limiters = Keyed<u64, RateLimiter, FixedState>;

fn limiters(keys: usize, clock: impl Into<Clock>) -> Limiters {
    // A token takes half a minute, so no key is idle and evicted while valgrind is slow.
    let quota = Quota::new(1_000_003, Duration::from_secs(365 * 86_400)).burst(100_000);
    let limiters = Keyed::new(RateLimiter::new(quota).clock(clock));
    let limiters = limiters.hasher(FixedState::default());
    limiters.max_keys(keys.max(100_000))
}

fn fill(limiters: &Limiters, keys: u64) {
    for key in 0..keys {
        consume(limiters.key(&scattered(key)).try_acquire());
    }
}

fn keys() -> Vec<ReadyPath> {
    // Filling a large map takes seconds under valgrind. Meanwhile the system clock sometimes finds that the counter of
    // the processor, which valgrind emulates, disagrees with the clock of the system, and uses that one.
    let clock = |keys| match keys {
        1_000 => Clock::system(),
        _ => Clock::manual().into(),
    };
    let mut paths = Vec::new();
    for (name, keys) in [("1k", 1_000), ("100k", 100_000), ("1M", 1_000_000)] {
        let name = format!("keyed: {name} u64, uniform");
        paths.push(ReadyPath::new(&name, move || {
            let limiters = limiters(keys, clock(keys));
            fill(&limiters, keys as u64);
            let mut next = 0;
            move |times| {
                for _ in 0..times {
                    next = (next + 1) % keys as u64;
                    consume(black_box(&limiters).key(&scattered(next)).try_acquire());
                }
            }
        }));
    }
    // The growth of a table is part of it, so these are long: a million keys would take minutes.
    for (name, keys) in [("1,000", 1_000), ("100,000", 100_000)] {
        let name = format!("keyed: first decision of {name} keys");
        let mut first = ReadyPath::new(&name, move || {
            move |times| {
                (0..times).for_each(|_| fill(&limiters(keys, Clock::manual()), keys as u64));
            }
        });
        first.unit = keys as u64;
        paths.push(first);
    }
    paths
}

fn compositions() -> Vec<ReadyPath> {
    let slots_and_rate = || (slots(), RateLimiter::new(PLENTY));
    let class = || FairQueue::new(shared()).class(7);
    vec![
        awaited(
            "all of two: acquire ready + drop",
            || (slots(), slots()),
            async |it| {
                consume(all((&it.0, &it.1)).acquire().await);
            },
        ),
        awaited(
            "all of a semaphore and a rate: acquire ready + drop",
            slots_and_rate,
            async |it| {
                consume(all((&it.0, &it.1)).acquire().await);
            },
        ),
        awaited("fair: acquire ready + drop", class, async |it| {
            consume(it.acquire().await);
        }),
    ]
}

fn adapters() -> Vec<ReadyPath> {
    let unlimited = || Arc::new(RateLimiter::new(Quota::UNLIMITED));
    let never_binding = || Arc::new(RateLimiter::new(PLENTY));
    vec![
        ReadyPath::new("http: a request by client", || {
            let clients: Arc<Keyed<_, _>> = Arc::new(Keyed::rate_limiters(PLENTY));
            let address = ClientIp::peer(|extensions| extensions.get().copied());
            let layer =
                ThrottleLayer::by(move |parts| Arc::clone(&clients).key_owned(address.of(parts)));
            requests(layer.refusing().layer(service_fn(answer)))
        }),
        ReadyPath::new("http: a request with a slot", || {
            requests(ThrottleLayer::new(shared()).layer(service_fn(answer)))
        }),
        ReadyPath::new("bytes: read 1 KiB, unlimited", move || {
            reads(SMALL, Blocks.throttled(unlimited()))
        }),
        ReadyPath::new("bytes: read 1 KiB, a limit that never binds", move || {
            reads(SMALL, Blocks.throttled(never_binding()))
        }),
        ReadyPath::new("bytes: read 64 KiB, a limit that never binds", move || {
            reads(LARGE, Blocks.throttled(never_binding()))
        }),
    ]
}

fn answer(request: Request<()>) -> Ready<Result<Response<String>, Infallible>> {
    drop(black_box(request));
    ready(Ok(Response::new(String::new())))
}

/// Requests of a thousand clients in turn, each by a clone of the service, as in axum.
fn requests<S, B>(service: S) -> impl FnMut(u64)
where
    S: Service<Request<()>, Response = Response<B>, Error = Infallible> + Clone,
{
    let mut client = 0;
    move |times| {
        for _ in 0..times {
            client = (client + 1) % 1_000;
            let address = IpAddr::V4(Ipv4Addr::from(0x0a00_0000 + client));
            let mut request = Request::new(());
            request
                .extensions_mut()
                .insert(SocketAddr::from((address, 4711)));
            consume(block_on(service.clone().oneshot(request)));
        }
    }
}

const SMALL: usize = 1024;
const LARGE: usize = 64 * 1024;

/// A source that is always ready, and copies nothing: of a large block, the copy would be all that is counted.
struct Blocks;

impl AsyncRead for Blocks {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let size = buffer.initialize_unfilled().len();
        buffer.advance(size);
        Poll::Ready(Ok(()))
    }
}

fn reads(size: usize, mut reader: impl AsyncRead + Unpin) -> impl FnMut(u64) {
    let mut buffer = vec![0; size];
    move |times| {
        block_on(async {
            for _ in 0..times {
                let read = reader.read(black_box(&mut buffer)).await;
                assert_eq!(read.expect("blocks never fail"), size, "a short read");
            }
        });
    }
}

/// The waiters of one repetition.
const WAITERS: u64 = 1_000;

/// The cost of a waiter: to join, and to be admitted or to leave.
fn queues() -> Vec<ReadyPath> {
    let path = |name: &str, admitted: bool| {
        let mut path = ReadyPath::new(name, move || {
            let semaphore: &'static Semaphore = Box::leak(Box::new(Semaphore::new(1)));
            move |times| {
                for _ in 0..times {
                    join_and_leave(semaphore, admitted);
                }
            }
        });
        path.unit = WAITERS;
        path
    };
    vec![
        path("a waiter: join, be admitted", true),
        path("a waiter: join, leave", false),
        behind_a_queue("fair: hand-off before a rate", 1, || {
            let clock = Clock::manual();
            let rate = Arc::new(RateLimiter::new(Quota::per_second(100)).clock(&clock));
            let queue = FairQueue::new(rate).clock(&clock);
            (queue, move |_| clock.advance(Duration::from_millis(10)))
        }),
        behind_a_queue("fair: hand-off before a semaphore", 1, one_slot),
        behind_a_queue(
            "fair: hand-off before a semaphore, ten waiters",
            10,
            one_slot,
        ),
    ]
}

fn one_slot<P>() -> (FairQueue<Arc<Semaphore>, u64>, impl FnMut(P)) {
    (FairQueue::new(Arc::new(Semaphore::new(1))), drop)
}

/// A caller joins a queue of one class, in which there are then so many waiters, and the first of them is served.
fn behind_a_queue<T, R>(
    name: &str,
    waiters: usize,
    make: impl Fn() -> (FairQueue<T, u64>, R) + 'static,
) -> ReadyPath
where
    T: Queueable + 'static,
    R: FnMut(FairPermit<T, u64>) + 'static,
{
    ReadyPath::new(name, move || {
        let (queue, mut release) = make();
        let class = queue.class(7);
        let mut held = block_on(class.acquire()).ok();
        let mut context = Context::from_waker(Waker::noop());
        let mut queue = VecDeque::new();
        move |times| {
            for _ in 0..times {
                while queue.len() < waiters {
                    let mut wait = Box::pin(class.acquire());
                    assert!(wait.as_mut().poll(&mut context).is_pending(), "it waits");
                    queue.push_back(wait);
                }
                held.take().into_iter().for_each(&mut release);
                let mut first = queue.pop_front().expect("it has joined");
                let Poll::Ready(permit) = first.as_mut().poll(&mut context) else {
                    panic!("it is next");
                };
                held = permit.ok();
            }
        }
    })
}

fn join_and_leave(semaphore: &Semaphore, admitted: bool) {
    let mut held = semaphore.try_acquire().ok();
    let waiters = (0..WAITERS).map(|_| Box::pin(semaphore.acquire()));
    let mut waiters: Vec<_> = waiters.collect();
    let mut context = Context::from_waker(Waker::noop());
    for waiter in &mut waiters {
        assert!(waiter.as_mut().poll(&mut context).is_pending(), "it waits");
    }
    if !admitted {
        return;
    }
    for waiter in &mut waiters {
        drop(held.take());
        let Poll::Ready(admitted) = waiter.as_mut().poll(&mut context) else {
            panic!("it is next");
        };
        held = admitted.ok();
    }
}
