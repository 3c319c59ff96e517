//! Wrappers of throttles: each wrapper alone, behind a fair queue and in front of one. With one class a
//! fair queue is first-in first-out.

use std::sync::Arc;
use std::time::Duration;

use tollgate::fair::{FairQueue, Share};
use tollgate::semaphore::Resting;
use tollgate::throttle::{BoxThrottle, Weighted, per_call};
use tollgate::{
    AcquireError, ErrorKind, Gate, Keyed, Semaphore, Throttle, TryThrottle, all, forward,
};
use tollgate_observe::{Holders, Observed};

use super::subject::{AnyThrottle, Guarantees, Subject};
use super::throttles;
use crate::support::poll_once;

/// A function that makes a throttle of another one. `more` makes one more like that, with this multiple of its
/// limit.
type Wrap = fn(AnyThrottle, more: &dyn Fn(usize) -> AnyThrottle) -> AnyThrottle;

/// A wrapper of a throttle.
#[derive(Clone, Copy)]
struct Wrapper {
    wrap: Wrap,
    /// The units of the inner throttle that each entry takes.
    cost: usize,
    /// The units that are left over, and unused.
    spare: usize,
    /// The throttle grants a permit before its receiver is chosen.
    is_queue: bool,
}

impl Wrapper {
    /// Wraps a subject; closing the wrapper closes the subject.
    ///
    /// A composition cannot be closed itself; its parts can. The subject is the first part, because
    /// callers wait for the first when all have the same limit.
    fn around(self, inner: Subject) -> Subject {
        let guarantees = Guarantees {
            closes_at_once: inner.guarantees.closes_at_once && !self.is_queue,
            knows: inner.guarantees.knows && !self.is_queue,
            ..inner.guarantees
        };
        Subject::new(inner.name.clone(), guarantees, move |limit| {
            let limit = self.cost * limit + self.spare;
            let part = inner.with_limit(limit);
            let throttle = (self.wrap)(part.clone(), &|times| inner.with_limit(times * limit));
            throttle.closed_by(move || part.close())
        })
    }
}

const fn wrapper(wrap: Wrap) -> Wrapper {
    Wrapper {
        wrap,
        cost: 1,
        spare: 0,
        is_queue: false,
    }
}

const fn queue(wrap: Wrap) -> Wrapper {
    Wrapper {
        is_queue: true,
        ..wrapper(wrap)
    }
}

/// Returns a wrapper whose entries take this many each, with this many left over.
const fn cost<const N: usize>(spare: usize) -> Wrapper {
    Wrapper {
        cost: N,
        spare,
        ..wrapper(|throttle, _| throttle.cost(N as u64))
    }
}

const FAIR: Wrapper = queue(|throttle, _| {
    let queue = FairQueue::new(throttle);
    AnyThrottle::weighted(queue.class("a class"))
});

const FAIR_BY_COST: Wrapper = queue(|throttle, _| {
    let queue = FairQueue::new(throttle).share(Share::ByCost);
    AnyThrottle::weighted(queue.class("a class"))
});

/// One of several parts has all parts at the same limit, so that it lets in as many as each of them.
const ALL_OF_TWO: Wrapper = wrapper(|throttle, more| AnyThrottle::new(all((throttle, more(1)))));

/// The same with a part of another cost, and one that is missing.
const ALL_OF_THREE: Wrapper = wrapper(|throttle, more| {
    let missing = None::<AnyThrottle>;
    AnyThrottle::new(all((throttle, more(2).cost(2), missing)))
});

/// Parts that count calls, each of which would take the weight otherwise.
const WEIGHTED_ALL: Wrapper = wrapper(|throttle, more| {
    let parts = all((per_call(throttle), per_call(more(1))));
    AnyThrottle::weighted(parts.weighted())
});

const BOXED: Wrapper =
    wrapper(|throttle, _| AnyThrottle::new(TriesByPolling(BoxThrottle::new(throttle))));

const RESTING: Wrapper =
    wrapper(|throttle, _| AnyThrottle::new(Resting::new(throttle, Duration::ZERO)));

const BEHIND_A_GATE: Wrapper =
    wrapper(|throttle, _| AnyThrottle::new(Gate::new().before(throttle)));

const BEHIND_A_KEY: Wrapper = wrapper(|throttle, _| {
    let gates = Arc::new(Keyed::<u64, _>::gates());
    AnyThrottle::new(gates.key_owned(7).before(throttle))
});

const OBSERVED: Wrapper = wrapper(|throttle, _| AnyThrottle::new(Observed::new(throttle, ())));

const OBSERVED_BY_HOLDERS: Wrapper = wrapper(|throttle, _| {
    let observers = (Holders::new("slots"), ());
    AnyThrottle::new(Observed::new(throttle, observers))
});

