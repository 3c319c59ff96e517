//! Sequences of calls to a semaphore, one a row: the outcome of each call, its wakes and the observable
//! state afterwards are compared with the model, which is as exact as an expectation for each row.
//!
//! A row has a name, the limit, sometimes a bound of the queue or `kept` (a grant outlives a close, unlike
//! in tokio's semaphore), and then the calls. `acquire` makes a future and polls it; if it has to wait, it
//! is appended to the waiters, otherwise its permit is appended to the permits. `poll`, `drop` and `leak`
//! name a waiter, `release`, `split`, `merge`, `forget` and `leak-permit` a permit, by position from 0.
//! `limit`, `add` and `take-free` are `set_permits`, `add_permits` and `forget_permits`; `reject` is
//! `reject_impossible`. A row does not state whether a call is admitted, waits or is refused: the model
//! does. `free` and `waiting` state the values that the reader should see at that moment.

use std::cell::Cell;

#[cfg(feature = "channel")]
use tollgate::ChannelSemaphore;

use super::run;
use super::subject::{Subject, adaptive, blocking, borrowed, pool, shared};
use crate::support::ends;
use crate::support::scenarios::{Names, Words, check, rows};

const SCENARIOS: &str = "
# The queue: first-in first-out, whatever is asked for.
waiters are served in the order in which they joined | 1 | try 1, crowd 50 1, 50 x release 0 + poll 0
order holds across costs | 5 | try 5, acquire 4, acquire 1, acquire 3, split 0 3, release 1, free 3,
    waiting 3, split 0 1, release 1, poll 0, release 0, poll 0, poll 0, release 0, poll 0
one release serves everybody who fits | 6 | try 6, acquire 1, acquire 2, acquire 3, acquire 1, release 0,
    waiting 1, 3 x poll 0, poll 0, release-all, poll 0
nothing is reserved in part | 4 | try 4, acquire 4, split 0 1, release 1, free 1, split 0 1, release 1,
    free 2, split 0 1, release 1, free 3, drop 0, free 3, try 3
newcomers wait behind a large head although permits are free | 3 | try 1, acquire 3, free 2, try 1,
    acquire 1, waiting 2, free 2, release 0, poll 0, poll 0, release 0, poll 0
a newcomer cannot take what was granted to a woken waiter | 1 | try 1, acquire 1, release 0, free 0,
    waiting 0, try 1, acquire 1, poll 0, poll 0, release 0, poll 0
polling again does not move a waiter | 1 | try 1, acquire 1, acquire 1, 10 x poll 0 + poll 1, waiting 2,
    release 0, poll 0, release 0, poll 0
a waiter that is not polled keeps its place and then its permit | 1 | try 1, acquire 1, acquire 1,
    release 0, 10 x poll 1, free 0, poll 0, poll 0, release 0, poll 0
a grant that is dropped goes to the next | 1 | try 1, acquire 1, acquire 1, release 0, drop 0, poll 0
a large grant that is dropped goes to several | 4 | try 4, acquire 3, acquire 2, acquire 2, release 0,
    drop 0, poll 0, poll 0
a grant is passed on along a queue that leaves one by one | 1 | try 1, crowd 40 1, release 0, 39 x drop 0,
    poll 0
a large head that leaves lets the small ones go | 5 | try 2, acquire 5, 4 x acquire 1, drop 0, 3 x poll 0,
    poll 0, release 0, poll 0
one that leaves from the middle disturbs nobody | 3 | try 3, 3 x acquire 3, drop 1, waiting 2, release 0,
    poll 0, release 0, poll 0
the last one that leaves opens the queue to newcomers | 2 | try 1, acquire 2, try 1, drop 0, try 1
a place that was left is not taken over by who comes next | 1 | try 1, acquire 1, acquire 1, drop 0,
    acquire 1, release 0, poll 0, release 0, poll 0
a waiter is woken once and only when its turn has come | 3 | try 3, acquire 2, split 0 1, release 1,
    split 0 1, release 1, release 0, poll 0
a release between two polls is not missed | 1 | try 1, acquire 1, poll 0, release 0, poll 0
a granted waiter is not mistaken for who joined after it | 2 | try 2, acquire 1, acquire 1, release 0,
    3 x acquire 2, poll 0, drop 0, waiting 3, 3 x poll 0, 3 x release 0 + poll 0
uncollected grants and refusals are kept apart | 3 | try 3, acquire 1, acquire 3, acquire 1, limit 2,
    release 0, waiting 0, poll 2, poll 1, poll 0, acquire 1, acquire 1, release 1, close, poll 1, poll 0
