//! The adaptive rate: the effects of a permit's end, the rate over time before servers that refuse, and
//! random operations, in which no permit and no waiter is lost.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Poll;
use std::time::Duration;

use tollgate::throttle::{Inspect, LimitStatus};
use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{Clock, ErrorKind, Quota, RateLimiter, Semaphore, Throttle, TryThrottle, all};
use tollgate_adaptive::{AdaptiveRate, Shared};

use crate::ms;
use crate::support::random::Random;
use crate::support::scenarios::{Time, Words, rows};
use crate::support::{Waiter, kind};

const SECOND: Duration = Duration::from_secs(1);

/// The set-up is the rate at the beginning, and options. Permits and waiters are named by their positions from 0; a
/// permit ends by `succeed`, which drops it, `ignore`, `refund` or `throttled`, which may have a delay. `counts` are
/// successes, refusals and cuts.
const PERMITS: &str = "
a permit that is dropped counts a success | 10 | try, succeed 0, counts 1 0 0, rate 10
a permit that is ignored counts nothing and its time is not given back | 10 | try, ignore 0, counts 0 0 0, no limited
a permit that is refunded counts nothing and gives its time back | 10 | try, refund 0, try, counts 0 0 0, throttled 0
requests of one overload cut the rate once | 100 | 3 x try + advance 10ms, 3 x throttled 0, counts 0 3 1, rate 85
a refusal after a sample cuts again | 100 | try, throttled 0, advance 99ms, try, throttled 0, counts 0 2 1,
    advance 12ms, try, throttled 0, counts 0 3 2
a cut makes waiters due by the lower rate | 10 | try, wait, throttled 0, advance 117647058ns, pending 0, advance 1ns,
    granted 0, succeed 0
a pause releases waiters one by one | 10; burst 5 | try, throttled 0 3s, paused 3s, 3 x wait, advance 2999ms, pending 0,
    pending 1, pending 2, advance 1ms, waiting 2, advance 117ms, waiting 2, advance 1ms, waiting 1
a longer pause than the longest is that | 10; max-pause 1min | try, throttled 0 61s, paused 1min
a shorter one is as long as asked | 10; max-pause 1min | try, throttled 0 59s, paused 59s
a pause without end is the longest | 10; max-pause 1h | try, throttled 0 never, paused 1h
of no pause at all there is none | 10; max-pause 0s | try, throttled 0 5s, paused
of two pauses the longer one counts | 10; burst 2 | try, try, throttled 0 5s, throttled 0 2s, paused 5s, counts 0 2 1
close ends waits and permits still count | 10 | try, wait, close, refused 0 closed, no closed, throttled 0 1s,
    counts 0 1 1
one waiter too many is refused | 10; waiters 1 | try, wait, full
the rate that is not used stays | 100 | 300 x advance 30ms + try + succeed 0, rate 100
the rate stays at its highest | 100; highest 150 | 600 x advance 10ms + try + succeed 0, rate 150
the rate stays at its lowest | 10; lowest 5 | 20 x advance 2s + try + throttled 0, rate 5
";

struct Told {
    clock: ManualClock,
    rate: Shared<AdaptiveRate>,
    permits: Vec<Permit>,
    waiters: Vec<Waiter<Wait>>,
}

type Wait = Waiting<<Shared<AdaptiveRate> as Throttle>::Enter>;
type Permit = <Shared<AdaptiveRate> as Throttle>::Permit;

impl Told {
    fn new(setup: &str) -> Self {
        let mut parts = setup.split(';').map(str::trim);
        let initial = parts.next().expect("a rate").parse().expect("a rate");
        let (clock, mut rate) = starting_at(initial);
        for option in parts {
            let mut words = Words::new(option);
            rate = match words.word() {
                "burst" => rate.burst(words.parse()),
                "max-pause" => rate.max_pause(words.time()),
                "waiters" => rate.max_waiters(words.parse()),
                "lowest" => rate.limits(words.parse()..=initial),
                "highest" => rate.limits(1.0..=words.parse()),
                option => panic!("no option: {option:?}"),
            };
        }
        Self {
            clock,
            rate: Shared::from(rate),
            permits: Vec::new(),
            waiters: Vec::new(),
        }
    }

