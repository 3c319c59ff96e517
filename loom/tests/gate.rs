//! The gate and the buffers of the detector with two or three threads, under every interleaving
//! within the bound of [`model`], on a manual clock.

#![cfg(tollgate_loom)]
// The threads of a model are not threads: loom asks for no `Send`.
#![allow(clippy::arc_with_non_send_sync)]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use loom::thread;
use tollgate::{Clock, Gate, ManualClock, Quota, Throttle};
use tollgate_detector::Detector;

/// Every interleaving with at most three preemptions, or as many as `LOOM_MAX_PREEMPTIONS` says.
/// Switches where a thread waits or ends are not counted.
fn model(run: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(3);
    builder.check(run);
}

const SECOND: Duration = Duration::from_secs(1);

/// A gate on a clock of its own, at a tick that is not zero.
fn gate() -> (Gate, ManualClock) {
    let clock = Clock::manual();
    clock.advance(100 * SECOND);
    let gate = Gate::new().clock(&clock);
    // What is made for waiters is made by an `OnceLock`, which loom does not know.
    gate.open();
    (gate, clock)
}

#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

/// Somebody who waits.
struct Waiter {
    future: tollgate::Waiting<<Gate as Throttle>::Enter>,
    wakes: Arc<Wakes>,
}

impl Waiter {
    fn new(gate: &Gate) -> Self {
        Self {
            future: gate.acquire_owned(),
            wakes: Arc::default(),
        }
    }

    fn is_pending(&mut self) -> bool {
        let waker = Waker::from(Arc::clone(&self.wakes));
        match Pin::new(&mut self.future).poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(result) => {
                result.unwrap();
                false
            }
            Poll::Pending => true,
        }
    }

    fn wakes(&self) -> usize {
        self.wakes.0.load(Ordering::SeqCst)
    }
}

/// Waits in a thread, as far as it gets.
fn join(gate: &Gate) -> thread::JoinHandle<Option<Waiter>> {
    let mut waiter = Waiter::new(gate);
    thread::spawn(move || waiter.is_pending().then_some(waiter))
}

/// A waiter has been woken, and goes through.
fn has_been_let_go(waiter: Option<Waiter>) {
    if let Some(mut waiter) = waiter {
        assert!(waiter.wakes() > 0, "not woken");
        assert!(!waiter.is_pending(), "woken for nothing");
    }
}

/// Two find that the time is over; the gate is shut again meanwhile, for a time that is not.
#[test]
fn shut_again_while_late_checks_reopen_it_it_stays_shut() {
    model(|| {
        let (gate, clock) = gate();
        gate.block_for(SECOND);
        clock.advance(SECOND);
        let checks = [gate.clone(), gate.clone()].map(|gate| {
            thread::spawn(move || {
                let _ = gate.check();
            })
        });
        gate.block_for(SECOND);
        assert!(gate.check().is_err());
        for check in checks {
            check.join().unwrap();
        }
        assert_eq!(gate.check().unwrap_err().retry_after(), Some(SECOND));
    });
}

#[test]
fn of_two_that_shut_it_the_longer_counts() {
    model(|| {
        let (gate, clock) = gate();
        gate.block_for(SECOND);
        clock.advance(SECOND);
        let other = gate.clone();
        let longer = thread::spawn(move || other.block_for(3 * SECOND));
        gate.block_for(2 * SECOND);
        let _ = gate.check();
        longer.join().unwrap();
        assert_eq!(gate.check().unwrap_err().retry_after(), Some(3 * SECOND));
    });
}

#[test]
fn opened_and_shut_at_once_it_is_one_or_the_other() {
    model(|| {
        let (gate, _clock) = gate();
        gate.block_for(SECOND);
        let other = gate.clone();
        let opens = thread::spawn(move || other.open());
        gate.block_for(2 * SECOND);
        opens.join().unwrap();
        let after = gate.check().err().and_then(|refused| refused.retry_after());
        assert!(after.is_none() || after == Some(2 * SECOND));
    });
}

