//! Calls of [`Memory`] that no comparison with a server makes: many keys, large charges, and times that go back.

use redis::{FromRedisValue, Value};

use super::Memory;
use super::keys::MANY;
use crate::script::{DEBT, LEASE, LIMIT_SET, MOST, Script};
use crate::sync::lock;

const SECOND: u64 = 1_000_000;

fn call(memory: &Memory, script: &Script, now: u64, keys: &[&str], words: &str) -> Vec<i64> {
    let mut command = script.by_digest(keys);
    // Two spaces have an empty word between them.
    command.arg(words.split(' ').collect::<Vec<_>>());
    let Value::Array(reply) = memory.call(&command, now).unwrap() else {
        panic!("a reply is an array");
    };
    let numbers = reply.iter().map(i64::from_redis_value_ref);
    numbers.collect::<Result<_, _>>().unwrap()
}

/// Calls a limit of one per second with a burst of 10,000. Returns what was done, the microsecond, the wait, what is
/// free, the time until all is free, the position and the identity.
fn limit(memory: &Memory, now: u64, key: &str, what: &str, numbers: &str) -> Vec<i64> {
    let words = format!("{what} 1 {SECOND} 10000 {numbers}");
    call(memory, &DEBT, now, &[key], &words)
}

fn semaphore(memory: &Memory, now: u64, key: &str, what: &str, rest: &str) -> Vec<i64> {
    // One permit, for ten seconds; a process claims its ticket within a second.
    let words = format!("{what} 1 10000000 {MOST} {SECOND} {MOST} {MOST} {rest}");
    call(memory, &LEASE, now, &[key], words.trim_end())
}

/// Asks for a lease of one permit. Returns its fencing number and the number of its ticket; one of both is 0.
fn acquire(memory: &Memory, now: u64, key: &str, id: &str) -> [i64; 2] {
    let reply = semaphore(memory, now, key, "acquire", &format!("0  {id} 1 0 1"));
    [reply[6], reply[7]]
}

#[test]
fn call_for_a_set_whose_second_key_is_one_of_many_charges_both() {
    let memory = Memory::default();
    for number in 1..MANY {
        limit(&memory, 0, &number.to_string(), "take", "1");
    }
    let words = format!("take debt 1 {SECOND} 10 3 debt 1 {SECOND} 20 4");
    let reply = call(&memory, &LIMIT_SET, SECOND, &["one", "other"], &words);
    assert_eq!([reply[0], reply[3], reply[8]], [1, 7, 16]);
}

#[test]
fn call_with_many_keys_forgets_those_at_rest() {
    let memory = Memory::default();
    let count = || {
        let state = lock(&memory.state);
        [state.rates.count(), state.lines.all.len()]
    };
    let [fencing, _] = acquire(&memory, 1, "held", "a.1");
    assert!(fencing > 0);
    for number in 1..MANY {
        limit(&memory, 1, &number.to_string(), "take", "1");
        semaphore(&memory, 1, &number.to_string(), "look", "");
    }
    limit(&memory, 1, "owes", "take", "100");
    // What was charged is paid off. Numbers of leases grow with the time, so a line without leases is like a new one.
    limit(&memory, 2 * SECOND, "new", "peek", "1");
    assert_eq!(count(), [2, 1]);
    assert_eq!(acquire(&memory, 2 * SECOND, "held", "b.1")[0], 0);
    // Leases end without a call of their semaphore.
    for number in 1..MANY {
        semaphore(&memory, 3 * SECOND, &number.to_string(), "look", "");
    }
    limit(&memory, 100 * SECOND, "new", "peek", "1");
    assert_eq!(count()[1], 0);
}

#[test]
fn call_for_a_lease_at_an_earlier_time_is_at_that_of_the_last_call() {
    let memory = Memory::default();
    let now = 100 * SECOND;
    let [held, _] = acquire(&memory, now, "jobs", "a.1");
    let [_, ticket] = acquire(&memory, now, "jobs", "b.1");
    assert!(held > 0 && ticket > held);
    // The process of the ticket is told now.
    semaphore(&memory, now, "jobs", "release", "a.1 1");
    let later = acquire(&memory, now - SECOND, "jobs", "c.1")[1];
    assert!(later > ticket, "it is behind the other one");
    assert!(acquire(&memory, now - 1, "jobs", "b.1")[0] > later);
}

#[test]
fn call_for_a_refund_of_another_identity_or_again_refunds_nothing() {
    let memory = Memory::default();
    let reply = limit(&memory, 0, "key", "take", "5");
    let [.., position, made] = reply[..] else {
        panic!()
    };
    assert!(made > 0, "0 is the identity of no limit");
    let free = |numbers: &str| limit(&memory, 0, "key", "give", numbers)[3];
    assert_eq!(free("5 0 0 0"), 9_995);
    assert_eq!(free(&format!("5 {position} {made} 0")), 10_000);
    assert_eq!(free(&format!("5 {position} {made} 0")), 10_000);
}

#[test]
fn call_for_refunds_of_parts_of_many_tokens_refunds_each_part() {
    let memory = Memory::default();
    let reply = limit(&memory, 1, "key", "upto", "10000");
    let [done, .., position, made] = reply[..] else {
        panic!()
    };
    assert_eq!(done, 10_000);
    let free = |n, position| {
        limit(
            &memory,
            1,
            "key",
            "give",
            &format!("{n} {position} {made} 1"),
        )[3]
    };
    assert_eq!(free(1_000, position), 1_000);
    assert_eq!(free(9_000, position - 1_000), 10_000);
    // A charge is for three units: two of one stay charged after a refund of the third.
    let end = limit(&memory, 1, "key", "upto", "10000")[5];
    assert_eq!(free(2, end), 2);
    assert_eq!(free(9_998, end - 2), 9_998);
}