    fn call(&mut self, call: &str, words: &mut Words<'_>) {
        let rate = self.rate.clone();
        match call {
            "advance" => self.clock.advance(words.time()),
            "close" => {
                rate.close();
                assert!(rate.is_closed());
            }
            "try" => self.permits.push(rate.try_enter().unwrap()),
            "no" => assert_eq!(kind(rate.try_acquire()), words.refusal()),
            "wait" => self.waiters.push(Waiter::parked(rate.enter())),
            "full" => assert_eq!(Waiter::new(rate.acquire()).refused(), ErrorKind::QueueFull),
            "pending" => assert!(self.waiters[words.parse::<usize>()].is_pending()),
            "granted" => {
                let mut waiter = self.waiters.remove(words.parse());
                assert_eq!(waiter.wakes(), 1);
                self.permits.push(waiter.granted());
            }
            "refused" => {
                let refused = self.waiters.remove(words.parse()).refused();
                assert_eq!(refused, words.refusal());
            }
            "succeed" => drop(self.permits.remove(words.parse())),
            "ignore" => self.permits.remove(words.parse()).ignore(),
            "refund" => self.permits.remove(words.parse()).refund(),
            "throttled" => {
                let permit = self.permits.remove(words.parse());
                permit.throttled(words.maybe().map(|Time(after)| after));
            }
            "paused" => {
                let left = rate.paused_until();
                let left = left.map(|until| until.saturating_since(self.clock.now()));
                assert_eq!(left, words.maybe().map(|Time(left)| left));
            }
            "counts" => {
                let snapshot = rate.snapshot();
                let seen: [u64; 3] = [snapshot.succeeded, snapshot.refusals, snapshot.cuts];
                assert_eq!(seen, [(); 3].map(|()| words.parse::<u64>()));
            }
            "rate" => assert_eq!(rate.rate(), words.parse::<f64>()),
            "waiting" => assert_eq!(rate.snapshot().waiting, words.parse::<usize>()),
            _ => panic!("no call: {call:?}"),
        }
    }
}

#[test]
fn permit_in_each_row_does_what_the_row_says() {
    for row in rows(PERMITS) {
        println!("{}", row.name);
        let told = RefCell::new(Told::new(&row.setup));
        row.calls(|call, words| told.borrow_mut().call(call, words));
    }
}

/// Returns a rate on a manual clock, which begins at this many per second.
fn starting_at(rate: f64) -> (ManualClock, AdaptiveRate) {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new().initial_rate(rate).clock(&clock);
    (clock, rate)
}

/// Succeeds as often as the rate allows, for this long.
fn succeed_for(clock: &ManualClock, rate: &AdaptiveRate, duration: Duration) {
    let end = clock.now().saturating_add(duration);
    while clock.now() < end {
        if let Err(error) = rate.try_acquire().map(drop) {
            clock.advance(error.retry_after().unwrap());
        }
    }
}

#[test]
fn drop_of_a_permit_by_a_panic_counts_nothing() {
    let (_clock, rate) = starting_at(10.0);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _permit = rate.try_acquire().unwrap();
        panic!("the request failed");
    }));
    assert!(panicked.is_err());
    assert_eq!(rate.snapshot().succeeded, 0);
}

/// Also of a composition, another part of which refuses.
#[test]
fn refund_while_the_rate_grows_gives_the_time_back() {
    static NONE: Semaphore = Semaphore::new(0);
    let admits_and_refunds: [fn(&AdaptiveRate, &ManualClock); 3] = [
        |rate, clock| {
            let mut waiter = Waiter::new(rate.acquire());
            loop {
                match waiter.poll() {
                    Poll::Ready(permit) => break permit.unwrap().refund(),
                    Poll::Pending => clock.advance(ms(1)),
                }
            }
        },
        |rate, clock| loop {
            match rate.try_acquire() {
                Ok(permit) => break permit.refund(),
                Err(_) => clock.advance(ms(1)),
            }
        },
        |rate, clock| {
            while kind(all((rate, &NONE)).try_acquire()) != ErrorKind::NoPermits {
                clock.advance(ms(1));
            }
        },
    ];
    for admit_and_refund in admits_and_refunds {
        let (clock, rate) = starting_at(100.0);
        let grows = (0..3_000).any(|_| {
            admit_and_refund(&rate, &clock);
            drop(rate.try_acquire().unwrap());
            rate.rate() > 400.0
        });
        assert!(grows, "{}", rate.rate());
    }
}

#[test]
fn options_in_any_order_are_kept() {
    let clock = Clock::manual();
    let rate = AdaptiveRate::new()
        .clock(&clock)
        .initial_rate(50.0)
        .max_waiters(0)
        .burst(2)
        .limits(1.0..=20.0);
    assert_eq!(rate.rate(), 20.0);
    let rate = rate.limits(1.0..=100.0);
    assert_eq!(rate.snapshot().limits, 1.0..=100.0);
    assert_eq!(rate.rate(), 50.0);
    let _permits = [rate.try_acquire().unwrap(), rate.try_acquire().unwrap()];
    let refused = rate.try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(ms(20)));
    let mut waiter = Waiter::new(rate.acquire());
    assert_eq!(waiter.refused(), ErrorKind::QueueFull);
}

