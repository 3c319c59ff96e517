//! How long pauses last.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use http::StatusCode;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep};
use tollgate::Clock;
use tollgate_http::{NextStep, PausedBy, Pauses};

use super::setup::{Caller, ORIGIN, SECOND, exact, refuse, wait_of};

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Callers go on, whether or not they are refused, from before a pause until after it. Returns the requests that were
/// sent, those of them in the pause, and the calls that were refused locally.
fn go_on(seconds: u64, callers: usize, max_wait: u64) -> [usize; 3] {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let pauses = Pauses::new()
            .clock(Clock::tokio())
            .max_wait(Duration::from_secs(max_wait));
        let counts = Rc::new([const { Cell::new(0) }; 3]);
        let add =
            |counts: &[Cell<usize>; 3], index: usize| counts[index].set(counts[index].get() + 1);
        // Whether a refusal has come.
        let known = Rc::new(Cell::new(false));
        let start = Instant::now();
        let begin = Duration::from_secs(1);
        let pause = begin..begin + Duration::from_secs(seconds);
        // Some of the time between the calls of a caller, so that the long pauses do not take all day.
        let between = Duration::from_secs(1 + seconds / 500);
        for caller in 0..callers as u32 {
            let (pauses, counts, pause) = (pauses.clone(), Rc::clone(&counts), pause.clone());
            let known = Rc::clone(&known);
            spawn_local(async move {
                sleep(Duration::from_millis(10) * caller).await;
                loop {
                    let mut call = pauses.call(ORIGIN);
                    let next = loop {
                        if call.ready().await.is_err() {
                            add(&counts, 2);
                            break NextStep::Return;
                        }
                        if !call.send() {
                            continue;
                        }
                        add(&counts, 0);
                        let at = start.elapsed();
                        if known.get() && at < pause.end {
                            add(&counts, 1);
                        }
                        sleep(Duration::from_millis(100)).await;
                        let left = pause.end.saturating_sub(start.elapsed());
                        let refused = at >= pause.start && !left.is_zero();
                        let status = if refused {
                            StatusCode::FORBIDDEN
                        } else {
                            StatusCode::OK
                        };
                        known.set(known.get() || refused);
                        let wait = refused.then(|| left.as_secs() + 1);
                        if call.answered(status, &wait_of(wait), true) == NextStep::Return {
                            break NextStep::Return;
                        }
                    };
                    assert_eq!(next, NextStep::Return);
                    sleep(between).await;
                }
            });
        }
        sleep(pause.end + Duration::from_secs(seconds / 5 + 60)).await;
        [0, 1, 2].map(|index| counts[index].get())
    })
}

#[test]
fn send_in_a_pause_of_any_length_is_refused() {
    for seconds in [1, 59, 61, 40 * MINUTE, 23 * HOUR] {
        for callers in [1, 64] {
            for max_wait in [0, 60, 2 * DAY] {
                let [sent, in_pause, refused] = go_on(seconds, callers, max_wait);
                let world =
                    format!("{seconds} s, {callers} callers, {max_wait} s: {sent}, {refused}");
                assert_eq!(in_pause, 0, "{world}");
                assert!(sent >= 2 * callers, "{world}");
                // A pause is up to a tenth longer, and the server rounds up.
                if max_wait < seconds {
                    assert!(refused > 0, "{world}");
                } else if max_wait > (seconds + 2) * 11 / 10 {
                    assert_eq!(refused, 0, "{world}");
                }
            }
        }
    }
}

#[test]
fn pause_above_the_bound_lasts_for_the_bound() {
    for (asked, lasts) in [
        (DAY - 1, DAY - 1),
        (DAY, DAY),
        (DAY + 1, DAY),
        (30 * DAY, DAY),
    ] {
        let (pauses, clock) = exact();
        refuse(&pauses, 429, Some(asked));
        let paused = pauses.check(ORIGIN).unwrap_err();
        assert_eq!(
            paused.remaining(),
            Some(Duration::from_secs(lasts)),
            "{asked}"
        );
        clock.advance(Duration::from_secs(lasts) - Duration::from_nanos(1));
        assert!(pauses.check(ORIGIN).is_err());
        clock.advance(Duration::from_nanos(1));
        assert!(pauses.check(ORIGIN).is_ok());
    }
}

#[test]
fn pause_is_longer_by_its_jitter_and_never_shorter() {
    let clock = Clock::manual();
    let mut remaining: Vec<Duration> = (0..100)
        .map(|_| {
            let pauses = Pauses::new().clock(&clock);
            refuse(&pauses, 429, Some(100));
            pauses.check(ORIGIN).unwrap_err().remaining().unwrap()
        })
        .collect();
    remaining.sort_unstable();
    assert!(remaining[0] >= 100 * SECOND && remaining[99] <= 110 * SECOND);
    // A hundred random numbers are not all in one half.
    assert!(remaining[0] < 105 * SECOND && remaining[99] > 105 * SECOND);
}