/// A boxed throttle has no try, so a wait is polled once and dropped if it is not over.
#[derive(Clone)]
struct TriesByPolling(BoxThrottle);

impl Throttle for TriesByPolling {
    type Permit = <BoxThrottle as Throttle>::Permit;
    type Enter = <BoxThrottle as Throttle>::Enter;

    forward!(Throttle, self => self.0);
}

impl TryThrottle for TriesByPolling {
    fn try_enter(&self) -> Result<Self::Permit, AcquireError> {
        match poll_once(&mut self.0.enter()) {
            std::task::Poll::Ready(entered) => entered,
            std::task::Poll::Pending => Err(AcquireError::new(ErrorKind::NoPermits)),
        }
    }
}

/// Subjects in wrappers, the innermost first.
macro_rules! subjects {
    ($($name:ident of $subject:ident: $($wrapper:expr),+;)*) => {$(
        mod $name {
            use super::*;

            fn subjects() -> Vec<Subject> {
                let subject = throttles::$subject::subjects().remove(0);
                $(let subject = Wrapper::around($wrapper, subject);)+
                vec![subject]
            }

            conformance!(subjects());
        }
    )*};
}

/// Returns every wrapper alone, with a fair queue in front of it and behind it.
macro_rules! wrappers {
    ($($name:ident: $wrapper:expr;)*) => {$(
        mod $name {
            use super::*;

            subjects! {
                alone of semaphore: $wrapper;
                behind_a_queue of semaphore: $wrapper, FAIR;
                before_a_queue of semaphore: FAIR, $wrapper;
            }
        }
    )*};
}

wrappers! {
    cost_of_one: cost::<1>(0);
    cost_of_two: cost::<2>(0);
    cost_of_two_and_one_over: cost::<2>(1);
    optional: wrapper(|throttle, _| AnyThrottle::new(Some(throttle)));
    borrowed: wrapper(|throttle, _| AnyThrottle::new(throttles::leak(throttle)));
    shared: wrapper(|throttle, _| AnyThrottle::new(Arc::new(throttle)));
    all_of_two: ALL_OF_TWO;
    all_of_three: ALL_OF_THREE;
    weighted_all: WEIGHTED_ALL;
    boxed: BOXED;
    resting: RESTING;
    gate_before: BEHIND_A_GATE;
    key_before: BEHIND_A_KEY;
    observed: OBSERVED;
    observed_by_holders: OBSERVED_BY_HOLDERS;
    fair: FAIR;
    fair_by_cost: FAIR_BY_COST;
}

subjects! {
    nested of semaphore: ALL_OF_TWO, ALL_OF_TWO;
    boxed_all of semaphore: ALL_OF_TWO, BOXED, BOXED;
    observed_boxed of semaphore: BOXED, OBSERVED;
    fair_pool of shared_pool: FAIR;
    fair_adaptive_semaphore of shared_adaptive_semaphore: FAIR;
    fair_adaptive_rate of shared_adaptive_rate: FAIR;
    fair_rate_limiter of shared_rate_limiter: FAIR;
    fair_key_of_rates of shared_key_of_rates: FAIR;
    fair_key_of_permits of shared_key_of_permits: FAIR;
}

/// Each entry holds a permit and costs three.
mod semaphore_and_rate_limiter {
    use super::*;

    fn subjects() -> Vec<Subject> {
        let guarantees = Guarantees {
            held: false,
            ..Guarantees::ALL
        };
        let subject = Subject::new("semaphore and rate limiter", guarantees, |limit| {
            let part = Arc::new(Semaphore::new(limit));
            let rate = Arc::new(throttles::limiter(3 * limit));
            let both = all((Arc::clone(&part), rate.cost_owned(3)));
            AnyThrottle::new(both).closed_by(move || part.close())
        });
        vec![subject]
    }

    conformance!(subjects());
}

/// Defines a fair queue in front of a throttle whose wakers may be called under its lock: the next waiter enters
/// for all when it runs, and detects a close for all.
#[cfg(any(feature = "tokio", feature = "channel", feature = "async-lock"))]
macro_rules! polled {
    ($name:ident of $subject:ident, $contains_panics:literal) => {
        mod $name {
            use super::*;

            fn subjects() -> Vec<Subject> {
                let mut subject = FAIR.around(throttles::$subject::subjects().remove(0));
                subject.guarantees = Guarantees {
                    closes: false,
                    closes_at_once: false,
                    polled_by_wakers: false,
                    contains_panics: $contains_panics,
                    ..Guarantees::ALL
                };
                vec![subject]
            }

            conformance!(subjects());
        }
    };
}

#[cfg(feature = "channel")]
polled!(fair_channel_semaphore of shared_channel_semaphore, true);

#[cfg(feature = "tokio")]
polled!(fair_tokio of shared_tokio, true);

#[cfg(feature = "async-lock")]
polled!(fair_async_lock of shared_async_lock, false);
