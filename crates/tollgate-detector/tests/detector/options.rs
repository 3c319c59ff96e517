//! What the options of a detector reject, and what it may be used for.

use std::future::Future;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

use tollgate::{Clock, Quota};
use tollgate_detector::{Count, Detector, Pass};

use crate::support::foreign::panic_message;

/// Fails unless `run` panics with this message.
#[track_caller]
fn rejects<R>(expected: &str, run: impl FnOnce() -> R) {
    let message = panic_message(run).expect("it did not panic");
    assert!(message.contains(expected), "{message}");
}

#[test]
fn options_that_could_detect_nothing_panic() {
    const MAX: usize = 1 << 24;
    let new = || Detector::<u64>::new(Quota::per_minute(10));
    rejects("the threshold of a detector cannot have a burst", || {
        Detector::<u64>::new(Quota::per_minute(10).burst(5))
    });
    rejects("the threshold of a detector cannot be unlimited", || {
        Detector::<u64>::new(Quota::UNLIMITED)
    });
    for size in [0, MAX + 1, usize::MAX] {
        rejects("from 1 to 16777216 counters", || new().capacity(size));
        rejects("a buffer of 1 to 16777216 keys", || new().buffer(size));
    }
    // Nothing is allocated before the first use.
    for size in [1, MAX] {
        assert_eq!(panic_message(|| new().capacity(size).buffer(size)), None);
    }
    rejects("a penalty of 0ns", || new().penalty(Duration::ZERO));
    assert_eq!(panic_message(|| new().penalty(Duration::MAX)), None);
    rejects("an interval of 0ns", || drop(new().run(Duration::ZERO)));
}

#[test]
fn option_of_a_detector_after_the_first_use_panics() {
    type One = fn(Detector<u64>) -> Detector<u64>;
    let uses: [fn(&Detector<u64>); 4] = [
        |detector| detector.record(&1),
        |detector| drop(detector.gate(&1)),
        |detector| drop(detector.check(&1)),
        |detector| drop(detector.pass()),
    ];
    let options: [One; 4] = [
        |detector| detector.penalty(Duration::MAX),
        |detector| detector.capacity(1),
        |detector| detector.buffer(1),
        |detector| detector.clock(Clock::manual()),
    ];
    for option in options {
        for used in uses {
            // An option does not count as a use.
            let new = Detector::new(Quota::per_minute(10));
            let detector = options.iter().fold(new, |detector, set| set(detector));
            used(&detector);
            rejects("an option must be set before the first use", || {
                option(detector)
            });
        }
    }
}

static DETECTOR: Detector<u64> = Detector::new(Quota::per_minute(100))
    .penalty(Duration::from_secs(600))
    .capacity(100)
    .buffer(10);

#[test]
fn detector_in_a_static_is_used_like_any_other() {
    DETECTOR.record_many(&1, 101);
    assert_eq!(DETECTOR.pass().flagged, [1]);
    assert!(DETECTOR.check(&1).is_err());
    fn sent<F: Future + Send + 'static>(_: F) {}
    sent(DETECTOR.run(Duration::from_secs(1)));
}

#[test]
fn detector_of_keys_that_can_be_sent_is_shared_and_unwound_through() {
    fn all<T: Send + Sync + Unpin + UnwindSafe + RefUnwindSafe>() {}
    all::<Detector<u64>>();
    all::<Detector<std::cell::Cell<u8>>>();
    all::<Pass<u64>>();
    all::<Count<u64>>();
}
