//! How a wait for a gate ends otherwise: by a timeout, by a token, on a thread.

use std::time::Duration;

use tollgate::{Clock, ErrorKind, Gate};

use super::{MINUTE, NANO, shut};
use crate::support::Waiter;

#[test]
fn a_timeout_that_is_too_short_is_refused_at_once() {
    let (gate, _clock) = shut();
    let mut waiting = Waiter::new(gate.acquire().timeout(MINUTE - NANO));
    let refused = waiting.output().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert_eq!(refused.retry_after(), Some(MINUTE));
    assert_eq!(gate.snapshot().waiting, 0);
}

#[test]
fn a_timeout_that_is_long_enough_waits_on_the_clock_of_the_gate() {
    let (gate, clock) = shut();
    let mut waiting = Waiter::parked(gate.acquire().timeout(MINUTE));
    clock.advance(MINUTE);
    waiting.granted();

    gate.block_for(MINUTE);
    let mut waiting = Waiter::parked(gate.acquire().timeout(MINUTE));
    gate.block_for(2 * MINUTE);
    clock.advance(MINUTE - NANO);
    assert!(waiting.is_pending());
    clock.advance(NANO);
    assert_eq!(waiting.refused(), ErrorKind::TimedOut);
    assert_eq!(gate.snapshot().waiting, 0);
}

#[test]
fn on_the_time_of_the_machine_the_timer_of_the_process_releases() {
    let gate = Gate::new().clock(Clock::system());
    gate.block_for(Duration::from_millis(3));
    let reopens = gate.blocked_until().unwrap();
    assert_eq!(gate.acquire().wait(), Ok(()));
    assert!(Clock::system().now() >= reopens);
}

#[cfg(feature = "tokio")]
mod with_tokio {
    use tokio_util::sync::CancellationToken;

    use super::*;
    use crate::support::{kind, paused_runtime};

    #[test]
    fn a_token_ends_a_wait_and_wins_over_an_open_gate() {
        let (gate, _clock) = shut();
        let token = CancellationToken::new();
        let mut waiting = Waiter::parked(gate.acquire().cancel_on(&token));
        let mut owned = Waiter::parked(gate.acquire_owned().cancel_on(token.clone()));
        token.cancel();
        assert_eq!(waiting.refused(), ErrorKind::Cancelled);
        assert_eq!(owned.refused(), ErrorKind::Cancelled);
        assert_eq!(gate.snapshot().waiting, 0);
        gate.open();
        assert_eq!(gate.acquire().timeout(Duration::ZERO).wait(), Ok(()));
        let refused = gate.acquire().cancel_on(&token).wait();
        assert_eq!(kind(refused), ErrorKind::Cancelled);
    }

    #[test]
    fn on_the_time_of_tokio_it_reopens_with_it() {
        paused_runtime().block_on(async {
            let gate = Gate::new().clock(Clock::tokio());
            let start = tokio::time::Instant::now();
            gate.block_for(MINUTE);
            let handle = gate.clone();
            let waiting = tokio::spawn(async move { handle.acquire().await });
            assert_eq!(waiting.await.unwrap(), Ok(()));
            assert_eq!(start.elapsed(), MINUTE);
            assert!(gate.check().is_ok());
        });
    }

    #[cfg(feature = "test-util")]
    #[test]
    fn in_a_test_it_follows_the_time_of_the_runtime() {
        paused_runtime().block_on(async {
            let gate = Gate::new();
            gate.block_for(MINUTE);
            tokio::time::advance(MINUTE).await;
            assert!(gate.check().is_ok());
        });
    }
}
