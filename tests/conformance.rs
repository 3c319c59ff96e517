//! One suite over everything that lets callers in: what `Throttle` and `TryThrottle` promise.
//!
//! A type comes in by a [`Subject`](conformance::subject::Subject): how to make one with a limit,
//! and which of the guarantees it gives. What a type cannot give is a flag that is off in its own
//! subject, and nowhere else.

mod support;

mod conformance {
    pub(crate) mod checks;
    pub(crate) mod crowds;
    pub(crate) mod subject;
}

use std::sync::Arc;

use tollgate::Semaphore;

use conformance::subject::{Guarantees, Subject};

/// Every check, for one subject.
macro_rules! conformance {
    ($module:ident, $subject:ty) => {
        conformance! { $module, $subject, checks:
            a_clone_shares_the_limit
            an_entry_is_ready_while_there_is_room
            an_entry_that_is_dropped_makes_room
            an_entry_that_is_undone_makes_room
            at_the_limit_nobody_is_let_in
            another_waker_displaces_the_old_one
            closing_refuses_everybody
            granted_then_dropped_is_passed_on
            making_an_entry_takes_nothing
            never_polled_holds_nobody_back
            newcomers_do_not_overtake
            no_waker_is_kept
            polling_in_vain_changes_nothing
            put_aside_and_then_dropped_holds_nobody_back
            several_returns_wake_as_many
            waiters_are_let_in_in_the_order_in_which_they_joined
            who_gives_up_holds_nobody_back
            who_waits_is_woken_when_there_is_room
        }
    };
    ($module:ident, $subject:ty, checks: $($check:ident)*) => {
        mod $module {
            use super::*;

            $(
                #[test]
                fn $check() {
                    conformance::checks::$check::<$subject>();
                }
            )*

            #[test]
            fn random_entries_and_exits_lose_nothing() {
                conformance::crowds::random_entries_and_exits_lose_nothing::<$subject>();
            }

            #[test]
            fn threads_never_exceed_the_limit() {
                conformance::crowds::threads_never_exceed_the_limit::<$subject>();
            }
        }
    };
}

/// Borrowed for as long as the test lasts.
struct Borrowed;

impl Subject for Borrowed {
    type Throttle = &'static Semaphore;

    const GUARANTEES: Guarantees = Guarantees::ALL;

    fn with_limit(limit: usize) -> Self::Throttle {
        Box::leak(Box::new(Semaphore::new(limit)))
    }

    fn close(throttle: &Self::Throttle) {
        throttle.close();
    }
}

/// Shared.
struct Shared;

impl Subject for Shared {
    type Throttle = Arc<Semaphore>;

    const GUARANTEES: Guarantees = Guarantees::ALL;

    fn with_limit(limit: usize) -> Self::Throttle {
        Arc::new(Semaphore::new(limit))
    }

    fn close(throttle: &Self::Throttle) {
        throttle.close();
    }
}

conformance!(borrowed_semaphore, Borrowed);
conformance!(shared_semaphore, Shared);
