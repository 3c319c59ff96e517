//! Threads at one gate.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use tollgate::{Clock, Gate};

const SECOND: Duration = Duration::from_secs(1);

/// Checks race with a new closing: the thread that has shut it finds it shut until its time is over.
#[test]
fn block_for_holds_although_others_check() {
    let clock = Clock::manual();
    let gate = Gate::new().clock(&clock);
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    let _ = gate.check();
                }
            });
        }
        for turn in 0..5_000 {
            gate.block_for(SECOND);
            assert_eq!(gate.check().unwrap_err().retry_after(), Some(SECOND));
            clock.advance(SECOND);
            // Nobody has to have looked for it to be open; and it may be shut at once.
            if turn % 2 == 0 {
                assert!(gate.check().is_ok());
            }
        }
        over.store(true, Ordering::Relaxed);
    });
}

/// Each wait ends, be it by the time, by hand, or as it finds the gate open.
#[test]
fn every_wait_ends() {
    let gate = Gate::new().clock(Clock::system());
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..300 {
                        gate.acquire().wait().unwrap();
                    }
                })
            })
            .collect();
        scope.spawn(|| {
            let mut turn = 0;
            while !over.load(Ordering::Relaxed) {
                turn += 1;
                match turn % 4 {
                    0 => gate.block_for(Duration::MAX),
                    1 | 3 => gate.open(),
                    _ => gate.block_for(Duration::from_micros(20)),
                }
                thread::yield_now();
            }
            gate.open();
        });
        for waiter in waiting {
            waiter.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
    });
    assert_eq!(gate.snapshot().waiting, 0);
}
