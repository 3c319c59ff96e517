//! The number of allocations of each throttle's waits, as stated in the table in
//! `tollgate::guarantees`.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use stats_alloc::Region;
use tollgate::rate::Oversize;
use tollgate::throttle::BoxThrottle;
use tollgate::{Algorithm, Clock, CondvarSemaphore, Quota, RateLimiter, Semaphore, TryThrottle};
use tollgate_observe::{Holders, Observed};

use crate::support::poll_once;
use crate::{COUNTED, alone};

fn allocations(run: impl FnOnce()) -> usize {
    let region = Region::new(COUNTED);
    run();
    let change = region.change();
    change.allocations + change.reallocations
}

/// Returns the least of several counts: other work of the process can only add to it, and so can
/// one-time allocations.
fn least<N: Ord>(count: impl Fn() -> N) -> N {
    let counts = (0..10).map(|_| count());
    counts.min().expect("there are ten")
}

/// Polls once, without an allocation of its own.
fn is_ready(future: impl Future) -> bool {
    poll_once(&mut pin!(future)).is_ready()
}

/// Returns the allocations to enter at once, and to wait until another caller has left.
fn to_enter_and_to_wait<T: TryThrottle>(throttle: &T) -> (usize, usize) {
    let enter = || assert!(is_ready(throttle.enter()));
    let wait = || {
        let permit = throttle.try_enter().ok();
        assert!(permit.is_some() && throttle.try_enter().is_err());
        let mut waiting = pin!(throttle.enter());
        assert!(!is_ready(waiting.as_mut()));
        drop(permit);
        assert!(is_ready(waiting));
    };
    (least(|| allocations(enter)), least(|| allocations(wait)))
}

/// Returns the same for a reference and for an `Arc`, which are equal.
fn to_enter_and_to_wait_for<T>(shared: &Arc<T>) -> (usize, usize)
where
    Arc<T>: TryThrottle,
    for<'a> &'a T: TryThrottle,
{
    let counts = to_enter_and_to_wait(shared);
    assert_eq!(to_enter_and_to_wait(&&**shared), counts);
    counts
}

/// Returns the allocations of a wake that finds that a newcomer has overtaken, and waits again.
#[cfg(any(feature = "channel", feature = "async-lock"))]
fn to_be_woken_in_vain<T: TryThrottle>(throttle: &T) -> usize {
    least(|| {
        let permit = throttle.try_enter().ok();
        let mut waiting = pin!(throttle.enter());
        assert!(!is_ready(waiting.as_mut()));
        drop(permit);
        let newcomer = throttle.try_enter().ok();
        assert!(newcomer.is_some());
        allocations(|| assert!(!is_ready(waiting.as_mut())))
    })
}

/// Returns the allocations to block until another thread has released its permit.
fn to_block(wait: impl Fn(&CondvarSemaphore)) -> usize {
    let semaphore = CondvarSemaphore::new(1);
    least(|| {
        let held = semaphore.try_acquire().unwrap();
        let begun = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                begun.store(true, Ordering::SeqCst);
                while semaphore.snapshot().waiting == 0 {
                    thread::yield_now();
                }
                drop(held);
            });
            while !begun.load(Ordering::SeqCst) {
                thread::yield_now();
            }
            allocations(|| wait(&semaphore))
        })
    })
}

/// Returns the allocations of a rate limiter to admit a call, to refuse one in any way, and to grant
/// a queue of this many one by one.
fn to_limit(limiter: &RateLimiter, advance: impl Fn(Duration), waiters: usize) -> [usize; 3] {
    let second = Duration::from_secs(1);
    let enter = || {
        advance(100 * second);
        limiter.try_acquire().unwrap();
        limiter.refund(limiter.try_acquire_many(0).unwrap());
        assert!(is_ready(limiter.acquire()));
    };
    let refuse = || {
        limiter.charge(10);
        assert!(limiter.try_acquire().is_err());
        assert!(limiter.try_acquire_many(u64::MAX).is_err());
        assert!(is_ready(limiter.acquire_many(u64::MAX)));
        limiter.peek();
        advance(100 * second);
    };
    let wait = || {
        limiter.charge(10);
        let mut queue: Vec<_> = (0..waiters).map(|_| limiter.acquire()).collect();
        allocations(|| {
            assert!(!queue.iter_mut().any(is_ready));
            assert!(limiter.try_acquire().is_err());
            for (place, waiting) in queue.iter_mut().enumerate() {
                advance(if place == 0 { 10 * second } else { second });
                assert!(is_ready(waiting));
            }
            advance(100 * second);
        })
    };
    [
        least(|| allocations(enter)),
        least(|| allocations(refuse)),
        least(wait),
    ]
}