#[test]
fn inspect_shows_the_quota_of_the_rate() {
    let (clock, rate) = starting_at(100.0);
    rate.try_acquire().unwrap().throttled(None);
    let mut statuses = Vec::new();
    (&rate).inspect(None, &mut |_, status| statuses.push(status));
    let [LimitStatus::Rate { quota, decision }] = statuses[..] else {
        panic!("{statuses:?}");
    };
    assert_eq!(quota, Quota::new(1, Duration::from_nanos(11_764_706)));
    assert_eq!(decision.at, clock.now());
}

#[test]
fn rate_without_refusals_doubles_twice_in_two_and_a_half_seconds() {
    let (clock, rate) = starting_at(100.0);
    succeed_for(&clock, &rate, 5 * SECOND / 2);
    assert!((380.0..=400.0).contains(&rate.rate()), "{}", rate.rate());
}

/// The jobs of a list all start at once: none comes later.
#[test]
fn rate_of_callers_that_are_all_queued_already_grows() {
    let (clock, rate) = starting_at(10.0);
    let mut waiters: Vec<_> = (0..400).map(|_| Waiter::new(rate.acquire())).collect();
    waiters.retain_mut(|waiter| waiter.is_pending());
    let start = clock.now();
    while !waiters.is_empty() {
        clock.advance(Duration::from_millis(1));
        waiters.retain_mut(|waiter| waiter.wakes() == 0 || waiter.is_pending());
        // At 10 per second they would take 40 seconds.
        let took = clock.now().saturating_since(start);
        assert!(took < 7 * SECOND, "{took:?}");
    }
}

#[test]
fn rate_after_an_outage_is_found_again() {
    for (outage, retry_after, soon) in [(10, None, 3), (30, Some(5 * SECOND), 5)] {
        let (clock, rate) = starting_at(100.0);
        let end = clock.now().saturating_add(outage * SECOND);
        while clock.now() < end {
            match rate.try_acquire() {
                Ok(permit) => permit.throttled(retry_after),
                Err(error) => clock.advance(error.retry_after().unwrap()),
            }
        }
        assert!(rate.rate() < 10.0);
        succeed_for(&clock, &rate, soon * SECOND);
        assert!(rate.rate() > 90.0, "{}", rate.rate());
    }
}

/// Returns the admitted and the refused requests of a client at a server, over this time.
fn served(
    server: &RateLimiter,
    client: &AdaptiveRate,
    clock: &ManualClock,
    duration: Duration,
) -> (u32, u32) {
    let (mut accepted, mut refused) = (0, 0);
    let end = clock.now().saturating_add(duration);
    while clock.now() < end {
        match client.try_acquire() {
            Err(error) => clock.advance(error.retry_after().unwrap()),
            Ok(permit) => match server.try_acquire() {
                Ok(_) => accepted += 1,
                Err(error) => {
                    refused += 1;
                    permit.throttled(error.retry_after());
                }
            },
        }
    }
    (accepted, refused)
}

#[test]
fn rate_of_a_server_is_found_and_followed() {
    let clock = Clock::manual();
    let quota = |rate: u64| Quota::per_second(rate).burst(rate / 10);
    let server = RateLimiter::new(quota(300)).clock(&clock);
    let client = AdaptiveRate::new().clock(&clock);
    served(&server, &client, &clock, 15 * SECOND);
    for rate in [300, 1_200, 150] {
        server.set_quota(quota(rate));
        served(&server, &client, &clock, 15 * SECOND);
        let (accepted, refused) = served(&server, &client, &clock, 60 * SECOND);
        let wanted = 60 * rate as u32;
        assert!(accepted >= wanted * 95 / 100, "{accepted} of {wanted}");
        assert!(refused * 200 <= wanted, "{refused} of {wanted}");
    }
}

#[test]
fn rate_of_a_server_that_was_slower_for_a_minute_is_found_within_six_seconds() {
    for longer in 0..10 {
        let clock = Clock::manual();
        let quota = |rate: u64| Quota::per_second(rate).burst(rate / 10);
        let server = RateLimiter::new(quota(300)).clock(&clock);
        let client = AdaptiveRate::new().clock(&clock);
        served(&server, &client, &clock, 30 * SECOND);
        server.set_quota(quota(30));
        let minute = 60 * SECOND + longer * SECOND / 2;
        served(&server, &client, &clock, minute);
        server.set_quota(quota(300));
        let most = (0..6)
            .map(|_| served(&server, &client, &clock, SECOND).0)
            .max();
        assert!(most >= Some(270), "{most:?} after {minute:?}");
    }
}

