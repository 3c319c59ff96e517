//! Many origins, and many callers.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use tollgate_http::{Call, PausedBy, Pauses, WhenFull};

use super::setup::{Caller, ORIGIN, SECOND, exact, wait_of};

#[test]
fn pause_of_each_of_many_origins_is_kept() {
    let (pauses, clock) = exact();
    let hosts = 20_000;
    for host in 0..hosts {
        let mut call = pauses.call(format!("https://{host}.example.com:443"));
        assert!(call.send());
        call.answered(
            http::StatusCode::TOO_MANY_REQUESTS,
            &wait_of(Some(30)),
            false,
        );
    }
    let sent = |pauses: &Pauses| {
        let calls = (0..hosts).map(|host| pauses.call(format!("https://{host}.example.com:443")));
        calls
            .filter_map(|mut call| call.send().then_some(()))
            .count()
    };
    clock.advance(30 * SECOND - Duration::from_nanos(1));
    assert_eq!((pauses.snapshot().paused, sent(&pauses)), (hosts, 0));
    clock.advance(Duration::from_nanos(1));
    assert_eq!(sent(&pauses), hosts);
}

#[test]
fn on_full_names_the_first_origin_without_room_once() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let named = Arc::clone(&names);
    let pauses = exact().0.max_origins(1).on_full(move |origin| {
        named.lock().unwrap().push(origin.to_owned());
    });
    for origin in ["a", "b", "c", "b"] {
        pauses.pause(origin, SECOND);
    }
    assert_eq!(*names.lock().unwrap(), ["b"]);
    assert_eq!(pauses.snapshot().unrecorded, 3);
}

#[test]
fn pause_without_room_is_not_recorded_until_another_ends() {
    let (pauses, clock) = exact();
    let pauses = pauses.max_origins(2).clock(&clock);
    let refuse = |origin: &'static str, seconds| {
        let mut caller = Caller::of(&pauses, origin);
        assert!(caller.sends());
        caller.answered(429, Some(seconds))
    };
    refuse("a", 20);
    refuse("b", 10);
    refuse("c", 30);
    assert_eq!(
        (pauses.snapshot().paused, pauses.snapshot().unrecorded),
        (2, 1)
    );
    assert!(pauses.check("a").is_err() && pauses.check("c").is_ok());
    // A known origin has its place.
    clock.advance(10 * SECOND);
    pauses.pause("a", 100 * SECOND);
    assert_eq!(pauses.snapshot().unrecorded, 1);
    refuse("c", 30);
    assert_eq!(
        (pauses.snapshot().paused, pauses.snapshot().unrecorded),
        (2, 1)
    );
    assert!(pauses.check("a").is_err() && pauses.check("c").is_err());
}

#[test]
fn call_to_an_origin_without_room_is_refused_on_request() {
    let (pauses, clock) = exact();
    let pauses = pauses
        .max_origins(1)
        .when_full(WhenFull::Refuse)
        .clock(&clock);
    pauses.pause("a", 10 * SECOND);
    let mut other = Caller::of(&pauses, "b");
    let refused = other.refused();
    assert_eq!(
        (refused.by(), refused.remaining()),
        (PausedBy::Full, Some(10 * SECOND))
    );
    clock.advance(10 * SECOND);
    assert!(other.succeeds());
}

#[test]
fn waiters_go_in_the_order_of_their_calls() {
    let (pauses, clock) = exact();
    pauses.pause(ORIGIN, SECOND);
    let mut callers: Vec<Caller> = (0..1000).map(|_| Caller::new(&pauses)).collect();
    // The last asks first.
    assert!(callers.iter_mut().rev().all(Caller::waits));
    clock.advance(SECOND);
    let mut first = 0;
    while first < callers.len() {
        let passed = callers[first..]
            .iter_mut()
            .take_while(|it| it.was_woken())
            .count();
        assert!(passed > 0);
        assert!(callers[first + passed..].iter().all(|it| !it.was_woken()));
        for caller in &mut callers[first..first + passed] {
            assert!(caller.sends());
        }
        for caller in &mut callers[first..first + passed] {
            caller.answered(200, None);
        }
        first += passed;
    }
    assert_eq!(pauses.snapshot(), tollgate_http::PausesSnapshot::default());
}

