//! Operations in random order: no permit and no waiter is lost.

use std::task::Poll;
use std::time::Duration;

use tollgate::ErrorKind;

use super::starting_at;
use crate::support::Waiter;
use crate::support::random::Random;

/// So many operations as the environment variable `ADAPTIVE_CASES` says, as in `scripts/nightly`.
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
                // The kind of end is seen in the numbers.
                let snapshot = rate.snapshot();
                let ended = snapshot.succeeded + snapshot.refusals - succeeded - refused;
                assert!(ended <= 1);
                (succeeded, refused) = (snapshot.succeeded, snapshot.refusals);
                assert!(snapshot.limits.contains(&snapshot.rate));
            }
            _ => {}
        }
        // Those at the head that were granted collect their permits; sometimes not at once.
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
    // Everybody who waits is admitted in time.
    clock.advance(Duration::from_secs(2));
    assert_eq!(rate.snapshot().waiting, 0);
    waiters
        .iter_mut()
        .for_each(|waiter| waiter.granted().ignore());
}