#[test]
fn rate_of_a_server_of_six_a_minute_falls_below_one_a_second() {
    let clock = Clock::manual();
    let server = RateLimiter::new(Quota::per_minute(6)).clock(&clock);
    let client = AdaptiveRate::new().clock(&clock);
    served(&server, &client, &clock, 40 * 60 * SECOND);
    let (accepted, refused) = served(&server, &client, &clock, 7_200 * SECOND);
    assert!(client.rate() < 0.12, "{}", client.rate());
    assert!(accepted >= 720 * 80 / 100, "{accepted} of 720");
    assert!(refused * 20 <= accepted, "{refused} and {accepted}");
}

#[test]
fn rate_of_a_server_of_one_an_hour_does_not_fall_below_one_in_a_thousand_seconds() {
    let clock = Clock::manual();
    let server = RateLimiter::new(Quota::new(1, 3_600 * SECOND)).clock(&clock);
    let client = AdaptiveRate::new().clock(&clock);
    served(&server, &client, &clock, 86_400 * SECOND);
    assert_eq!(client.rate(), 0.001);
}

/// The environment variable `ADAPTIVE_CASES` sets the number of operations, as in
/// `scripts/nightly`.
#[test]
fn operations_at_random_lose_nothing() {
    let operations = std::env::var("ADAPTIVE_CASES");
    let operations = operations.map_or(100_000, |cases| cases.parse().expect("a number"));
    let mut random = Random::new(9438);
    let (clock, rate) = starting_at(500.0);
    let rate = rate.limits(100.0..=2_000.0).burst(3).max_waiters(20);
    let (mut held, mut waiters) = (Vec::new(), Vec::new());
    let (mut succeeded, mut refused) = (0, 0);
    for _ in 0..operations {
        match random.below(10) {
            0 => match rate.try_acquire() {
                Ok(permit) => held.push(permit),
                Err(error) => assert_eq!(error.kind(), ErrorKind::RateLimited),
            },
            1 | 2 => {
                let mut waiter = Waiter::new(rate.acquire());
                match waiter.poll() {
                    Poll::Ready(Ok(permit)) => held.push(permit),
                    Poll::Ready(Err(error)) => assert_eq!(error.kind(), ErrorKind::QueueFull),
                    Poll::Pending => waiters.push(waiter),
                }
            }
            3 if !waiters.is_empty() => {
                let one = random.below(waiters.len() as u32) as usize;
                drop(waiters.remove(one));
            }
            4..7 => clock.advance(Duration::from_micros(u64::from(random.below(4_000)))),
            _ if !held.is_empty() => {
                let one = random.below(held.len() as u32) as usize;
                let permit = held.swap_remove(one);
                let after = Duration::from_millis(u64::from(random.below(20)));
                match random.below(100) {
                    0 => permit.throttled(None),
                    1 => permit.throttled(Some(after)),
                    2..10 => permit.ignore(),
                    10..18 => permit.refund(),
                    _ => drop(permit),
                }
                // The counts show the kind of end.
                let snapshot = rate.snapshot();
                let ended = snapshot.succeeded + snapshot.refusals - succeeded - refused;
                assert!(ended <= 1);
                (succeeded, refused) = (snapshot.succeeded, snapshot.refusals);
                assert!(snapshot.limits.contains(&snapshot.rate));
            }
            _ => {}
        }
        // The granted callers at the head collect their permits; sometimes not at once.
        while random.below(4) > 0 && waiters.first().is_some_and(|first| first.wakes() > 0) {
            held.push(waiters.remove(0).granted());
        }
        let granted = waiters
            .iter()
            .take_while(|waiter| waiter.wakes() > 0)
            .count();
        assert!(
            waiters[granted..].iter().all(|waiter| waiter.wakes() == 0),
            "out of order"
        );
        assert_eq!(rate.snapshot().waiting, waiters.len() - granted);
    }
    let snapshot = rate.snapshot();
    assert!(snapshot.succeeded > operations / 20 && snapshot.cuts > operations / 10_000);
    // Every waiter is admitted in time.
    clock.advance(Duration::from_secs(2));
    assert_eq!(rate.snapshot().waiting, 0);
    waiters
        .iter_mut()
        .for_each(|waiter| waiter.granted().ignore());
}