#[test]
fn waker_that_panics_keeps_no_other_from_being_woken() {
    /// A waker that panics.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("on purpose");
        }
    }
    let (pauses, clock) = exact();
    let (mut first, mut second) = (pauses.call(ORIGIN), Caller::new(&pauses));
    pauses.pause(ORIGIN, SECOND);
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        first
            .poll_ready(&mut Context::from_waker(&waker))
            .is_pending()
    );
    assert!(second.waits());
    // Both can wait no longer.
    pauses.pause(ORIGIN, 61 * SECOND);
    assert!(second.was_woken());
    drop(first);
    clock.advance(61 * SECOND);
    assert!(second.succeeds());
}

/// Nobody is lost, whatever the threads do at once. A lost waiter would hang.
#[test]
fn calls_on_many_threads_all_end() {
    let pauses = Pauses::new()
        .backoff(Duration::from_micros(50), Duration::from_micros(100))
        .retries(0);
    let done = AtomicUsize::new(0);
    thread::scope(|scope| {
        for number in 0..8_u64 {
            let (pauses, done) = (&pauses, &done);
            scope.spawn(move || {
                for round in 0..500_u64 {
                    let random = (number * 500 + round).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
                    let mut call = pauses.call(ORIGIN);
                    while futures::executor::block_on(call.ready()).is_ok() && !call.send() {}
                    match random {
                        0 => pauses.resume(ORIGIN),
                        1 => pauses.pause(ORIGIN, Duration::from_micros(200)),
                        2 => continue,
                        _ => {}
                    }
                    let status = if random > 12 { 429 } else { 200 };
                    let status = http::StatusCode::from_u16(status).unwrap();
                    call.answered(status, &wait_of(None), true);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    assert!(done.into_inner() > 3000);
    assert_eq!(pauses.snapshot().waiting, 0);
}

/// The places are taken by an origin that opens, so no pause ends.
#[test]
fn call_without_room_beside_an_origin_that_opens_is_refused_for_an_unknown_time() {
    let (pauses, clock) = exact();
    let pauses = pauses
        .max_origins(1)
        .when_full(WhenFull::Refuse)
        .clock(&clock);
    pauses.pause("a", SECOND);
    clock.advance(SECOND);
    let [mut first, mut second] = [(); 2].map(|()| Caller::of(&pauses, "a"));
    assert!(first.sends() && second.waits());
    let refused = Caller::of(&pauses, "b").refused();
    assert_eq!((refused.by(), refused.remaining()), (PausedBy::Full, None));
    let text = "requests to b are refused: every place for a pause is taken";
    assert_eq!(refused.to_string(), text);
}

#[test]
fn send_to_an_origin_without_room_is_refused_on_request() {
    let (pauses, clock) = exact();
    let pauses = pauses
        .max_origins(1)
        .when_full(WhenFull::Refuse)
        .clock(&clock);
    let mut caller = Caller::of(&pauses, "a");
    assert!(caller.passes());
    pauses.pause("b", SECOND);
    assert!(!caller.call.send());
    assert_eq!(caller.refused().by(), PausedBy::Full);
}

/// Calls of wakers that are made inside of each other would overflow the stack.
#[test]
fn waker_that_drops_its_call_lets_all_others_go() {
    /// A waker that drops the call that it wakes.
    struct Drops {
        call: Mutex<Option<Call<&'static str>>>,
        woken: Arc<AtomicUsize>,
    }

    impl Wake for Drops {
        fn wake(self: Arc<Self>) {
            self.woken.fetch_add(1, Ordering::Relaxed);
            let call = self.call.lock().unwrap().take();
            drop(call);
        }
    }
    const CALLS: usize = 10_000;
    let (pauses, clock) = exact();
    let woken = Arc::new(AtomicUsize::new(0));
    pauses.pause(ORIGIN, SECOND);
    for _ in 0..CALLS {
        let drops = Arc::new(Drops {
            call: Mutex::new(None),
            woken: Arc::clone(&woken),
        });
        let waker = Waker::from(Arc::clone(&drops));
        let mut call = pauses.call(ORIGIN);
        assert!(
            call.poll_ready(&mut Context::from_waker(&waker))
                .is_pending()
        );
        *drops.call.lock().unwrap() = Some(call);
    }
    clock.advance(SECOND);
    assert_eq!(woken.load(Ordering::Relaxed), CALLS);
    assert_eq!(pauses.snapshot().waiting, 0);
}

#[test]
fn drop_of_a_call_whose_waker_panics_in_its_destructor_does_not_panic() {
    /// A waker whose destructor panics.
    struct Panics;

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {}
    }

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("on purpose");
        }
    }
    let (pauses, clock) = exact();
    let (mut first, mut second) = (pauses.call(ORIGIN), Caller::new(&pauses));
    pauses.pause(ORIGIN, SECOND);
    let waker = Waker::from(Arc::new(Panics));
    assert!(
        first
            .poll_ready(&mut Context::from_waker(&waker))
            .is_pending()
    );
    // The last one is that of the table.
    drop(waker);
    assert!(second.waits());
    drop(first);
    clock.advance(SECOND);
    assert!(second.was_woken() && second.succeeds());
}

/// The last waker counts.
#[test]
fn poll_in_another_task_wakes_that_one() {
    let (pauses, clock) = exact();
    pauses.pause(ORIGIN, SECOND);
    let [mut caller, mut other] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(caller.waits());
    std::mem::swap(&mut caller.call, &mut other.call);
    assert!(other.waits());
    assert_eq!(pauses.snapshot().waiting, 1);
    clock.advance(SECOND);
    assert!(!caller.was_woken() && other.was_woken() && other.succeeds());
}

#[test]
fn pause_of_an_origin_with_any_name_is_kept() {
    let (pauses, clock) = exact();
    let huge = "x".repeat(1 << 16);
    let names = ["", " ", "ä→😀\0", &huge];
    for name in names {
        pauses.pause(name, SECOND);
        assert_eq!(pauses.check(name).unwrap_err().origin(), name);
        assert!(!pauses.call(name).send());
    }
    clock.advance(SECOND);
    for name in names {
        let mut call = pauses.call(name);
        assert!(call.send());
        call.answered(http::StatusCode::OK, &wait_of(None), false);
    }
    assert_eq!(pauses.snapshot(), tollgate_http::PausesSnapshot::default());
}

/// A thread that sees the same pause before and after it sends has sent in it.
#[test]
fn send_on_many_threads_sends_nothing_in_a_pause() {
    let (pauses, clock) = exact();
    // The number of the pause, or 0, and the calls that were made.
    let (pause, calls) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let is_over = AtomicBool::new(false);
    let send = || {
        let (mut sent, mut stopped) = (0, 0);
        while !is_over.load(Ordering::SeqCst) {
            let mut call = pauses.call(ORIGIN);
            let _ = call.poll_ready(&mut Context::from_waker(Waker::noop()));
            let before = pause.load(Ordering::SeqCst);
            let may = call.send();
            let is_in_pause = before > 0 && before == pause.load(Ordering::SeqCst);
            assert!(!(may && is_in_pause), "sent in a pause");
            if may {
                call.answered(http::StatusCode::OK, &wait_of(None), false);
            }
            sent += usize::from(may);
            stopped += usize::from(is_in_pause);
            drop(call);
            calls.fetch_add(1, Ordering::SeqCst);
        }
        (sent, stopped)
    };
    let counts = thread::scope(|scope| {
        let threads = [(); 3].map(|()| scope.spawn(send));
        let let_go = |number| {
            let begun = calls.load(Ordering::SeqCst);
            while calls.load(Ordering::SeqCst) < begun + number {
                thread::yield_now();
            }
        };
        for number in 1..40 {
            pauses.pause(ORIGIN, SECOND);
            pause.store(number, Ordering::SeqCst);
            let_go(8);
            pause.store(0, Ordering::SeqCst);
            if number % 2 == 0 {
                pauses.resume(ORIGIN);
            } else {
                clock.advance(SECOND);
            }
            let_go(8);
        }
        is_over.store(true, Ordering::SeqCst);
        threads.map(|it| it.join().unwrap())
    });
    let sum = |part: fn(&(usize, usize)) -> usize| counts.iter().map(part).sum::<usize>();
    assert!(sum(|it| it.0) > 0 && sum(|it| it.1) > 0, "{counts:?}");
    assert_eq!(pauses.snapshot().waiting, 0);
}