#[test]
fn opening_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (gate, _clock) = gate();
        gate.block_for(Duration::MAX);
        let joiner = join(&gate);
        gate.open();
        has_been_let_go(joiner.join().unwrap());
        assert_eq!(gate.snapshot().waiting, 0);
    });
}

#[test]
fn the_alarm_and_a_joiner_do_not_miss_each_other() {
    model(|| {
        let (gate, clock) = gate();
        gate.block_for(SECOND);
        let joiner = join(&gate);
        clock.advance(SECOND);
        has_been_let_go(joiner.join().unwrap());
    });
}

/// Somebody else opens it without the lock, and it may be shut again at once.
#[test]
fn who_waits_is_let_go_though_a_check_opens_it_and_it_is_shut_again() {
    model(|| {
        let (gate, clock) = gate();
        gate.block_for(SECOND);
        let mut waiter = Waiter::new(&gate);
        assert!(waiter.is_pending());
        let other = gate.clone();
        let checks = thread::spawn(move || {
            if other.check().is_ok() {
                other.block_for(SECOND);
            }
        });
        clock.advance(SECOND);
        checks.join().unwrap();
        clock.advance(SECOND);
        assert_eq!(gate.snapshot().waiting, 0);
        has_been_let_go(Some(waiter));
    });
}

#[test]
fn one_who_leaves_while_it_opens_keeps_nobody_waiting() {
    model(|| {
        let (gate, clock) = gate();
        gate.block_for(SECOND);
        let (mut first, mut second) = (Waiter::new(&gate), Waiter::new(&gate));
        assert!(first.is_pending() && second.is_pending());
        let leaves = thread::spawn(move || drop(first));
        clock.advance(SECOND);
        leaves.join().unwrap();
        has_been_let_go(Some(second));
    });
}

/// A detector that has been used, by the thread that a model runs on.
fn detector() -> Arc<Detector<u32>> {
    let detector = Detector::new(Quota::per_hour(1)).capacity(4).buffer(1);
    let detector = Arc::new(detector.clock(Clock::manual()));
    detector.record_many(&0, 0);
    detector.pass();
    detector
}

#[test]
fn what_is_recorded_is_counted_or_lost_once() {
    model(|| {
        let detector = detector();
        let records = [1, 2].map(|key| {
            let detector = Arc::clone(&detector);
            thread::spawn(move || detector.record_many(&key, 10_u64.pow(key)))
        });
        let first = detector.pass();
        for record in records {
            record.join().unwrap();
        }
        let second = detector.pass();
        let counted = first.counted + second.counted;
        assert_eq!(counted + first.lost + second.lost, 110);
    });
}

/// Where there are two processors, and so two tables.
#[test]
fn of_two_that_record_none_is_in_the_way_of_the_other() {
    if std::thread::available_parallelism().is_ok_and(|processors| processors.get() == 1) {
        return;
    }
    model(|| {
        let detector = detector();
        let other = Arc::clone(&detector);
        let record = thread::spawn(move || other.record(&1));
        detector.record(&1);
        record.join().unwrap();
        let pass = detector.pass();
        assert_eq!((pass.counted, pass.lost), (2, 0));
    });
}

/// A pass that finds a gate open does not forget one that is shut at that moment.
#[test]
fn a_gate_that_is_shut_during_a_pass_stays_known() {
    model(|| {
        let detector = detector();
        detector.gate(&1).block_for(SECOND);
        detector.gate(&1).open();
        let shuts = {
            let detector = Arc::clone(&detector);
            thread::spawn(move || detector.gate(&1).block_for(SECOND))
        };
        detector.pass();
        shuts.join().unwrap();
        assert_eq!(detector.flagged(), [1]);
        assert!(detector.check(&1).is_err());
    });
}