grants outlive the memory of a long queue | 2000 | try 2000, crowd 1000 1, release 0,
    100 x try 1000 + acquire 1 + release 0 + poll 1000 + release 0, 500 x drop 500, 500 x poll 0, free 1500

# A bounded queue: past the bound callers are refused at once.
past the bound a caller is refused at once | 1 bound 2 | try 1, 3 x acquire 1, waiting 2, release 0, poll 0,
    release 0, poll 0
a caller who need not wait is not refused | 2 bound 0 | 3 x acquire 1
a place that is left or granted can be taken | 1 bound 1 | try 1, acquire 1, drop 0, acquire 1, release 0,
    acquire 1, poll 0, release 0, poll 0
the bound counts callers whatever they ask for | 9 bound 2 | try 9, acquire 9, acquire 1, acquire 1
a waiter may be polled in a full queue | 1 bound 1 | try 1, acquire 1, poll 0, release 0, poll 0
a request that can never be met says so although the queue is full | 1 bound 0 | try 1, acquire 2
the bound holds during a pause | 0 bound 1 | acquire 1, acquire 1, limit 1, poll 0
without a bound everybody may wait | 1 | try 1, crowd 2000 1, waiting 2000, release 0, poll 0

# Closing.
close ends every wait | 2 | try 1, crowd 40 2, close, waiting 0, 40 x poll 0
closed is the answer whatever else is wrong | 1 bound 0 | try 1, close, acquire 5, acquire 1, try 0,
    acquire 0, try 2
held permits stay valid after close | 3 | try 3, close, split 0 1, release 0, free 2, release 0
what was granted before close is received | 1 kept | try 1, acquire 1, acquire 1, release 0, close, poll 0, poll 0,
    free 0
what was granted before close and is dropped comes back | 1 | try 1, acquire 1, release 0, close, drop 0,
    free 1
an uncollected refusal does no harm | 1 | try 1, acquire 1, close, drop 0, release 0, free 1
close again does nothing | 1 | try 1, acquire 1, close, close, acquire 1, close, poll 0
close during a pause ends every wait | 0 | acquire 7, close, poll 0
permits that come back after close serve nobody | 1 | try 1, acquire 1, close, release 0, poll 0, try 1, free 1
a limit that changes after close admits nobody | 1 | close, limit 3, add 1, try 1, acquire 1, free 4

# The limit moves.
set_permits up admits those who now fit | 1 | try 1, 4 x acquire 1, limit 3, poll 0, poll 0, waiting 2, free 0
add_permits admits those who now fit | 1 | try 1, acquire 1, acquire 1, add 0, poll 0, add 1, poll 0, poll 0,
    add 1, poll 0
what is added can be had and what is forgotten cannot | 0 | try 1, add 2, try 1, try 1, try 1, forget 0,
    release 0, try 1, try 1, free 0
growing an idle semaphore frees the difference | 1 | limit 4, free 4, add 2, free 6
shrinking takes free permits at once | 5 | try 2, limit 3, free 1
shrinking below what is held leaves a debt that releases pay off | 5 | try 5, limit 2, free 0,
    3 x split 0 1 + release 1 + try 1 + free 0, split 0 1, release 1, free 1
nobody is admitted before the debt is paid | 4 | try 4, acquire 1, limit 1, 3 x split 0 1 + release 1 + poll 0,
    release 0, poll 0
growing pays a debt off before it admits | 4 | try 4, limit 1, acquire 1, limit 4, poll 0, add 1, poll 0
up and down again changes nothing | 3 | try 2, limit 7, free 5, limit 0, free 0, limit 1, free 0, limit 100,
    limit 2, free 0, limit 3, free 1
zero is a pause and anything else resumes | 2 | limit 0, try 1, acquire 1, acquire 2, waiting 2, limit 2,
    poll 0, poll 0, release 0, poll 0
permits that come back during a pause admit nobody | 2 | try 2, limit 0, acquire 1, release 0, poll 0, free 0,
    limit 1, poll 0
a semaphore may start paused | 0 | try 1, acquire 1, add 1, poll 0
nothing at all is had while paused and in debt | 3 | try 3, limit 1, try 0, acquire 0, limit 0, try 0, acquire 0
nothing at all does not wait in the queue | 1 bound 1 | try 1, acquire 1, try 0, acquire 0, waiting 1
more than the limit waits while paused, and only a lowering refuses it | 1 | limit 0, try 9, acquire 9,
    acquire 10, limit 8, poll 0, poll 1, limit 9, poll 0, release 0, poll 0, limit 0, limit 9, poll 0, limit 8,
    poll 0
