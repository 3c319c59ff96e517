//! Decisions and waiters beside a pause.

use super::*;

#[test]
fn a_try_beside_a_pause_is_before_it_or_refused() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        let tries = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || [limiter.try_acquire().is_ok(), limiter.try_acquire().is_ok()])
        };
        limiter.pause_for(HOUR);
        assert!(limiter.try_acquire().is_err());
        let [first, second] = tries.join().unwrap();
        assert!(first || !second, "admitted during the pause");
        // Whatever was admitted before, one call is at the end.
        assert_eq!(limiter.peek().retry_after, HOUR);
        clock.advance(HOUR);
        limiter.try_acquire().unwrap();
        assert_eq!(limiter.peek().retry_after, Duration::from_millis(1));
    });
}

/// Both find that it is over, and one of them allows decisions without the lock again.
#[test]
fn two_tries_at_the_end_of_a_pause_admit_one() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        limiter.pause_for(HOUR);
        clock.advance(HOUR);
        let other = {
            let limiter = Arc::clone(&limiter);
            thread::spawn(move || limiter.try_acquire().is_ok())
        };
        let admitted = limiter.try_acquire().is_ok();
        assert_ne!(admitted, other.join().unwrap());
    });
}

/// Two callers that a gate has released, each after it has spent what is left of the burst.
#[test]
fn two_callers_behind_a_gate_that_opens_are_admitted_one_by_one() {
    model(|| {
        let (limiter, clock) = limiter(Quota::per_second(1000).burst(3));
        let gate = tollgate::Gate::new().clock(&clock);
        gate.block_for(HOUR);
        let wait = |limiter: &Arc<_>| {
            let both = tollgate::all((gate.clone(), Arc::clone(limiter)));
            let mut wait = Box::pin(both.acquire());
            assert!(poll(&mut wait).is_pending());
            wait
        };
        let (mut one, mut other) = (wait(&limiter), wait(&limiter));
        clock.advance(HOUR);
        let polls = thread::spawn(move || {
            let admitted = poll(&mut other).is_ready();
            (admitted, other)
        });
        let admitted = poll(&mut one).is_ready();
        let (too, other) = polls.join().unwrap();
        assert_ne!(admitted, too);
        drop((one, other));
    });
}

fn poll<F: Future>(future: &mut Pin<Box<F>>) -> Poll<F::Output> {
    future
        .as_mut()
        .poll(&mut Context::from_waker(Waker::noop()))
}
