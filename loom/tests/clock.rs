//! Models the counter that is compared with the operating system's clock, with two threads. It compiles the
//! crate's own file with loom's primitives in place of the standard library's.

#![cfg(tollgate_loom)]

use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Nanos;

#[path = "../../src/time/counter.rs"]
mod counter;
#[allow(dead_code, unreachable_pub)]
#[path = "../../src/time/tick.rs"]
mod tick;

mod atomics {
    pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
    pub(crate) use loom::sync::{Mutex, MutexGuard};

    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap()
    }
}

use tollgate_loom::{join_all, model, with};

use atomics::Ordering;
use counter::{CheckedCounter, Source, scale_of};

const SECOND: u64 = 1_000_000_000;

/// A machine with four counts a nanosecond. Time is not modelled, and passes where a thread advances it.
#[derive(Default)]
struct Machine {
    nanos: Nanos,
    /// The amount by which the counter was set back.
    back: Nanos,
}

impl Machine {
    fn leaked() -> &'static Self {
        Box::leak(Box::default())
    }

    fn advance(&self, nanos: u64) {
        self.nanos.fetch_add(nanos, Ordering::SeqCst);
    }
}

impl Source for &Machine {
    fn raw(&self) -> u64 {
        let counted = self.nanos.load(Ordering::SeqCst) - self.back.load(Ordering::SeqCst);
        4 * counted
    }

    fn os_nanos(&self) -> u64 {
        self.nanos.load(Ordering::SeqCst)
    }
}

/// Returns a counter whose estimate is an eighth too large.
fn fast() -> (&'static Machine, Arc<CheckedCounter<&'static Machine>>) {
    let machine = Machine::leaked();
    let counter = CheckedCounter::new(machine, scale_of(9, 32));
    (machine, Arc::new(counter))
}

/// Abandons the segment, measures its scale twice, and begins the next one.
fn corrects(machine: &Machine, counter: &CheckedCounter<&Machine>) {
    for _ in 0..3 {
        machine.advance(SECOND);
        counter.now();
    }
}

// A reader never combines a start with the scale of another segment, and never goes back.
model!(now_while_a_segment_is_replaced_goes_forward, || {
    let (machine, counter) = fast();
    let reader = with(&counter, move |counter| {
        let mut last = 0;
        for _ in 0..3 {
            let least = machine.os_nanos();
            let now = counter.now().as_nanos();
            // The bound is the gain of the first second, plus the error of one read.
            let most = machine.os_nanos() + SECOND / 8 + 1000;
            assert!(last <= now && least <= now + 1000 && now <= most);
            last = now;
        }
        last
    });
    corrects(machine, &counter);
    let last = reader.join().unwrap();
    assert!(counter.now().as_nanos() >= last);
});

// Two threads reach the limit at once: both readings are right, and one segment begins.
model!(now_of_two_at_the_limit_goes_forward, || {
    let (machine, counter) = fast();
    let other = with(&counter, move |counter| corrects(machine, counter));
    corrects(machine, &counter);
    let before = counter.now().as_nanos();
    join_all([other]);
    assert!(counter.now().as_nanos() >= before);
    machine.advance(SECOND / 2);
    let begin = counter.now().as_nanos();
    machine.advance(SECOND / 4);
    assert!((counter.now().as_nanos() - begin).abs_diff(SECOND / 4) <= 20_000);
});

// The counter is set back while a reader is between its loads, or after another reader has noticed it.
model!(now_while_the_counter_is_set_back_does_not_go_back, || {
    let machine = Machine::leaked();
    let counter = Arc::new(CheckedCounter::new(machine, scale_of(1, 4)));
    machine.advance(10 * SECOND);
    let before = counter.now().as_nanos();
    let reader = with(&counter, move |counter| {
        let mut last = before;
        for _ in 0..2 {
            let now = counter.now().as_nanos();
            assert!(last <= now && now <= before + 2 * SECOND);
            last = now;
        }
        last
    });
    machine.advance(SECOND / 2);
    machine.back.store(5 * SECOND, Ordering::SeqCst);
    let noticed = counter.now().as_nanos();
    assert!(before <= noticed && noticed <= before + 2 * SECOND);
    let last = reader.join().unwrap();
    assert!(counter.now().as_nanos() >= last.max(noticed));
});