a waiter that a shrink made impossible is refused at once, at the head | 3 | try 3, acquire 3, limit 2,
    waiting 0, poll 0
a waiter that a shrink made impossible is refused at once, wherever it is | 3 | try 3, acquire 1, acquire 3,
    acquire 2, acquire 3, acquire 1, limit 2, waiting 3, poll 3, poll 1, waiting 3, 3 x poll 0, release 0, poll 0,
    release 0, poll 0, release 0, poll 0
a raise brings no refused waiter back | 3 | try 3, acquire 1, acquire 3, limit 2, limit 3, waiting 1, poll 1,
    release 0, poll 0
a waiter is refused by the step that goes below its request | 5 | try 5, acquire 1, acquire 3, acquire 5, acquire 4,
    limit 4, waiting 3, limit 3, waiting 2, limit 2, waiting 1, limit 1, waiting 1, poll 1, poll 2, poll 1, release 0, poll 0
many are refused at once and the others keep their order | 3 | try 3, acquire 2, crowd 100 3, acquire 1, crowd 100 3,
    acquire 2, limit 2, waiting 3, release 0, poll 0, waiting 2, 100 x poll 0, poll 0, release 0, 100 x poll 0, release 0, poll 0
a refused waiter that is dropped without a poll leaves no trace | 3 | try 3, acquire 1, acquire 3, acquire 1, limit 2,
    drop 1, release 0, poll 0, poll 0
a pause refuses nobody, and whoever was refused before it stays refused | 4 | try 4, acquire 1, acquire 4, acquire 3, limit 3,
    limit 0, waiting 2, limit 1, waiting 2, poll 1, limit 3, release 0, poll 0, release 0, poll 0
one that became impossible lets those behind it go | 4 | try 2, acquire 4, acquire 1, limit 3, poll 0, poll 0
a grant that was made before a shrink is received | 3 | try 3, acquire 3, release 0, limit 1, poll 0, try 1
a grant that is passed on after a shrink pays the debt first | 2 | try 2, acquire 2, acquire 1, acquire 1,
    release 0, limit 1, drop 0, poll 0, poll 0, release 0, poll 0
add_permits one by one never refuses who waits for all, from 0 | 0 | acquire 3, 3 x poll 0 + add 1, poll 0
add_permits one by one never refuses who waits for all, paused | 3 | limit 0, acquire 3, 3 x poll 0 + add 1, poll 0
add_permits one by one never refuses who waits for all, lowered | 3 | limit 1, limit 0, acquire 3,
    3 x poll 0 + add 1, poll 0
a lowering after a pause refuses who waits for more | 6 | try 6, acquire 1, acquire 4, limit 0, limit 3, waiting 2,
    limit 2, waiting 1, poll 1, release 0, poll 0
a raise from 0 refuses nobody, and whoever is behind waits too | 0 | acquire 5, acquire 1, limit 2, poll 0,
    poll 1, free 2, waiting 2, try 1, acquire 5, limit 5, poll 0, release 0, poll 0
reject_impossible refuses what waits for more than the limit, and those behind go | 0 | acquire 5, acquire 1,
    limit 2, reject, poll 0, poll 0, free 1
reject_impossible refuses at once, wherever the waiter is | 2 | try 2, limit 0, acquire 1, acquire 5, limit 2,
    poll 1, waiting 2, reject, waiting 1, poll 1, release 0, poll 0
reject_impossible during a pause refuses nobody, also later | 3 | limit 0, acquire 5, reject, poll 0, limit 2,
    poll 0, waiting 1, limit 5, poll 0
reject_impossible is not undone by a limit that is high enough | 2 | try 2, limit 0, acquire 1, acquire 5, limit 2,
    reject, limit 5, poll 0, poll 0, release-all
reject_impossible does not concern those who come later | 0 | acquire 1, limit 2, reject, poll 0, limit 0,
    acquire 5, limit 2, poll 0, waiting 1
reject_impossible where nothing is impossible changes nothing | 3 | try 3, acquire 3, reject, poll 0, release 0,
    poll 0
forget_permits takes what is free and no more | 5 | try 3, acquire 4, take-free 1, poll 0, take-free 9,
    take-free 9, poll 0, free 0