#[test]
fn pause_that_is_shorter_than_the_present_one_changes_nothing() {
    let (pauses, clock) = exact();
    let [mut first, mut second, mut third] = [(); 3].map(|()| Caller::new(&pauses));
    assert!(first.sends() && second.sends() && third.sends());
    first.answered(429, Some(10));
    clock.advance(SECOND);
    second.answered(429, Some(5));
    let left = || pauses.check(ORIGIN).unwrap_err().remaining();
    assert_eq!(left(), Some(9 * SECOND));
    third.answered(429, Some(20));
    assert_eq!(left(), Some(20 * SECOND));
    pauses.pause(ORIGIN, SECOND);
    assert_eq!(left(), Some(20 * SECOND));
}

#[test]
fn poll_of_a_call_that_cannot_wait_so_long_is_refused_at_once() {
    let (pauses, clock) = exact();
    let mut early = Caller::new(&pauses);
    clock.advance(10 * SECOND);
    refuse(&pauses, 429, Some(61));
    let paused = early.refused();
    assert_eq!(paused.remaining(), Some(61 * SECOND));
    assert_eq!((paused.origin(), paused.by()), (ORIGIN, PausedBy::Server));
    assert_eq!(paused.status(), StatusCode::TOO_MANY_REQUESTS);
    clock.advance(SECOND);
    // What was before it waits does not count.
    assert!(early.waits());
    let mut late = Caller::new(&pauses);
    assert!(late.waits());
    // A longer pause refuses who waits already.
    let mut other = Caller::new(&pauses);
    assert!(other.waits());
    pauses.pause(ORIGIN, 61 * SECOND);
    assert!(early.was_woken() && late.was_woken() && other.was_woken());
    assert_eq!(early.refused().by(), PausedBy::Caller);
    drop(early);
    assert_eq!(late.refused().by(), PausedBy::Caller);
    drop((late, other));
    assert_eq!(pauses.snapshot().waiting, 0);
}

#[test]
fn pause_of_nothing_changes_nothing() {
    let (pauses, _clock) = exact();
    pauses.pause(ORIGIN, Duration::ZERO);
    let mut callers: Vec<Caller> = (0..5).map(|_| Caller::new(&pauses)).collect();
    assert!(callers.iter_mut().all(Caller::sends));
}

#[test]
fn check_of_another_origin_passes() {
    let (pauses, _clock) = exact();
    refuse(&pauses, 429, Some(100));
    assert!(pauses.check("https://example.com:444").is_ok());
    let mut other = Caller::of(&pauses, "http://example.com:80");
    assert!(other.succeeds());
}

#[test]
fn resume_ends_a_pause_and_lets_one_request_go() {
    let (pauses, _clock) = exact();
    pauses.pause(ORIGIN, Duration::MAX);
    assert_eq!(
        pauses.check(ORIGIN).unwrap_err().remaining(),
        Some(Duration::MAX)
    );
    let mut caller = Caller::new(&pauses);
    assert_eq!(caller.refused().remaining(), Some(Duration::MAX));
    pauses.resume(ORIGIN);
    pauses.resume("https://example.org:443");
    assert!(pauses.check(ORIGIN).is_ok());
    let mut next = Caller::new(&pauses);
    assert!(caller.sends() && next.waits());
    caller.answered(200, None);
    assert!(next.was_woken() && next.succeeds());
    assert_eq!(pauses.snapshot(), tollgate_http::PausesSnapshot::default());
}

#[test]
fn into_response_of_a_pause_without_an_end_asks_for_the_longest_wait() {
    let (pauses, _clock) = exact();
    pauses.pause(ORIGIN, Duration::MAX);
    let response: http::Response<String> = pauses.check(ORIGIN).unwrap_err().into_response();
    assert_eq!(response.headers()["retry-after"], u64::MAX.to_string());
}

/// No setting and no field at its bound overflows, and nobody waits after the end of all pauses.
#[test]
fn settings_at_their_bounds_leave_nobody_waiting() {
    let bounds = [Duration::ZERO, Duration::MAX, SECOND];
    let nano = Duration::from_nanos(1);
    for (answer_timeout, max_wait) in pairs(bounds, bounds) {
        for (max_pause, first) in pairs(bounds, [nano, SECOND, Duration::MAX]) {
            for jitter in [0, 255] {
                let clock = Clock::manual();
                let pauses = Pauses::new()
                    .answer_timeout(answer_timeout)
                    .max_wait(max_wait)
                    .max_pause(max_pause)
                    .backoff(first, Duration::MAX)
                    .jitter_percent(jitter)
                    .retries(u32::MAX)
                    .clock(&clock);
                let seconds = [None, Some(0), Some(1), Some(u64::MAX)];
                for (status, seconds) in pairs([200, 403, 429, 503], seconds) {
                    let [mut first, mut second] = [(); 2].map(|()| Caller::new(&pauses));
                    for _ in 0..3 {
                        if first.sends() {
                            first.answered(status, seconds);
                        }
                        let _ = second.poll();
                        clock.advance(SECOND);
                    }
                    clock.advance(Duration::MAX);
                    let _ = (first.poll(), second.poll());
                    pauses.resume(ORIGIN);
                }
                assert_eq!(pauses.snapshot().waiting, 0, "{pauses:?}");
            }
        }
    }
}

fn pairs<A: Copy, B: Copy, const N: usize, const M: usize>(
    first: [A; N],
    second: [B; M],
) -> impl Iterator<Item = (A, B)> {
    let with = move |a| second.map(|b| (a, b));
    first.into_iter().flat_map(with)
}
