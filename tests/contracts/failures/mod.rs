//! How throttles fail elsewhere, and do not here: a test for each row of the table of failures, or the check
//! of the conformance suite that every throttle passes, or a model.
//!
//! | failure | seen in | held by |
//! |---|---|---|
//! | granted, then dropped: the permit is lost instead of passed on | python/asyncio#270, awslabs/shuttle#167 | `granted_then_dropped_is_passed_on` |
//! | a large head is cancelled and the small ones behind it are not woken | embassy-rs/embassy#6964 | the scenario "a large head that leaves lets the small ones go"; `large_head_of_a_rate_is_cancelled` |
//! | two releases coalesce into one notification | smol-rs/async-lock#18, rustfs/rustfs#4498 | `several_returns_let_as_many_in`; the model `two_releases_wake_two` of threads |
//! | cancelled nodes leak; a cancel credits twice | Astro36/qp#3, redisson/redisson#7206 | `no_waker_is_kept`, `random_entries_and_exits_lose_nothing` |
//! | a permit is lost when its holder panics | anza-xyz/agave#10478 | `a_holder_that_panics_makes_room` |
//! | a stored but never polled acquire blocks the queue | tokio-rs/tokio#6450 | `never_polled_holds_nobody_back` |
//! | a waker is cloned, dropped or called under the lock | apache/asyncband#189, tokio-rs/tokio#2340 | `a_waker_may_use_the_throttle` |
//! | barging starves a waiter; many small ones starve a large one | smol-rs/async-lock#23 | `newcomers_do_not_overtake`; the scenario "newcomers wait behind a large head although permits are free"; `out_of_order_and_small_ones_that_starve_a_large_one` |
//! | a request larger than the limit blocks for ever | amazon-mq/rabbitmq-stream-s3#208 | the scenario "a waiter that a shrink made impossible is refused at the head"; `request_larger_than_the_burst` |
//! | a chain leaks what it took before the refusal | BaseIntelligence/bounty-challenge#4191 | every check over `all_of_two`; `chain_of_rates_leaks_what_it_took` |

mod adaptive;
mod clocks;
mod fair;
mod keys;
mod nested_wakes;
mod permits;
mod rate_queues;
mod rates;