# Permits are split, merged and forgotten.
a part can be released on its own | 5 | try 5, split 0 2, free 0, release 0, free 3
a split of more than it holds changes nothing | 2 | try 2, split 0 3, split 0 18446744073709551615
a split of all and of none are splits | 2 | try 2, split 0 0, split 0 2, release 1, release 0, free 0
a part that is released serves a waiter | 3 | try 3, acquire 2, split 0 1, release 1, poll 0, split 0 1,
    release 1, poll 0
merge adds up and gives nothing back | 4 | try 1, try 3, acquire 1, merge 0 1, poll 0, free 0, release 0, poll 0
forget lowers the limit | 5 | try 2, forget 0, free 3, try 4
forget of none changes nothing | 1 | try 0, forget 0, free 1
forget leaves alone what others hold | 5 | try 2, try 2, forget 1, free 1
forget in debt lowers the limit and the debt stays | 4 | try 4, limit 3, split 0 2, forget 1, free 0, split 0 1,
    release 1, try 1, release 0
forget of more than the limit leaves zero | 4 | try 4, limit 1, split 0 3, forget 1, free 0, release 0, free 0,
    limit 2, free 2
forget may make a waiter impossible | 3 | try 2, acquire 3, acquire 1, forget 0, poll 0, poll 0
forget of the whole limit is a pause | 2 | try 2, acquire 2, forget 0, poll 0, limit 2, poll 0

# Waiting until everything has come back.
wait_idle of an idle semaphore is ready at once | 5 | idle, close, idle
wait_idle of a paused semaphore is ready at once | 0 | idle, close, idle
wait_idle ends when the last permit has come back | 3 | try 1, try 2, idle, release 1, poll-idle 0, release 0,
    poll-idle 0
wait_idle is not in the queue and holds nobody back | 2 bound 0 | try 1, idle, waiting 0, try 1, release 0,
    poll-idle 0, release 0, poll-idle 0
all who wait for idleness are woken together | 1 | try 1, 40 x idle, release 0, 40 x poll-idle 0
one that gives up waiting for idleness leaves the others waiting | 1 | try 1, 3 x idle, drop-idle 2,
    drop-idle 0, poll-idle 0, release 0, poll-idle 0
a moment of idleness counts although it has passed | 1 | try 1, idle, release 0, try 1, poll-idle 0
a permit that is passed on has not come back | 1 | try 1, idle, acquire 1, release 0, poll-idle 0, poll 0,
    poll-idle 0, release 0, poll-idle 0
a grant that is dropped has come back | 1 | try 1, idle, acquire 1, release 0, poll-idle 0, drop 0, poll-idle 0
close and wait_idle drain | 2 | try 2, acquire 1, idle, close, idle, poll 0, poll-idle 0, release 0,
    poll-idle 0, poll-idle 0
a caller who waits does not count as a holder | 2 | limit 0, acquire 1, idle, waiting 1
a debt must be paid off by everybody | 3 | try 3, idle, limit 1, split 0 2, release 1, poll-idle 0, limit 0,
    poll-idle 0, release 0, poll-idle 0
a change of the limit is not a return | 1 | try 1, idle, limit 5, poll-idle 0, limit 1, poll-idle 0, limit 0,
    poll-idle 0, limit 2, poll-idle 0, release 0, poll-idle 0
forgetting the last permit makes the semaphore idle | 2 | try 1, idle, forget 0, poll-idle 0
a wait for idleness that was given up leaves no trace | 2 | try 1, idle, drop-idle 0, acquire 2, release 0, poll 0

# What needs no wait.
at the limit nobody is let in | 2 | try 1, try 1, try 1, release 0, try 1, try 1, release-all, free 2
permits come back after close and are not handed out | 2 | try 1, try 1, close, free 0, try 1, release 0, release 0,
    free 2, try 1
a leaked permit lowers what can be had by one and no more | 3 | try 1, try 1, leak-permit 0, leak-permit 0,
    5 x try 1 + try 1 + release 0, free 1
closed is the answer whatever is free | 2 | try 1, close, close, try 1, release 0, try 1

# What is leaked takes away what it asked for, and no more.
a leaked waiter is granted what it asked for | 5 | try 5, acquire 2, leak 0, acquire 3, release 0, poll 0,
    release 0, free 3, waiting 0, try 3
a leaked grant can be made up for | 3 | try 3, acquire 2, release 0, leak 0, free 1, try 1, release 0, add 2, try 3
a leaked waiter that is refused takes nothing away | 3 | try 3, acquire 3, leak 0, acquire 1, limit 2, release 0,
    poll 0, release 0, free 2
