//! Models the gate and the buffers of the detector with two or three threads, on a manual clock.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::time::Duration;

use tollgate::time::ManualClock;
use tollgate::wait::Waiting;
use tollgate::{Clock, Gate, Quota, Semaphore};
use tollgate_detector::Detector;
use tollgate_loom::*;

/// Returns a gate on a clock of its own.
fn gate() -> (Gate, ManualClock) {
    let clock = clock();
    let gate = Gate::new().clock(&clock);
    // The state for waiters is created by an `OnceLock`, which loom does not know.
    gate.open();
    (gate, clock)
}

/// Returns a gate that was shut for a second, which has just passed.
fn late_gate() -> (Gate, ManualClock) {
    let (gate, clock) = gate();
    gate.block_for(SECOND);
    clock.advance(SECOND);
    (gate, clock)
}

/// Returns how long a gate is shut.
fn shut_for(gate: &Gate) -> Option<Duration> {
    gate.check().err()?.retry_after()
}

type Wait = Waiting<<Gate as tollgate::Throttle>::Enter>;

fn queued(gate: &Gate) -> Waiter<Wait> {
    Waiter::queued(gate.acquire_owned())
}

/// Asserts that a waiter has been woken, and passes.
fn has_been_let_go(waiter: JoinHandle<Joined<Wait>>) {
    output_of(waiter.join().unwrap()).unwrap();
}

// Two checks find that the time is over; meanwhile the gate is shut again, for a time that is not over.
model!(shut_again_while_late_checks_reopen_it_it_stays_shut, || {
    let (gate, _clock) = late_gate();
    let checks = each_with::<2, _, _>(&gate, |gate| drop(gate.check()));
    gate.block_for(SECOND);
    assert!(gate.check().is_err());
    join_all(checks);
    assert_eq!(shut_for(&gate), Some(SECOND));
});

model!(of_two_that_shut_it_the_longer_counts, || {
    let (gate, _clock) = late_gate();
    let longer = with(&gate, |gate| gate.block_for(3 * SECOND));
    gate.block_for(2 * SECOND);
    let _ = gate.check();
    join_all([longer]);
    assert_eq!(shut_for(&gate), Some(3 * SECOND));
});

model!(opened_and_shut_at_once_it_is_one_or_the_other, || {
    let (gate, _clock) = gate();
    gate.block_for(SECOND);
    let opens = with(&gate, |gate| gate.open());
    gate.block_for(2 * SECOND);
    join_all([opens]);
    assert!(shut_for(&gate).is_none_or(|after| after == 2 * SECOND));
});

model!(opening_and_a_joiner_do_not_miss_each_other, || {
    let (gate, _clock) = gate();
    gate.block_for(Duration::MAX);
    let joiner = joining(gate.acquire_owned());
    gate.open();
    has_been_let_go(joiner);
    assert_eq!(gate.snapshot().waiting, 0);
});

model!(waiter_that_moved_to_another_waker_is_woken_by_it, || {
    let (gate, _clock) = gate();
    gate.block_for(Duration::MAX);
    let opens = with(&gate, |gate| gate.open());
    moved(gate.acquire()).unwrap();
    join_all([opens]);
});

model!(the_alarm_and_a_joiner_do_not_miss_each_other, || {
    let (gate, clock) = gate();
    gate.block_for(SECOND);
    let joiner = joining(gate.acquire_owned());
    clock.advance(SECOND);
    has_been_let_go(joiner);
});

// Another thread opens the gate without the lock, and it may be shut again at once.
model!(waiter_is_let_go_though_a_check_opens_and_it_is_shut, || {
    let (gate, clock) = gate();
    gate.block_for(SECOND);
    let waiter = queued(&gate);
    let checks = with(&gate, |gate| {
        if gate.check().is_ok() {
            gate.block_for(SECOND);
        }
    });
    clock.advance(SECOND);
    join_all([checks]);
    clock.advance(SECOND);
    assert_eq!(gate.snapshot().waiting, 0);
    waiter.output().unwrap();
});

model!(one_who_leaves_while_it_opens_keeps_nobody_waiting, || {
    let (gate, clock) = gate();
    gate.block_for(SECOND);
    let (first, second) = (queued(&gate), queued(&gate));
    let leaves = dropping(first);
    clock.advance(SECOND);
    join_all([leaves]);
    second.output().unwrap();
});

/// Returns a detector that has been used by the thread that a model runs on.
fn detector() -> Arc<Detector<u32>> {
    let detector = Detector::new(Quota::per_hour(1)).capacity(4).buffer(1);
    let detector = Arc::new(detector.clock(Clock::manual()));
    detector.record_many(&0, 0);
    detector.pass();
    detector
}

model!(what_is_recorded_is_counted_or_lost_once, || {
    let detector = detector();
    let records = [1, 2].map(|key| {
        with(&detector, move |it| {
            it.record_many(&key, 10_u64.pow(key));
        })
    });
    let first = detector.pass();
    join_all(records);
    let second = detector.pass();
    let counted = first.counted + second.counted;
    assert_eq!(counted + first.lost + second.lost, 110);
});

// There are two processors, and so two tables.
#[test]
fn of_two_that_record_none_is_in_the_way_of_the_other() {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1) {
        return;
    }
    check(3, || {
        let detector = detector();
        let record = with(&detector, |detector| detector.record(&1));
        detector.record(&1);
        join_all([record]);
        let pass = detector.pass();
        assert_eq!((pass.counted, pass.lost), (2, 0));
    });
}

// A caller passes the gate and enters the semaphore, and the gate is shut and opened meanwhile.
model!(
    caller_before_a_throttle_that_is_stopped_is_let_go_when_it_opens,
    || {
        let (gate, _clock) = gate();
        let slots = Arc::new(Semaphore::new(1));
        let caller = joining(gate.before(Arc::clone(&slots)).acquire());
        gate.block_for(Duration::MAX);
        gate.open();
        let slot = output_of(caller.join().unwrap()).unwrap();
        assert_eq!(slots.available_permits(), 0);
        drop(slot);
        assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 0));
    }
);

// Whoever is admitted has looked before the gate was shut; whoever was not holds no slot.
model!(
    caller_before_a_throttle_holds_nothing_while_it_is_shut,
    || {
        let (gate, _clock) = gate();
        let slots = Arc::new(Semaphore::new(1));
        let caller = joining(gate.before(Arc::clone(&slots)).acquire());
        gate.block_for(Duration::MAX);
        let joined = caller.join().unwrap();
        let is_admitted = joined.is_ok();
        assert_eq!(slots.available_permits(), usize::from(!is_admitted));
        assert_eq!(gate.snapshot().waiting, usize::from(!is_admitted));
        drop(joined);
        assert_eq!((slots.available_permits(), gate.snapshot().waiting), (1, 0));
    }
);

// A pass that finds a gate open does not forget a gate that is shut at that moment.
model!(gate_that_is_shut_during_a_pass_stays_known, || {
    let detector = detector();
    detector.gate(&1).block_for(SECOND);
    detector.gate(&1).open();
    let shuts = with(&detector, |detector| detector.gate(&1).block_for(SECOND));
    detector.pass();
    join_all([shuts]);
    assert_eq!(detector.flagged(), [1]);
    assert!(detector.check(&1).is_err());
});
