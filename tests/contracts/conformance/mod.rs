//! One suite over everything that lets callers in: what `Throttle` and `TryThrottle` promise.
//!
//! A type comes in by a [`Subject`](conformance::subject::Subject): how to make one with a limit,
//! and which of the guarantees it gives. What a type cannot give is a flag that is off in its own
//! subject, and nowhere else. A type without futures comes in by a
//! [`Limit`](conformance::subject::Limit), and has the checks that need none.

pub(crate) mod checks;
pub(crate) mod crowds;
pub(crate) mod endings;
pub(crate) mod executors;
#[cfg(any(feature = "tokio", feature = "async-lock"))]
pub(crate) mod foreign;
pub(crate) mod limits;
pub(crate) mod order;
pub(crate) mod ours;
pub(crate) mod subject;
pub(crate) mod wakers;
pub(crate) mod wrappers;

use self::wrappers::{
    AllOfThree, AllOfTwo, Around, Borrowed, Boxed, CostOf, Fair, FairByCost, ObservedByHolders,
    ObservedByNobody, Optional, SharedAgain,
};

/// Tests of one subject, by the files that the checks are in.
macro_rules! tests {
    ($subject:ty, $($file:ident: $($check:ident)*;)*) => {
        $($(
            #[test]
            fn $check() {
                use crate::conformance::subject::Limit;
                <$subject>::each(crate::conformance::$file::$check::<$subject>);
            }
        )*)*
    };
}

/// Every check that needs no future.
macro_rules! limit {
    ($subject:ty) => {
        tests! { $subject,
            limits:
                a_clone_shares_the_limit
                a_holder_that_panics_makes_room
                an_entry_that_is_dropped_makes_room
                an_entry_that_is_undone_makes_room
                at_the_limit_nobody_is_let_in
                closing_ends_the_waits_of_threads
                closing_refuses_newcomers
                nobody_enters_after_the_close_has_returned
                threads_never_exceed_the_limit
                a_caller_that_need_not_wait_is_let_in_at_once;
        }
    };
}

/// Every check, for one subject.
macro_rules! conformance {
    ($($module:ident: $subject:ty;)*) => {$(
        mod $module {
            #[allow(unused_imports, reason = "some subjects come from elsewhere")]
            use super::*;

            limit!($subject);

            tests! { $subject,
                checks:
                    acquire_in_a_fair_queue_without_room_to_wait_admits_while_there_is_room
                    an_entry_is_ready_while_there_is_room
                    enter_now_while_a_try_is_admitted_admits
                    granted_then_dropped_is_passed_on
                    making_an_entry_takes_nothing
                    never_polled_holds_nobody_back
                    polling_in_vain_changes_nothing
                    not_polled_and_then_dropped_holds_nobody_back
                    a_waiter_that_gives_up_holds_nobody_back
                    a_waiter_is_woken_when_there_is_room;
                order:
                    a_clone_shares_the_queue
                    a_permit_that_is_dropped_wakes
                    closing_after_a_return_leaves_nobody_waiting
                    closing_refuses_everybody
                    newcomers_do_not_overtake
                    several_returns_let_as_many_in
                    several_returns_pass_waiters_by_that_give_up
                    waiters_are_let_in_in_the_order_in_which_they_joined
                    the_first_waiter_is_woken_first
                    a_waiter_that_was_overtaken_is_let_in_later;
                endings:
                    a_thread_gives_up_after_its_time
                    a_wait_of_no_time_takes_what_there_is
                    blocked_threads_are_let_in_as_others_leave;
                crowds:
                    closing_in_the_midst_of_a_crowd_leaves_nobody_waiting
                    random_entries_and_exits_lose_nothing
                    threads_leave_nobody_asleep_while_there_is_room;
                executors:
                    close_while_tasks_wait_ends_their_waits
                    enter_by_many_tasks_never_exceeds_the_limit
                    enter_cancelled_with_its_task_loses_nothing
                    timeout_in_a_task_ends_its_wait;
                wakers:
                    a_holder_that_panics_may_wake_a_waker_that_panics
                    a_wait_that_is_polled_again_panics_and_takes_nothing
                    a_waker_may_use_the_throttle
                    a_waker_that_panics_behind_a_wait_that_ends_loses_nothing
                    a_waker_that_panics_loses_nothing
                    another_waker_displaces_the_old_one
                    closing_wakes_all_although_a_waker_panics
                    no_waker_is_kept;
            }

            #[cfg(feature = "tokio")]
            tests! { $subject,
                endings:
                    a_cancelled_token_takes_nothing
                    a_deadline_ends_a_wait
                    a_permit_comes_before_the_deadline
                    a_token_ends_a_wait
                    a_token_ends_the_wait_of_a_thread
                    a_token_that_is_not_cancelled_changes_nothing
                    cancelled_after_the_wake_is_passed_on;
                executors:
                    cancel_on_while_tasks_wait_ends_their_waits;
            }
        }
    )*};
}