a leaked waiter does not keep a drain from ending | 1 | try 1, acquire 1, leak 0, close, idle, release 0,
    poll-idle 0, free 1
a leaked wait for idleness takes nothing away | 2 | try 2, idle, leak-idle 0, acquire 1, idle, release 0, poll 0,
    release 0, poll-idle 0
a leaked permit is out of circulation and the limit stays | 3 | try 1, try 1, 2 x leak-permit 0, free 1, try 2
";

/// The same with waits that a token or a time ends. `acquire` and `idle` may have `token` with its name, where
/// `a.b` is a child of `a`, and `within` with milliseconds, each of them more than once. The first one named is
/// the innermost.
#[cfg(feature = "tokio")]
const ENDED: &str = "
# Tokens.
cancelling wakes a waiter, which leaves | 1 | try 1, acquire 1 token a, acquire 1, poll 0, cancel a, poll 0,
    waiting 1, release 0, poll 0
a cancelled token wins over free permits | 3 | cancel a, acquire 2 token a, acquire 0 token a, idle token a, free 3
a cancelled token wins over every other refusal | 2 bound 0 | cancel a, try 1, acquire 3 token a, acquire 2 token a,
    close, acquire 1 token a, idle token a
a token wins over a close that came before | 1 | try 1, acquire 1 token a, close, cancel a, poll 0
a token wins over a grant that was not received, which is passed on | 1 | try 1, acquire 1 token a, acquire 1,
    release 0, cancel a, poll 0, poll 0
a token that is not cancelled changes nothing | 2 | acquire 1 token a, try 1, acquire 1 token b, acquire 3 token b,
    release 0, poll 0, cancel c
cancelling after the permit was received changes nothing | 1 | try 1, acquire 1 token a, release 0, poll 0,
    cancel a, free 0
a token is not cancelled with its child or its sibling | 1 | try 1, acquire 1 token a.b, acquire 1 token a.c,
    acquire 1 token a, cancel a.b, poll 0, poll 0, poll 1, cancel a, poll 0, poll 0, free 0
a child of a child is cancelled as well | 1 | try 1, acquire 1 token a.b.c, cancel a, poll 0
either of two tokens cancels | 1 | try 1, acquire 1 token a token b, acquire 1 token c token d, cancel b, poll 0,
    cancel c, poll 0
one token cancels many and leaves the others in the queue | 1 | try 1, 3 x acquire 1 token a + acquire 1,
    50 x acquire 1 token a, cancel a, poll 0, poll 1, poll 2, 50 x poll 3, waiting 3, 3 x release 0 + poll 0
a wait for idleness is cancelled | 1 | try 1, idle token a, idle, cancel a, poll-idle 0, release 0, poll-idle 0
a wait that is dropped leaves its token | 1 | try 1, acquire 1 token a, drop 0, cancel a, waiting 0

# Times.
a wait ends after exactly its time | 1 | try 1, acquire 1 within 250, advance 249, poll 0, advance 1, poll 0,
    waiting 0
polling again does not restart the time | 1 | try 1, acquire 1 within 250, 5 x advance 25 + poll 0, advance 125,
    poll 0
each waiter has a time of its own | 1 | try 1, acquire 1 within 5, acquire 1 within 1, acquire 1 within 3,
    advance 1, poll 1, advance 2, poll 1, poll 0, advance 2, poll 0
of two times the shorter one counts | 1 | try 1, acquire 1 within 5 within 9, acquire 1 within 9 within 5,
    advance 4, poll 0, poll 1, advance 1, poll 0, poll 0
a grant in time is received, however late | 1 | try 1, acquire 1 within 5, release 0, advance 9, poll 0
a grant after the time is received by who has not looked | 1 | try 1, acquire 1 within 5, advance 9, release 0,
    poll 0
one that was timed out leaves the others in the queue | 1 | try 1, acquire 1 within 5, acquire 1, advance 5, poll 0,
    waiting 1, release 0, poll 0
what is ready is never timed out | 1 | acquire 1 within 0, release 0, idle within 0, acquire 1 within 9, release 0,
    acquire 1 within 18446744073709551615, release 0, idle within 18446744073709551615
no time is no wait | 1 | try 1, acquire 1 within 0, acquire 1 within 0 within 9, waiting 0
other refusals come before the end of a time | 1 bound 0 | try 1, acquire 2 within 0, acquire 1 within 9, close,
    acquire 1 within 0
