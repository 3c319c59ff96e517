//! What happens after a pause.

use std::time::Duration;

use tollgate::Clock;
use tollgate_http::{Pauses, PausesSnapshot};

use super::setup::{Caller, ORIGIN, SECOND, exact, refuse};

/// Sends so many requests, and lets the last of them be refused for a second.
fn refused_in_flight(pauses: &Pauses, in_flight: usize) -> Vec<Caller> {
    let mut callers: Vec<Caller> = (0..in_flight).map(|_| Caller::new(pauses)).collect();
    assert!(callers.iter_mut().all(Caller::sends));
    callers[in_flight - 1].answered(429, Some(1));
    callers
}

fn number_of(callers: &mut [Caller]) -> usize {
    callers
        .iter_mut()
        .filter_map(|it| it.passes().then_some(()))
        .count()
}

#[test]
fn success_lets_two_go_up_to_half_of_the_former_requests() {
    let (pauses, clock) = exact();
    let _sent = refused_in_flight(&pauses, 9);
    let mut callers: Vec<Caller> = (0..100).map(|_| Caller::new(&pauses)).collect();
    assert_eq!(number_of(&mut callers), 0);
    clock.advance(SECOND);
    // Half of nine is four and a half.
    let mut windows = Vec::new();
    let mut first = 0;
    while windows.len() < 5 {
        let window = number_of(&mut callers[first..]);
        windows.push(window);
        for caller in &mut callers[first..first + window] {
            assert!(caller.call.send());
            caller.answered(200, None);
        }
        first += window;
    }
    // From five on, each success adds a tenth.
    assert_eq!(windows, [1, 2, 4, 5, 5]);
}

#[test]
fn request_without_an_answer_counts_as_in_flight_for_ten_seconds() {
    let (pauses, clock) = exact();
    let _sent = refused_in_flight(&pauses, 9);
    let [mut first, mut second, mut third] = [(); 3].map(|()| Caller::new(&pauses));
    assert!(first.waits() && second.waits() && third.waits());
    clock.advance(SECOND);
    assert!(first.was_woken() && !second.was_woken());
    clock.advance(SECOND);
    assert!(first.sends());
    clock.advance(10 * SECOND - Duration::from_nanos(1));
    assert!(second.waits());
    clock.advance(Duration::from_nanos(1));
    assert!(second.was_woken() && second.sends() && third.waits());
    // The answer was late, and is a success all the same.
    first.answered(200, None);
    assert!(third.was_woken() && third.sends());
}

#[test]
fn drop_of_a_call_lets_the_next_go() {
    for sends in [false, true] {
        let (pauses, clock) = exact();
        refuse(&pauses, 429, Some(1));
        let [mut first, mut second, mut third] = [(); 3].map(|()| Caller::new(&pauses));
        assert!(first.waits() && second.waits() && third.waits());
        drop(second);
        clock.advance(SECOND);
        assert!(first.was_woken());
        if sends {
            assert!(first.sends());
        }
        drop(first);
        assert!(third.was_woken() && third.succeeds());
        assert_eq!(pauses.snapshot().opening, 0);
    }
}

#[test]
fn leave_of_the_last_waiter_after_a_success_opens() {
    let (pauses, clock) = exact();
    let _sent = refused_in_flight(&pauses, 9);
    let [mut first, mut second, mut third] = [(); 3].map(|()| Caller::new(&pauses));
    let mut fourth = Caller::new(&pauses);
    assert!(first.waits() && second.waits() && third.waits() && fourth.waits());
    clock.advance(SECOND);
    assert!(first.succeeds());
    // Two may be in flight, and the fourth waits.
    assert!(second.sends() && third.sends() && fourth.waits());
    assert_eq!(pauses.snapshot().opening, 1);
    drop(fourth);
    assert_eq!(pauses.snapshot().opening, 0);
}

#[test]
fn poll_after_the_time_of_a_call_is_refused_for_an_unknown_time() {
    let (pauses, clock) = exact();
    let pauses = pauses.answer_timeout(SECOND * 100).clock(&clock);
    refuse(&pauses, 429, Some(1));
    let [mut first, mut second] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(first.waits() && second.waits());
    clock.advance(SECOND);
    assert!(first.sends());
    clock.advance(59 * SECOND - Duration::from_nanos(1));
    assert!(!second.was_woken() && second.waits());
    clock.advance(Duration::from_nanos(1));
    assert!(second.was_woken());
    let paused = second.refused();
    assert_eq!(paused.remaining(), None);
    let text = format!(
        "requests to {ORIGIN} were paused, and the first ones since are not answered yet: the server asked for it"
    );
    assert_eq!(paused.to_string(), text);
    let response = paused.into_response::<()>();
    assert!(response.status() == 429 && response.headers().is_empty());
}

