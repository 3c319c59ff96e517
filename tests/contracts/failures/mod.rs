//! Failures of throttles elsewhere, which do not occur here. Each row of the table of failures has a test, a
//! check of the conformance suite, which every throttle passes, a row of a scenario, a model, or a test next
//! to its type.
//!
//! | failure | seen in | held by |
//! |---|---|---|
//! | granted, then dropped: the permit is lost instead of passed on | python/asyncio#270, awslabs/shuttle#167 | `granted_then_dropped_is_passed_on` |
//! | a large head is cancelled and the small ones behind it are not woken | embassy-rs/embassy#6964 | "a large head that leaves lets the small ones go", of semaphores and of limiters; `cancelled_large_head_leaves_small_ones_asleep` |
//! | two releases coalesce into one notification | smol-rs/async-lock#18, rustfs/rustfs#4498 | `several_returns_let_as_many_in`; the model `two_releases_wake_two` of threads |
//! | cancelled nodes leak; a cancel credits twice | Astro36/qp#3, redisson/redisson#7206 | `no_waker_is_kept`, `random_entries_and_exits_lose_nothing` |
//! | cancelled waiters are waited for: the fifth went after 502 ms at 10/s | throttle-net | "a wait that is given up moves those behind it up" |
//! | a permit is lost when its holder panics | anza-xyz/agave#10478 | `a_holder_that_panics_makes_room` |
//! | a stored but never polled acquire blocks the queue, or everybody | tokio-rs/tokio#6450, leaky-bucket | `never_polled_holds_nobody_back`; "a leaked waiter keeps its place and is charged" |
//! | a waker is cloned, dropped or called under the lock | apache/asyncband#189, tokio-rs/tokio#2340 | `a_waker_may_use_the_throttle` |
//! | barging starves a waiter; many small ones starve a large one; out of order | smol-rs/async-lock#23, governor | `newcomers_do_not_overtake`; "newcomers wait behind a large head although permits are free"; of limiters "a queue is served in its order, each at the tick at which it is due" and "newcomers wait behind a large head although there is enough for them" |
//! | a try takes the place of the one that drives the queue | udoprog/leaky-bucket#39 | "a try does not pass the queue and a refund is for the next" |
//! | a request larger than the limit blocks for ever | amazon-mq/rabbitmq-stream-s3#208 | "a waiter that a shrink made impossible is refused at once, wherever it is"; "a waiter for more than a lowered burst is refused at once, and counts for nobody"; `request_larger_than_the_burst` |
//! | an unbounded queue, at uploads | TraceMachina/nativelink#2730 | "past the bound a caller is refused at once"; of limiters "the first after a time goes at once, and the others one by one"; of streams "items start in order and one at most waits outside" |
//! | a burst after a missed tick | twilight-rs/twilight#388 | "with Delay the overdue are charged when they go", "by default at least one is made up for", "not longer ago than the burst takes" |
//! | a chain leaks what it took before the refusal | BaseIntelligence/bounty-challenge#4191 | every check of conformance over all of two; `chain_of_rates_leaks_what_it_took` |
//! | what was held back goes at once after a pause | this crate's `all((gate, rate))`, without the pause of the rate | `all_behind_a_gate_with_a_paused_limiter_admits_one_by_one` |
//! | keys without bound | librefang/librefang#3668 | "a new key is refused until the first it looked at makes room", "the key that owes least is forgotten", "a key in use is not evicted and a new one is refused"; `keys_without_bound_take_no_more_than_was_said` |
//! | eviction forgets debt | rate-net RN-005 | "waiters survive when everything else is refused", `every_key_keeps_its_quota_when_the_map_is_full` |
//! | the map deadlocks under a callback | xacrimon/dashmap#305 | `key_may_use_the_map_when_it_is_hashed_cloned_and_dropped`, `retain_of_limiters_may_use_the_map_also_from_a_waker`, `waker_may_set_the_quota_that_wakes_it` |
//! | the first address of `X-Forwarded-For` is believed, which the client writes | tower_governor 0.8.0, `SmartIpKeyExtractor` | `behind_counts_from_the_right` |
//! | high priority starves low | milvus-io/milvus#51246, vivek-ng/concurrency-limiter#6 | "a class that has aged goes before a higher one of its level" |
//! | a quiet tenant waits behind all of a noisy one | wavelens/gradient#111 | "classes take turns, however many callers each has" |
//! | the queue of a tenant is removed in use, or never | kubernetes/kubernetes#140884, ipfs/go-bitswap#112 | `acquire_in_one_class_too_many_is_refused_until_another_is_not_in_use`, `acquire_of_ever_new_classes_in_a_busy_queue_forgets_old_ones` |
//! | a shrink below what is held is forgotten when the limit grows | tower-resilience#363, #365 | "a lower limit takes no permit away", "growing pays a debt off before it admits" |
//! | one call that hangs freezes an adaptive limit | | "a permit that hangs does not keep a window from ending" |
//! | fast failures look like a backend with nothing to do | | "an ignored call gives its place to another one", "an overload counts without a latency" |
//! | each refusal of one overload cuts the rate again | botocore's adaptive retry mode | "requests of one overload cut the rate once" |
//! | the shorter `Retry-After` of a late answer ends a pause | | "of two pauses the longer one counts" |
//! | a call that another limit refuses gives back a rate that has just changed, and its time is lost | | `refund_while_the_rate_grows_gives_the_time_back` |
//! | an absurd `Retry-After` stops the client | urllib3#3743 | "a longer pause than the longest is that", "a pause without end is the longest" |

mod clocks;
mod keys;
mod nested_wakes;
mod permits;
mod rates;

use std::collections::HashSet;
use std::fs;
use std::path::Path;

/// Appends the text of each source file below a folder, except this one.
fn read_sources(folder: &Path, texts: &mut String) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            read_sources(&path, texts);
        } else if path.extension().is_some_and(|it| it == "rs") && !path.ends_with(file!()) {
            texts.push_str(&fs::read_to_string(path).unwrap());
        }
    }
}

#[test]
fn table_names_tests_and_rows_that_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut sources = String::new();
    for folder in ["tests", "loom/tests", "src", "crates"] {
        read_sources(&root.join(folder), &mut sources);
    }
    let table = include_str!("mod.rs").lines();
    let table = table.take_while(|line| line.starts_with("//!"));
    let held_by = table.filter_map(|row| row.rsplit('|').nth(1));
    // Tests, checks and models stand between backticks, rows between quotes.
    let begun = ["fn ", "model!("].map(|start| sources.split(start).skip(1));
    let names = begun.into_iter().flatten().map(str::trim_start);
    let names = names.filter_map(|rest| Some(&rest[..rest.find(['(', '<', ','])?]));
    let tests: HashSet<&str> = names.collect();
    let lines = sources.lines().filter_map(|line| line.split_once('|'));
    let rows: HashSet<&str> = lines
        .map(|(name, _)| name.trim().trim_start_matches('"').trim_end())
        .collect();
    let mut names = 0;
    for cell in held_by {
        for name in cell.split('`').skip(1).step_by(2) {
            assert!(tests.contains(name), "{name} is no test");
            names += 1;
        }
        for name in cell.split('"').skip(1).step_by(2) {
            assert!(rows.contains(name), "{name} is no row");
            names += 1;
        }
    }
    assert!(names > 30, "the table has {names} names");
}