/// Returns the allocations of a rate limiter to queue and to grant a waiter of each cost.
fn to_queue(oversize: Oversize, costs: impl Fn() -> Vec<u64>) -> usize {
    let clock = Clock::manual();
    let quota = Quota::per_second(1_000_000).burst(1_000_000);
    let limiter = RateLimiter::new(quota).oversize(oversize).clock(&clock);
    least(|| {
        limiter.charge(1_000_000);
        let mut queue: Vec<_> = (costs().iter().map(|cost| limiter.acquire_many(*cost))).collect();
        allocations(|| {
            assert!(!queue.iter_mut().any(is_ready));
            clock.advance(Duration::from_secs(1000));
            assert!(queue.iter_mut().all(is_ready));
        })
    })
}

fn rates() {
    let clock = Clock::manual();
    let advance = |duration| clock.advance(duration);
    let quota = Quota::per_second(1).burst(2);
    let limiter = RateLimiter::new(quota).clock(&clock);
    assert_eq!(to_limit(&limiter, advance, 1), [0, 0, 0]);
    assert_eq!(to_limit(&limiter, advance, 500), [0, 0, 0]);
    // A cancelled reservation leaves nothing behind either.
    let reserve = || {
        for _ in 0..1000 {
            limiter.charge(2);
            drop(limiter.reserve().unwrap());
            clock.advance(Duration::from_secs(10));
        }
    };
    assert_eq!(least(|| allocations(reserve)), 0);
    // Nor does a local handle, from the first call to the last, which gives back the rest.
    let local = || {
        clock.advance(Duration::from_secs(10));
        let mut local = limiter.local(2);
        local.try_acquire().unwrap();
        local.acquire().wait().unwrap();
        assert!(local.try_acquire().is_err());
        clock.advance(Duration::from_secs(2));
        local.try_acquire().unwrap();
    };
    assert_eq!(least(|| allocations(local)), 0);
    let costs = || (0..500).map(|number| 2 + 1000 * number).collect();
    assert_eq!(to_queue(Oversize::Refuse, costs), 0);
    assert_eq!(to_queue(Oversize::Overdraft, costs), 0);
}

/// A delay is computed from the log in place, however long it is.
#[test]
fn delay_behind_a_waiter_allocates_no_copy_of_the_log() {
    let _alone = alone();
    let clock = Clock::manual();
    let quota = Quota::per_second(100_000);
    let limiter = RateLimiter::new(quota).algorithm(Algorithm::SlidingLog);
    let limiter = limiter.clock(&clock);
    limiter.charge(100_000);
    let reserved = [(); 3].map(|()| limiter.reserve().unwrap());
    let bytes = least(|| {
        let region = Region::new(COUNTED);
        let delays = reserved.each_ref().map(|it| it.delay());
        assert_eq!(delays, [Duration::from_secs(1); 3]);
        region.change().bytes_allocated
    });
    assert!(bytes < 1000, "{bytes}");
}

/// A slot of a list of holders is used again, so the list grows with the outstanding permits.
#[test]
fn observed_entries_allocate_nothing() {
    let _alone = alone();
    let semaphore = Arc::new(Semaphore::new(1));
    let holders = Holders::new("slots");
    let observed = Observed::new(semaphore, (&holders, ()));
    assert_eq!(to_enter_and_to_wait(&observed), (0, 0));
    let thousand = || (0..1000).for_each(|_| drop(observed.try_acquire().unwrap()));
    assert_eq!(least(|| allocations(thousand)), 0);
    assert_eq!(size_of::<Holders>(), size_of::<usize>());
}