#[test]
fn send_of_a_call_that_passed_before_the_pause_waits_again_at_its_place() {
    let (pauses, clock) = exact();
    let [mut early, mut refused] = [(); 2].map(|()| Caller::new(&pauses));
    assert!(early.passes());
    // What it waits for its slot does not count.
    clock.advance(100 * SECOND);
    assert!(refused.sends());
    refused.answered(429, Some(1));
    let mut late = Caller::new(&pauses);
    assert!(late.waits());
    // It had its slot, and then the pause began.
    assert!(!early.call.send());
    assert!(early.waits());
    clock.advance(SECOND);
    assert!(early.was_woken() && !late.was_woken());
    assert!(early.sends());
    // The refused one repeats before those that came later.
    assert!(refused.waits());
    early.answered(200, None);
    assert!(refused.sends() && late.waits());
    refused.answered(200, None);
    assert!(late.succeeds());
}

#[test]
fn send_with_a_pass_of_an_earlier_pause_waits_again() {
    let (pauses, clock) = exact();
    refuse(&pauses, 429, Some(1));
    let mut first = Caller::new(&pauses);
    assert!(first.waits());
    clock.advance(SECOND);
    assert!(first.passes());
    pauses.pause(ORIGIN, SECOND);
    assert!(!first.call.send() && first.waits());
    clock.advance(SECOND);
    assert!(first.was_woken() && first.succeeds());
}

#[test]
fn send_with_an_expired_pass_takes_a_free_one() {
    let (pauses, clock) = exact();
    let _sent = refused_in_flight(&pauses, 9);
    let [mut first, mut second, mut third] = [(); 3].map(|()| Caller::new(&pauses));
    assert!(first.waits() && second.waits() && third.waits());
    clock.advance(SECOND);
    assert!(first.passes());
    // It waits for a slot for more than ten seconds.
    clock.advance(10 * SECOND);
    assert!(second.was_woken() && second.sends());
    assert!(!first.call.send());
    second.answered(200, None);
    // Two passes are free. The first call is in front again.
    assert!(first.sends() && third.was_woken());
}

#[test]
fn refusal_after_a_pause_halves_the_window_and_one_begins_again() {
    let (pauses, clock) = exact();
    let _sent = refused_in_flight(&pauses, 16);
    clock.advance(SECOND);
    let mut callers: Vec<Caller> = (0..100).map(|_| Caller::new(&pauses)).collect();
    let mut first = 0;
    for window in [1, 2, 4] {
        assert_eq!(number_of(&mut callers[first..]), window);
        for caller in &mut callers[first..first + window] {
            assert!(caller.call.send());
            caller.answered(200, None);
        }
        first += window;
    }
    // Eight may be in flight, so the next threshold is four.
    assert_eq!(number_of(&mut callers[first..]), 8);
    assert!(
        callers[first..first + 8]
            .iter_mut()
            .all(|it| it.call.send())
    );
    callers[first].answered(429, Some(1));
    assert!(callers[first].waits());
    first += 8;
    clock.advance(SECOND);
    // The refused one repeats at its place.
    assert!(callers[first - 8].succeeds());
    for window in [2, 4, 4] {
        assert_eq!(number_of(&mut callers[first..]), window);
        for caller in &mut callers[first..first + window] {
            assert!(caller.call.send());
            caller.answered(200, None);
        }
        first += window;
    }
}

/// Settling the origin once for each waiter, inside of each other, would overflow the stack.
#[test]
fn answer_timeout_of_nothing_lets_all_waiters_go() {
    let (pauses, clock) = exact();
    let pauses = pauses.answer_timeout(Duration::ZERO).clock(&clock);
    pauses.pause(ORIGIN, SECOND);
    let mut callers: Vec<Caller> = (0..10_000).map(|_| Caller::new(&pauses)).collect();
    assert!(callers.iter_mut().all(Caller::waits));
    clock.advance(SECOND);
    assert!(callers.iter().all(Caller::was_woken));
}

/// Otherwise each request that fails without a response would count as in flight for ever.
#[test]
fn send_of_a_request_that_has_failed_counts_once() {
    let (pauses, clock) = exact();
    let mut failing = Caller::new(&pauses);
    for _ in 0..100 {
        assert!(failing.sends());
    }
    refuse(&pauses, 429, Some(1));
    drop(failing);
    clock.advance(SECOND);
    // Two were in flight, so each success lets only a tenth of a request go.
    let mut callers: Vec<Caller> = (0..20).map(|_| Caller::new(&pauses)).collect();
    for sent in 0..9 {
        assert_eq!(number_of(&mut callers[sent..]), 1, "{sent}");
        callers[sent].answered(200, None);
    }
}

/// The timer of tokio has whole milliseconds, so the waiters are woken late.
#[tokio::test(start_paused = true)]
async fn send_without_being_ready_leaves_the_queue() {
    let pauses = Pauses::new().clock(Clock::tokio());
    pauses.pause(ORIGIN, SECOND + Duration::from_micros(200));
    let mut caller = Caller::new(&pauses);
    assert!(caller.waits());
    tokio::time::advance(SECOND + Duration::from_micros(300)).await;
    assert!(!caller.was_woken() && caller.call.send());
    assert_eq!(pauses.snapshot().waiting, 0);
    caller.answered(200, None);
    assert_eq!(pauses.snapshot(), PausesSnapshot::default());
}