a drain may have a deadline | 1 | try 1, close, idle within 5, idle within 9, advance 5, poll-idle 0, release 0,
    poll-idle 0
the longest time is waited for | 1 | try 1, acquire 1 within 18446744073709551615, advance 31536000000, poll 0,
    release 0, poll 0
a year is waited for | 1 | try 1, acquire 1 within 31536000001, advance 31536000000, poll 0, release 0, poll 0
a time inside of a token and both end a wait | 1 | try 1, acquire 1 within 5 token a, acquire 1 within 5 token b,
    cancel a, poll 0, advance 5, poll 0, acquire 1 within 5 token a, release 0, acquire 1 within 5 token b
a wait for idleness has a time inside of a token | 1 | try 1, idle within 5 token a, idle within 5 token b, cancel a,
    poll-idle 0, advance 5, poll-idle 0
a token and a time both end a wait | 1 | try 1, acquire 1 token a within 5, acquire 1 token b within 5, cancel a,
    poll 0, advance 5, poll 0
";

/// Runs the rows that a type supports, and asserts their number.
fn run_rows<S: Subject>(table: &str, make: impl Fn(usize, Option<usize>) -> S, expected: usize) {
    let ran = Cell::new(0);
    check(table, |row| {
        let mut setup = Words::new(&row.setup);
        let limit = setup.parse();
        let bound = setup.says("bound").then(|| setup.parse());
        let is_kept = setup.says("kept");
        setup.end();
        let can = row.calls(|call, words| {
            let crowd: Option<usize> = (call == "crowd").then(|| words.parse());
            let is_one = words.says("1");
            while words.maybe::<String>().is_some() {}
            let has_cost = crowd.is_some() || call == "acquire" || call == "try";
            S::has(call) && (is_one || !has_cost || S::has("cost"))
        });
        let can_limit = limit > 0 || S::has("limit") || S::has("add");
        let can_set_up = (bound.is_none() || S::has("bound")) && (!is_kept || S::has("kept"));
        if can.contains(&false) || !can_limit || !can_set_up {
            return Ok(());
        }
        ran.set(ran.get() + 1);
        run(&make, (limit, bound), Names::Exactly, &row.texts())
    });
    assert_eq!(ran.get(), expected, "rows of what has {}", S::HAS);
}

/// Runs them with a semaphore of another crate, borrowed and shared.
#[cfg(any(feature = "tokio", feature = "async-lock"))]
fn foreign_rows<T: 'static>(table: &str, new: fn(usize) -> T, expected: usize)
where
    &'static T: Subject,
    std::sync::Arc<T>: Subject,
{
    run_rows(
        table,
        |limit, _| super::subject::leaked(new(limit)),
        expected,
    );
    run_rows(table, |limit, _| std::sync::Arc::new(new(limit)), expected);
}

#[test]
fn semaphore_in_each_scenario_does_what_the_model_does() {
    ends(|| {
        let all = rows(SCENARIOS).len();
        run_rows(SCENARIOS, borrowed, all);
        run_rows(SCENARIOS, shared, all);
    });
}

/// Runs the same rows, without those with a call that the type does not have.
#[test]
fn others_that_promise_the_same_do_in_each_scenario_what_the_model_does() {
    ends(|| {
        run_rows(SCENARIOS, adaptive, 30);
        run_rows(SCENARIOS, pool, 19);
        run_rows(SCENARIOS, blocking, 4);
        #[cfg(feature = "channel")]
        for make in [ChannelSemaphore::new, ChannelSemaphore::reversed] {
            run_rows(SCENARIOS, |limit, _| std::sync::Arc::new(make(limit)), 4);
        }
        #[cfg(feature = "tokio")]
        foreign_rows(SCENARIOS, tokio::sync::Semaphore::new, 20);
        #[cfg(feature = "async-lock")]
        foreign_rows(SCENARIOS, async_lock::Semaphore::new, 3);
    });
}

/// Runs in the time of a runtime, which stands still.
#[cfg(feature = "tokio")]
#[test]
fn waits_with_tokens_and_times_do_in_each_scenario_what_the_model_does() {
    ends(|| {
        let _inside = super::RUNTIME.enter();
        let all = rows(ENDED).len();
        run_rows(ENDED, borrowed, all);
        run_rows(ENDED, shared, all);
        run_rows(ENDED, adaptive, 25);
        run_rows(ENDED, pool, 23);
        foreign_rows(ENDED, tokio::sync::Semaphore::new, 21);
    });
}