#[test]
fn waiting_allocates_as_often_as_the_table_says() {
    let _alone = alone();
    let semaphore = Arc::new(Semaphore::new(1));
    assert_eq!(to_enter_and_to_wait_for(&semaphore), (0, 0));
    let pool = Arc::new(tollgate::Pool::new([()]));
    assert_eq!(to_enter_and_to_wait_for(&pool), (0, 0));

    let wait = |semaphore: &CondvarSemaphore| drop(semaphore.acquire().wait().unwrap());
    assert_eq!(to_block(wait), 0);
    let wait = |semaphore: &CondvarSemaphore| {
        let timeout = semaphore.acquire().timeout(Duration::MAX);
        drop(timeout.wait().unwrap());
    };
    assert_eq!(to_block(wait), 0);

    // One box is for the wait, and then for the permit.
    let boxed = BoxThrottle::new(Arc::clone(&semaphore));
    let enter = || drop(boxed.acquire().wait().unwrap());
    assert_eq!(least(|| allocations(enter)), 1);

    rates();
    #[cfg(feature = "channel")]
    {
        let channel = Arc::new(tollgate::ChannelSemaphore::new(1));
        assert_eq!(to_enter_and_to_wait_for(&channel), (0, 4));
        assert_eq!(to_be_woken_in_vain(&channel), 2);
    }
    #[cfg(feature = "async-lock")]
    {
        let semaphore = Arc::new(async_lock::Semaphore::new(1));
        assert_eq!(to_enter_and_to_wait_for(&semaphore), (0, 1));
        assert_eq!(to_be_woken_in_vain(&semaphore), 1);
    }
    #[cfg(feature = "tokio")]
    with_tokio();
}

#[cfg(feature = "tokio")]
fn with_tokio() {
    let semaphore = Arc::new(tokio::sync::Semaphore::new(1));
    assert_eq!(to_enter_and_to_wait_for(&semaphore), (0, 1));

    // At most one registration for each token, and the two lists that hold them.
    let tokens = [(); 4].map(|()| tokio_util::sync::CancellationToken::new());
    for count in 1..=tokens.len() {
        let wait = |semaphore: &CondvarSemaphore| {
            let tokens = tokens[..count].iter();
            let request = tokens.fold(semaphore.acquire(), |request, token| {
                request.cancel_on(token)
            });
            drop(request.wait().unwrap());
        };
        let allocated = to_block(wait);
        assert!((1..=2 + count).contains(&allocated), "{allocated}");
    }
}

#[test]
fn a_client_is_found_without_allocating() {
    use axum::http::Request;
    use tollgate_tower::{ClientIp, ClientIpHeader};

    let _alone = alone();
    let request = Request::get("/")
        .header("x-forwarded-for", "6.6.6.6, 1.2.3.4")
        .header("x-forwarded-for", "[::ffff:10.0.0.2]:80")
        .header("forwarded", "for=6.6.6.6, for=1.2.3.4;host=\"a, b\"")
        .header("forwarded", "for=\"[::ffff:10.0.0.2]:80\"")
        .body(())
        .expect("a request");
    let client = "1.2.3.4/32".parse().expect("a network");
    let client_ip = ClientIp::peer(|_| Some(([10, 0, 0, 1], 80).into()));
    let trusting = client_ip
        .clone()
        .trusting(["10.0.0.0/8".parse().expect("a network")]);
    for client_ip in [client_ip.behind(2), trusting] {
        for header in [ClientIpHeader::XForwardedFor, ClientIpHeader::Forwarded] {
            let client_ip = client_ip.clone().header(header);
            let find = || assert_eq!(client_ip.of(&request), client);
            assert_eq!(least(|| allocations(find)), 0);
        }
    }
}

/// A request through the layer with fields allocates twice more than one without: for two values.
#[test]
fn fields_over_http_allocate_their_two_values() {
    use std::convert::Infallible;

    use axum::body::Body;
    use axum::http::{HeaderValue, Request, Response};
    use tollgate::Keyed;
    use tollgate_tower::{Policy, RateLimitHeaders, ThrottleLayer};
    use tower::{Layer, ServiceExt, service_fn};

    let _alone = alone();
    let keyed = Arc::new(Keyed::<u64, _>::rate_limiters(
        Quota::per_hour(1000).burst(1000),
    ));
    let layer = || {
        let keyed = Arc::clone(&keyed);
        ThrottleLayer::by(move |_| Arc::clone(&keyed).key_owned(7)).refusing()
    };
    let service = service_fn(async |_: Request<Body>| {
        let mut answer = Response::new(Body::empty());
        let text = HeaderValue::from_static("text/plain");
        answer.headers_mut().insert("content-type", text);
        Ok::<_, Infallible>(answer)
    });
    let count = |layer: ThrottleLayer<_, _>| {
        let service = layer.layer(service);
        least(|| {
            let (service, request) = (service.clone(), Request::new(Body::empty()));
            allocations(|| {
                assert!(is_ready(service.oneshot(request)));
            })
        })
    };
    let (plain, named) = (count(layer()), [Policy::client("client")]);
    assert_eq!(count(layer().headers(RateLimitHeaders::Draft11)), plain + 2);
    let headers = layer().policies(named).headers(RateLimitHeaders::Draft11);
    assert_eq!(count(headers), plain + 2);
}