mod condvar_semaphore {
    limit!(super::ours::Condvar);
}

conformance! {
    borrowed_semaphore: ours::BorrowedSemaphore;
    shared_semaphore: ours::SharedSemaphore;
    borrowed_adaptive_semaphore: ours::adaptive::BorrowedAdaptive;
    shared_adaptive_semaphore: ours::adaptive::SharedAdaptive;
    borrowed_rate_limiter: ours::rates::BorrowedRateLimiter;
    shared_rate_limiter: ours::rates::SharedRateLimiter;
    limited_later: ours::rates::LimitedLater;
    borrowed_adaptive_rate: ours::rates::BorrowedAdaptiveRate;
    shared_adaptive_rate: ours::rates::SharedAdaptiveRate;
    each_algorithm: ours::rates::EachAlgorithm;
    key_of_rates: ours::keyed::BorrowedRate;
    shared_key_of_rates: ours::keyed::SharedRate;
    key_of_permits: ours::keyed::BorrowedPermits;
    shared_key_of_permits: ours::keyed::SharedPermits;
    borrowed_pool: ours::pools::BorrowedPool;
    shared_pool: ours::pools::SharedPool;
    factory_pool: ours::pools::FactoryPool;
    semaphore_and_rate_limiter: wrappers::SemaphoreAndRateLimiter;
    nested: Around<(AllOfTwo, AllOfTwo)>;
    boxed_all: Around<(AllOfTwo, (Boxed, Boxed))>;
    observed_boxed: Around<(Boxed, ObservedByNobody)>;
    fair_pool: Around<Fair, ours::pools::SharedPool>;
    fair_adaptive_semaphore: Around<Fair, ours::adaptive::SharedAdaptive>;
    fair_adaptive_rate: Around<Fair, ours::rates::SharedAdaptiveRate>;
    fair_rate_limiter: Around<Fair, ours::rates::SharedRateLimiter>;
    fair_key_of_rates: Around<Fair, ours::keyed::SharedRate>;
    fair_key_of_permits: Around<Fair, ours::keyed::SharedPermits>;
}

/// Every wrapper alone, with a fair queue in front of it and behind it.
macro_rules! wrappers {
    ($($module:ident: $wrapper:ty;)*) => {$(
        mod $module {
            use super::*;

            conformance! {
                alone: Around<$wrapper>;
                behind_a_queue: Around<($wrapper, Fair)>;
                before_a_queue: Around<(Fair, $wrapper)>;
            }
        }
    )*};
}

wrappers! {
    cost_of_one: CostOf<1>;
    cost_of_two: CostOf<2>;
    cost_of_two_and_one_over: CostOf<2, 1>;
    optional: Optional;
    borrowed: Borrowed;
    shared: SharedAgain;
    all_of_two: AllOfTwo;
    all_of_three: AllOfThree;
    boxed: Boxed;
    observed: ObservedByNobody;
    observed_by_holders: ObservedByHolders;
    fair: Fair;
    fair_by_cost: FairByCost;
}

#[cfg(feature = "channel")]
conformance! {
    fair_channel_semaphore: wrappers::FairChannelSemaphore;
}

#[cfg(feature = "channel")]
use self::ours::channels;

#[cfg(feature = "channel")]
conformance! {
    borrowed_channel_semaphore: channels::BorrowedChannelSemaphore;
    shared_channel_semaphore: channels::SharedChannelSemaphore;
    reversed_channel_semaphore: channels::ReversedChannelSemaphore;
}

#[cfg(feature = "tokio")]
use self::foreign::of_tokio;

#[cfg(feature = "tokio")]
conformance! {
    borrowed_tokio: of_tokio::BorrowedTokio;
    shared_tokio: of_tokio::SharedTokio;
    fair_tokio: wrappers::FairTokio;
}

#[cfg(feature = "async-lock")]
use self::foreign::of_async_lock;

#[cfg(feature = "async-lock")]
conformance! {
    borrowed_async_lock: of_async_lock::BorrowedAsyncLock;
    shared_async_lock: of_async_lock::SharedAsyncLock;
    fair_async_lock: wrappers::FairAsyncLock;
}
