//! One suite over every type that admits callers: the promises of `Throttle` and `TryThrottle`.
//!
//! A type joins through a [`Subject`]: the constructor with a limit, and the type's guarantees. A
//! missing guarantee is a flag that is off in the type's own subject, and nowhere else.
//!
//! The rows of the table in `tollgate::guarantees`, and the tests that hold them true:
//!
//! | row | held true by |
//! |---|---|
//! | order, overtaking, `close`, how a wait ends, two at once, wakers that panic, the holder panics | `conformance/` |
//! | two at once, of `CondvarSemaphore` | the model `two_releases_wake_two` |
//! | weight, the limit, a bounded queue, `wait_idle` | `concurrency/model/`, `concurrency/foreign_semaphores.rs` |
//! | a limit of 0 | `panics/`, `concurrency/model/`, `concurrency/foreign_semaphores.rs` |
//! | wakers that poll at once | `failures/nested_wakes.rs` |
//! | idle items, items of holders that panicked, `wait_idle` of a pool | `concurrency/pool/` |
//! | allocations | `memory/` |
//! | a gate | `adapters/gate/` |
//! | a fair queue | `conformance/`, `adapters/fair/` |
//! | `Unpin` | `auto_traits.rs` |
//! | how rough an order is | `queue.rs` |
//! | statics, throttles | `auto_traits.rs` |

pub(crate) mod crowds;
pub(crate) mod endings;
pub(crate) mod executors;
pub(crate) mod limits;
pub(crate) mod queue;
mod subject;
pub(crate) mod wakers;

use self::subject::{Guarantees, Subject};

/// Runs a check of each variety of a subject that has the guarantees that the check needs.
fn run(subjects: Vec<Subject>, needs: &[fn(&Guarantees) -> bool], check: fn(&Subject)) {
    let gives_all = |it: &&Subject| needs.iter().all(|need| need(&it.guarantees));
    for subject in subjects.iter().filter(gives_all) {
        println!("{}", subject.name);
        check(subject);
    }
}

/// Defines tests of some subjects, by the file of the checks, and by the required guarantees.
macro_rules! tests {
    ($subjects:expr, $($file:ident $needs:tt: $($check:ident)*;)*) => {$($(
        #[test]
        fn $check() {
            use crate::conformance as all;
            all::run($subjects, &needs!($needs), all::$file::$check);
        }
    )*)*};
}

macro_rules! needs {
    ([$($need:ident)*]) => {
        [$(|guarantees| guarantees.$need),*]
    };
}

/// Defines every check that needs no future.
macro_rules! limit {
    ($subjects:expr) => {
        tests! { $subjects,
            limits []:
                a_clone_shares_the_limit
                an_entry_that_is_undone_makes_room
                at_the_limit_nobody_is_let_in
                threads_never_exceed_the_limit
                a_caller_that_need_not_wait_is_let_in_at_once
                wait_in_a_destructor_of_a_thread_is_admitted;
            limits [held]:
                a_holder_that_panics_makes_room
                an_entry_that_is_dropped_makes_room;
            limits [closes]:
                closing_ends_the_waits_of_threads
                closing_refuses_newcomers;
            limits [closes closes_at_once]:
                nobody_enters_after_the_close_has_returned;
        }
    };
}

/// Defines every check.
macro_rules! conformance {
    ($subjects:expr) => {
        limit!($subjects);

        tests! { $subjects,
            queue []:
                a_clone_shares_the_queue
                a_waiter_is_woken_when_there_is_room
                a_waiter_that_gives_up_holds_nobody_back
                a_waiter_that_was_overtaken_is_let_in_later
                acquire_in_a_fair_queue_without_room_to_wait_admits_while_there_is_room
                an_entry_is_ready_while_there_is_room
                enter_now_while_a_try_is_admitted_admits
                granted_then_dropped_is_passed_on
                making_an_entry_takes_nothing
                never_polled_holds_nobody_back
                not_polled_and_then_dropped_holds_nobody_back
                polling_in_vain_changes_nothing
                several_returns_let_as_many_in
                several_returns_pass_waiters_by_that_give_up
                the_first_waiter_is_woken_first;
            queue [held]:
                a_permit_that_is_dropped_wakes;
            queue [order]:
                waiters_are_let_in_in_the_order_in_which_they_joined;
            queue [no_overtaking]:
                newcomers_do_not_overtake;
            queue [closes]:
                closing_after_a_return_leaves_nobody_waiting
                closing_refuses_everybody;
            endings []:
                a_thread_gives_up_after_its_time
                a_wait_of_no_time_takes_what_there_is
                blocked_threads_are_let_in_as_others_leave
                timeout_in_a_destructor_of_a_thread_ends_its_wait;
            crowds []:
                random_entries_and_exits_lose_nothing
                threads_leave_nobody_asleep_while_there_is_room;
            crowds [closes]:
                closing_in_the_midst_of_a_crowd_leaves_nobody_waiting;
            executors []:
                enter_by_many_tasks_never_exceeds_the_limit
                enter_cancelled_with_its_task_loses_nothing
                timeout_in_a_task_ends_its_wait;
            executors [closes]:
                close_while_tasks_wait_ends_their_waits;
            wakers []:
                a_wait_that_is_polled_again_panics_and_takes_nothing
                another_waker_displaces_the_old_one
                no_waker_is_kept;
            wakers [polled_by_wakers]:
                a_waker_may_use_the_throttle;
            wakers [contains_panics]:
                a_waker_that_panics_behind_a_wait_that_ends_loses_nothing
                a_waker_that_panics_loses_nothing;
            wakers [contains_panics held]:
                a_holder_that_panics_may_wake_a_waker_that_panics;
            wakers [contains_panics closes]:
                closing_wakes_all_although_a_waker_panics;
        }

        #[cfg(feature = "tokio")]
        tests! { $subjects,
            endings []:
                a_cancelled_token_takes_nothing
                a_deadline_ends_a_wait
                a_permit_comes_before_the_deadline
                a_token_ends_a_wait
                a_token_ends_the_wait_of_a_thread
                a_token_that_is_not_cancelled_changes_nothing
                cancelled_after_the_wake_is_passed_on;
            executors []:
                cancel_on_while_tasks_wait_ends_their_waits;
        }
    };
}

mod throttles;
mod wrappers;
