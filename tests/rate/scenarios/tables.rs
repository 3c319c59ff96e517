//! Rows about the queue, refunds, quotas, local handles, pauses, holds, the count of a server, and the bounds of
//! the counters.

use super::check;

/// The queue, the hints to a refused caller, and the close.
const QUEUE: &str = "
a queue is served in its order, each at the tick at which it is due | 100/s burst 50 | try 50, wait 1, wait 3,
    wait 1, due 0 10ms, due 0 30ms, due 0 10ms
close refuses every later call | 100/s burst 50 | 2 x close + refuse 0 closed + refuse 1 closed + refuse 50 closed
    + refuse 51 closed + advance 1s
close ends every wait | all 10/s burst 10 | charge 99, 3 x wait, reserve, close, 4 x refused 0 closed, waiting 0
what was granted before the close is received | 10/s | try, wait, wait, advance 100ms, close, granted 0 100ms,
    refused 0 closed
too much is said before a full queue, and the close before both | 10/s; waiters 1 | try, wait, refuse 2 too-much,
    full 1 100ms, close, refuse 1 closed, refuse 2 closed
a snapshot beside a queue shows the queue and what is available | 100/s burst 50 | try 50, in-use 50, left 0,
    wait 40, advance 150ms, wait 20, reserve, advance 250ms-1ns, left 39, waiting 3, oldest 400ms-1ns, no,
    advance 1ns, granted 0 400ms, oldest 250ms
a reservation is charged at its turn, whenever it is looked at | 10/s | reserve 1 0s, reserve 1 100ms,
    reserve 1 200ms, drop 1, advance 1s, granted 0 100ms
a delay counts those in front and no others | 100/s burst 50 | try 50, 20 x wait 7, reserve 30 1700ms, wait 7,
    delay 20 1700ms, drop 3, delay 19 1630ms, advance 9ms, delay 19 1621ms
what is never due is due in the longest time | 10/s | charge max, reserve 1 never, no 1 never
a wait that will not fit its timeout is refused at once | 100/s burst 50 | try 50, late 3 30ms-1ns 30ms, waiting 0,
    within 3 30ms, due 0 30ms
a wait that is given up moves those behind it up | 10/s | try, wait, wait, advance 30ms, drop 0, due 0 70ms

a grant that is dropped goes to the next | gcra token-bucket fixed-window sliding-log 10/s burst 10 | charge 10,
    wait, wait, advance 1s, drop 0, granted 0,
    waiting 0
a large head that leaves lets the small ones go | 100/s burst 50 | try 50, wait 40, wait 5, wait 5, advance 100ms,
    drop 0, granted 0 100ms, granted 0 100ms
newcomers wait behind a large head although there is enough for them | 100/s burst 50 | try 50, wait 20, advance 50ms,
    left 5, no 1 160ms, wait, due 0 150ms, due 0 10ms
to look again does not move a waiter | 10/s | try, wait, wait, 5 x pending 0 + pending 1, due 0 100ms, due 0 100ms
those behind waiters that leave move up at once, whichever leave first | 10/s; uncounted | try, 10000 x wait,
    9999 x drop 0, waiting 1, due 0 100ms, 10000 x wait, 9999 x drop 1, waiting 1, due 0 100ms
a leaked waiter keeps its place and is charged | 10/s | try, wait, wait, leak 0, advance 100ms, waiting 1, due 0 100ms

# A bound of the queue, as a leaky bucket has it: one at once, the others evenly spaced.
the first after a time goes at once, and the others one by one | 10/s; waiters 3 | enter, 3 x wait, full 1 100ms,
    advance 99ms, full 1 1ms, due 0 1ms, wait, full 1 100ms, drop 0, 2 x due 0 100ms, waiting 0,
    advance 1s, enter, 3 x wait, full 1 100ms
without a place nobody waits | 10/s; waiters 0 | enter, full 1 100ms, advance 100ms, enter
a try does not pass the queue and a refund is for the next | 10/s; waiters 5 | try, no 1 100ms, 3 x wait,
    no 1 400ms, refund 0, granted 0 0s, no 1 300ms, advance 300ms-1ns, no 1 1ns, advance 1ns, try
the last tick of all is never | 1/s | charge max, wait, advance never, pending 0
but who is due there by a refund is granted | 1/s; uncounted | try, wait, refund 0, granted 0 0s

# Timers that are late: the waker of the first waiter takes its time, and those behind it are overdue then.
with Delay the overdue are charged when they go | 10/s; delay | try, slow 250ms, 3 x wait, advance 100ms,
    granted 0 100ms, granted 0 350ms, due 0 100ms, due 0 100ms
a burst of none is the same as Delay | 10/s; makes-up 0 | try, slow 250ms, 2 x wait, advance 100ms,
    granted 0 100ms, granted 0 350ms, due 0 100ms
with a burst they are charged when they were due | 10/s; makes-up 5 | try, slow 250ms, 4 x wait, advance 100ms,
    granted 0 100ms, granted 0 200ms, granted 0 300ms, due 0 50ms, due 0 100ms
not longer ago than the burst takes | 10/s; makes-up 2 | try, slow 1040ms, 5 x wait, advance 100ms,
    granted 0 100ms, granted 0 940ms, granted 0 1040ms, granted 0 1140ms, due 0 100ms, due 0 100ms
the burst is in units of cost, and the burst of the quota had come back | 100/s burst 50; makes-up 20 | try 50,
    slow 1s, 8 x wait 10, advance 10ms, granted 0 10ms, 5 x granted 0 810ms, granted 0 910ms, granted 0 1010ms,
    due 0 100ms
by default a hundredth of a second is made up for | 1000/s | try, slow 30ms, 12 x wait, advance 1ms, granted 0 1ms,
    granted 0 21ms, granted 0 22ms, 8 x granted 0, granted 0 31ms, due 0 1ms
by default at least one is made up for | 10/s | try, slow 480ms, 3 x wait, advance 100ms, granted 0 100ms,
    granted 0 480ms, granted 0 580ms, due 0 100ms
one that comes behind a late timer is not charged before it came | 10/s; makes-up 100 | try, busy 350ms enter, wait,
    advance 100ms, granted 0 100ms, granted 0 200ms, no 1 100ms
a try before a late timer finds those granted that are due | 10/s burst 3; makes-up 10 | try 3, busy 400ms try,
    wait, wait,
    advance 100ms, granted 0 100ms, granted 0 200ms, granted 0 300ms, left 1
and a call that could wait | 10/s burst 3; makes-up 10 | try 3, busy 400ms enter, wait, wait, advance 100ms,
    granted 0 100ms, granted 0 200ms, granted 0 300ms, left 1
and a look | 10/s burst 3; makes-up 10 | try 3, busy 400ms peek 2 0s, wait, wait, advance 100ms, granted 0 100ms,
    granted 0 200ms, granted 0 300ms, left 2
and a snapshot | 10/s burst 3; makes-up 10 | try 3, busy 400ms left 2, wait, wait, advance 100ms, granted 0 100ms,
    granted 0 200ms, granted 0 300ms, left 2
and one that is refused gets the time after those that are due | 10/s; makes-up 10 | try, busy 230ms no 1 170ms, 3 x
    wait,
    advance 100ms, granted 0 100ms, granted 0 200ms, granted 0 300ms, due 0 70ms
a refund of nothing does not change when the overdue are charged | 10/s; makes-up 10 | try, busy 250ms refund-nothing,
    3 x wait, advance 100ms, granted 0 100ms, granted 0 200ms, granted 0 300ms, due 0 50ms
nor does one that gives something back | sliding-log 3/300ms; makes-up 10 | try, advance 150ms, try, advance 100ms, try,
    busy-refund 200ms, wait, advance 50ms, granted 0 300ms, granted 0 450ms
# One call serves a thousand and twenty-four of a queue, also one that only looks. The timer serves the others.
a quota that makes all due serves some, and a bystander is not admitted before them | 1/h; uncounted | try,
    12288 x wait, other, set 1/s, try,
    busy 0ns other; keep 1000000/s burst 24576; waiting 10240; no 1 1ns; late 1 0ns; waiting 3072; charge; waiting 1024,
    advance 1s, other, waiting 0, 12289 x granted 0 1s
a close releases some and leaves the others to the timer | 1/h; uncounted | try, 12288 x wait, other, set 1/s, try,
    busy 0ns other; close; waiting 10240; refuse 1 closed; waiting 5120, advance 1s, other, waiting 0,
    12288 x refused 0 closed, granted 0
a quota below the costs of many refuses them at once | 1/h burst 9; uncounted | try 9, 12288 x wait 9, wait, other,
    set 1/s, try, busy 0ns other; keep 1/s burst 8; waiting 1, advance 1s, other,
    waiting 1, 12288 x refused 0 too-much, advance 2s, granted 0, granted 0
nobody is charged for a time before the quota that made it due | 1/h; makes-up 10 | try, 2 x wait, advance 5s,
    keep 10/s burst 2, granted 0 5s, due 0 99861112ns
a decision of a charge for an earlier tick says how it stood then | 10/s burst 4; makes-up 10 | try 4, slow 350ms,
    wait, wait 2, advance 100ms, granted 0 100ms, granted 0 200ms, granted 0 400ms, decision 2 0 400ms,
    decision 3 0 400ms, no 1 50ms
those charged when they go lose no part of a nanosecond if the timer is on time | 700000000/s; delay; uncounted | try,
    100 x wait, no 1 145ns, advance 144ns, waiting 0, no, advance 1ns, try
";

/// Charges, refunds and settlements.
const CHARGES: &str = "
a refund gives back what time has not paid off | 10/s burst 5 | try 5, advance 200ms, refund 0, left 5
a refund makes those due that wait | 100/s burst 50 | try 50, wait 30, wait 30, advance 10ms, refund 0,
    granted 0 10ms, due 0 100ms
a settlement for less gives the rest back, and one for more charges it | 10/s burst 9 | try 4, settle 0 1, left 8,
    try 2, settle 0 5, left 3, try 2, settle 0 2, left 1
a refund of a charge of another limiter gives nothing back | whole 50/h burst 50 | other, try 2, try 2, other,
    try 4, refund 0, settle 0 1, left 46, try, refund 1, left 46
a refund of a charge of another limiter gives nothing back, in parts | sub-interval/4 50/h | other, try 2, try 2,
    other, try 4, refund 0, settle 0 1, left 6, try, refund 1, left 6
a settlement of a charge of another limiter charges what is missing | 50/h burst 50 | other, try 2, other,
    settle 0 5, left 47, other, left 48
a decision of a charge of another limiter is that of now | all 50/h burst 50 | other, try 3, advance 1min, other,
    try, stranger 0
a charge of a reservation or of a local handle is given back to its limiter | 4/h burst 4; batch 4 | reserve 3 0s,
    refund 0, left 4, take, return, left 3
what is charged at one tick is given back in any order | whole 10/s burst 10 | advance 37ms, charge 3, try, charge 2,
    charge, refund 2, refund 0, refund 1, refund 0, reset 0s
what was charged in advance is not what is charged at its tick | sliding-log 2/1000ns; overdraft | advance 100ns,
    try, advance 100ns, try, advance 300ns, charge, advance 600ns, charge, refund 3, no 1 100ns
a log refunded at the last tick goes on | sliding-log 1/1099511627776ns; at 288230376151711743ns; uncounted |
    try, refund 0, advance never, try, no
the largest costs are never paid off and can be given back | sliding-log sliding-window 3/s; uncounted | try,
    refuse max too-much, charge max, later 1670d, charge max, charge, left 0
a million are charged, given back and changed | sliding-log sliding-window 1048576/h; uncounted | try 1048571,
    advance 30min, 5 x try, no, refund 0, left 1048571, charge 2097152, set 1048577/h, left 0
an overdraft of the largest cost can be given back | sliding-log sliding-window 3/s; overdraft; uncounted | try,
    charge max, refund 1, left 2
what was paid off and given back is none of the many refunds that are told apart | 1/ns burst 1000; uncounted |
    3000 x charge 10 + refund 0 + advance 1ns, 1025 x charge 10, 1024 x refund 1, peek 1000 10ns, refund 0,
    peek 1000 0ns
a refund is in full after any amount was given back | 1/ns burst 1000; uncounted | charge 1000,
    100 x charge max + later 417d + refund 1 + peek 1000 1us, charge 7, refund 1, peek 1000 1us
# It takes only what there is room for, and there is none for another.
a charge beyond counting gives back what there was room for | 100/s burst 50; overdraft; uncounted | try 50, charge max,
    later 10950d, charge max, refund 2, charge 1000, refund 2, later 10950d, refund 1, peek 1 10ms, wait max,
    advance 500ms, granted 0 500ms, in-use 115292150410, charge, in-use 115292150410, settle 1 115292150409,
    in-use 115292150409, charge 2, in-use 115292150410
the longest period is never over, and what is given back in it stays | sliding-log sliding-window
    64/288230376151711744ns; uncounted | try 63, advance 288230376151711743ns, try, no 1 never, refund 0,
    advance never, left 63
decision after a change of the quota and the close is that of an admitted call | 10/s burst 5 | try 3, keep 10/s burst 6,
    close, decision 0 3 300ms
";

/// The rest after a change of the quota.
const QUOTAS: &str = "
in proportion: nothing spent of ten leaves all of twenty | 100/s burst 10 | quota 100/s burst 20, left 20
in proportion: four of ten are eight of twenty | 100/s burst 10 | try 4, quota 100/s burst 20, left 12
in proportion: four of ten are two of five | 100/s burst 10 | try 4, quota 100/s burst 5, left 3
in proportion: all is all | 100/s burst 10 | try 10, quota 100/s burst 20, left 0, no 1 10ms
in proportion: what is forced is twice as much | 100/s burst 10 | try 10, charge 3, quota 100/s burst 20, left 0,
    no 1 70ms
keep: nothing spent of ten leaves all of five | 100/s burst 10 | keep 100/s burst 5, left 5
keep: four of ten are four of twenty | 100/s burst 10 | try 4, keep 100/s burst 20, left 16
keep: four of ten are four of five | 100/s burst 10 | try 4, keep 100/s burst 5, left 1
keep: eight of ten are three beyond five | 100/s burst 10 | try 8, keep 100/s burst 5, left 0, no 1 40ms,
    keep 100/s burst 10, left 2
keep: what is forced is of twenty | 100/s burst 10 | try 10, charge 3, keep 100/s burst 20, left 7
keep: what is forced is kept beyond five | 100/s burst 10 | try 10, charge 3, keep 100/s burst 5, left 0, no 1 90ms
another rate counts the same tokens, in proportion | 100/s burst 10 | try 4, quota 1000/s burst 10, left 6,
    quota 36/h burst 10, left 6, reset 400s, advance 50s, quota 100/s burst 10, reset 35ms
another rate counts the same tokens, kept | 100/s burst 10 | try 4, keep 1000/s burst 10, left 6,
    keep 36/h burst 10, left 6, reset 400s, advance 50s, keep 100/s burst 10, reset 35ms
another quota holds at once for those that wait | 10/s | try, 3 x wait, advance 50ms, quota 1000/s, due 0 500us,
    quota 1/h, due 0 1h, advance 30min, quota 10/s, due 0 50ms
the same rate in other words is no change | 1/s burst 3 | try 2, quota 60/min burst 3, refund 0, left 3
more than one in a nanosecond is exact | 1250000000/s burst 100000000 | try 100000000, no 12500000 10ms, advance 3ns,
    left 3, advance 1ns, left 5, wait 10, advance 3ns, pending 0, advance 1ns, granted 0, advance 1min,
    left 100000000
many in a nanosecond are exact, also from one quota to the other | 12500000000/s burst 1000000000 | try 1000000000,
    no 125000000 10ms, advance 1ns, left 12, advance 1ns, left 25, advance 1ns, left 37, advance 997ns, left 12500,
    quota 16000000000/s burst 1280000000, left 16000, quota 1000000/s burst 80000, left 1, advance 1ms, left 1001
where the units end nothing is paid off, neither for calls nor for those who wait | 16/ns burst 100 |
    advance 67553994410557440ns-10ns, try 100, advance 3ns, left 48, try 48, wait 100, wait 12, no, advance 12428d,
    granted 0, pending 0, left 11, peek 1 never
a waiter for more than a lowered burst is refused at once, and counts for nobody | 1/s burst 10 | try 10, wait 1,
    wait 9, reserve 1 11s, reserve 8 19s, reserve 1 20s, quota 1/s burst 5, refused 1 too-much, delay 2 0s,
    refused 2 too-much, delay 1 2s, delay 2 3s, no 1 4s, within 1 4s, quota 1/s burst 9, delay 1 2s, delay 2 3s, no 1 5s,
    advance 1s, granted 0 1s, advance 3s, granted 0, granted 0, granted 0
and the next head is due in that call | 1/s burst 10 | try 10, advance 2s, wait 9, wait 1, waiting 2, quota 1/s burst 5,
    refused 0 too-much, granted 0 2s
a waiter that may overdraw counts whatever the burst is | 1/s burst 10; overdraft | try 10, wait 1, wait 9,
    quota 1/s burst 5, no 1 11s
windows of a period that is a little longer begin when the old one ends | fixed-window 10/s | advance 999ms, try 10,
    no 1 1ms, advance 1ms, try 10, no, set 10/1001ms, advance 1ms, no 1 1s
and parts of a period do | sub-interval/1 2/s | advance 999ms, try, no, advance 1ms, try, no, set 2/1001ms,
    advance 1ms, no 1 1s
a limiter is changed in proportion by default | 100/s burst 10 | try 4, set 100/s burst 20, left 12
but by other algorithms what was spent is kept | token-bucket 100/s burst 10 | try 4, set 100/s burst 20, left 16
and by a log | sliding-log 10/s | try 4, set 9/s, left 5
a quota up and down strands nobody | 1/h; uncounted | try, 1000 x wait, 200 x quota 1000/s + advance 3ms + quota 1/h +
    advance 2ms, quota 1000/s, advance 1001ms, 1000 x granted 0, advance 1h, try
a quota up and down strands nobody if what is spent is kept | 1/h; uncounted | try, 1000 x wait, 200 x keep 1000/s +
    advance 3ms + keep 1/h + advance 2ms, keep 1000/s, advance 1001ms, 1000 x granted 0, advance 1h, try
of each nanosecond as many go as fit: 5 in 2 ns | 5/2ns | try, 20 x wait, 6 x advance 1ns, waiting 5
and 3 in one | 3/ns | try, 20 x wait, 6 x advance 1ns, waiting 2
and 16 in one | 16/ns | try, 20 x wait, 1 x advance 1ns, waiting 4
and 31 in 2 ns | 31/2ns | try, 40 x wait, 2 x advance 1ns, waiting 9
what was spent stays owed under a smaller quota | token-bucket fixed-window 1000/min | try 1000, set 10/min, left 0,
    advance 99min, no, advance 1min, try
and in a sliding window, whose last part fades | sliding-window 1000/min | try 1000, set 10/min, left 0, advance 100min,
    no 1 6s, advance 1min, try
what was forced stays owed | token-bucket fixed-window sliding-window 1000/min | try 1000, charge 30,
    set 10/min, left 0, advance 102min, no, advance 2min, try
and what was spent of parts | sub-interval/4 1000/min | try 200, charge 30, set 10/min, left 0, advance 28min, no,
    advance 1min, try
a log forgets each charge after a period | sliding-log 1000/min | try 1000, set 10/min, left 0, advance 1min, left 10
a larger quota gives nothing back of what was spent before a smaller one | all 1000/min burst 1000 | try 200, note,
    keep 10/min burst 10, left 0, keep 1000/min burst 1000, same

to set what is so changes nothing, not even what can be given back | all 50/s burst 50 | note, try 5, set 50/s burst 50,
    refund 0, same, try 5, other, try 5, 40 x other + set 50/s burst 50 + other + alike + advance 10ms,
    10 x other + set 50/s burst 50 + other + alike + advance 90ms, note, other, set 50/s burst 50, other, alike,
    5 x advance 1100ms + other + set 50/s burst 50 + other + alike
a log through many sizes keeps what was spent | sliding-log 1/s; uncounted | try, keep 2/s, left 1, try, keep 3/s,
    keep 2/s, left 0, keep 64/s, left 62, try 62, wait 64, keep 65/s, pending 0, drop 0, reset 1s, keep 64/s, left 0,
    keep 1024/s, left 960, try 960, keep 1025/s, reset 1s, keep 1024/s, left 0, keep 16384/s, left 15360
# From outside: a quota whose token is no whole number of nanoseconds gave a fraction of one with each change, 5,999
# tokens in 24,000 changes.
a quota again and again mints nothing, in proportion | 700000000/s burst 1000; at 1s; uncounted | charge 1000000,
    8000 x quota 300000000/s burst 1000 + quota 999999999/s burst 1000 + quota 700000000/s burst 1000, in-use 1000000
a quota again and again mints nothing, kept | 700000000/s burst 1000; at 1s; uncounted | charge 1000000,
    8000 x keep 300000000/s burst 1000 + keep 999999999/s burst 1000 + keep 700000000/s burst 1000, in-use 1000000
and pays off no more than the rate beside passing nanoseconds | 700000000/s burst 10; at 1s; uncounted | charge 100000,
    12000 x advance 1ns + set 699999999/s burst 10 + advance 1ns + set 700000000/s burst 10, in-use 94000

# Without a limit.
without a limit any cost is admitted at any time | unlimited | 2 x try 0 + try 1 + try 1099511627776 + try max +
    try max + charge max + left max + in-use 0 + reset 0s + decision 3 18446744073709551615 0s + advance 1h
to lift the limit releases all waiters | 10/s | try, charge 1000, quota 10/s burst 5, 10 x wait 1 + wait 5,
    reserve 5, quota unlimited, waiting 0, 21 x granted 0 0s, quota 10/s burst 5, left 5
a limit after none has the whole burst, in proportion | unlimited | try 1125899906842624, quota 10/s burst 3, left 3,
    try 3, refund 0, no 1 100ms, refuse 4 too-much, charge 2, quota unlimited, settle 1 1, quota 10/s burst 3, try 3,
    advance 100ms, try, no 1 100ms
a limit after none has the whole burst, kept | unlimited | try 1125899906842624, keep 10/s burst 3, left 3, try 3,
    refund 0, no 1 100ms, refuse 4 too-much, charge 2, keep unlimited, settle 1 1, keep 10/s burst 3, try 3,
    advance 100ms, try, no 1 100ms
a settlement without a limit changes nothing | unlimited | 5 x try 10, settle 0 0, settle 0 7, settle 0 10,
    settle 0 11, settle 0 max, left max
a pause without a limit blocks until its end | unlimited | pause 50ms, no 1 50ms, left 0, wait 1, wait max, wait 3,
    advance 50ms-1ns, waiting 3, advance 1ns, 3 x granted 0 50ms, left max, reset 0s
a pause goes on while the limit is lifted and set | 10/s burst 5 | pause 50ms, wait, wait, quota unlimited, waiting 2,
    quota 10/s burst 5, advance 50ms, granted 0 50ms, due 0 100ms, no 1 100ms
a limiter without a limit can be closed | unlimited | close, refuse 1 closed
a local handle without a limit takes whole batches | unlimited; batch 8 | take 1099511627776, take 3, buffered 5,
    quota 10/s burst 4, return, left 4
";

/// Each promise of an algorithm where it is tight.
const ALGORITHMS: &str = "
an interval of 333,333,333 and a third of a nanosecond ends at its last whole one, and the thirds add up | gcra 3/s |
    advance 400ms, try, advance 333333332ns, no 1 1ns, advance 1ns, try, no 1 333333333ns, advance 333333333ns, try,
    advance 333333333ns, no 1 1ns, advance 1ns, try, advance 333333333ns, try
a token bucket is filled by batches and keeps the burst | token-bucket 10/s burst 25; at 100s | try 25, no 1 1s,
    advance 999ms, no 1 1ms, advance 1ms, try 10, no 1 1s, advance 1500ms, try 10, no 1 500ms, advance 100s,
    try 25, no 1 500ms
a token bucket that holds less than a batch loses the rest | token-bucket 10/s burst 4; at 100s |
    3 x advance 1s + try 4 + no 1 1s
a fixed window admits twice as many around its edge | fixed-window 10/s; at 100s | advance 999ms, try 10, no 1 1ms,
    advance 1ms, try 10, no 1 1s
a sliding window counts what is left of the window before | sliding-window 10/s; at 100s | advance 999ms, try 10,
    no 1 101ms, advance 1ms, no 1 100ms, advance 500ms, try 5, no 1 100ms, advance 500ms, try 5, no 1 200ms
a sliding window may admit nearly twice as many in a period | sliding-window 10/s; at 100s | advance 1s-1ns, try 10,
    no 1 100ms1ns, advance 1s-1ns, try 9, no 1 2ns
a sliding log gives each back after a period | sliding-log 10/s; at 100s | 5 x advance 100ms + try, advance 100ms,
    try 5, no 1 500ms, advance 500ms, try, no 1 100ms, 4 x advance 100ms + try + no 1 100ms, no 1 100ms,
    advance 100ms, try 5, no 1 500ms
parts of a period have no more than the count in any period | sub-interval/4 10/s; at 100s | advance 249ms, try 2,
    no 1 1ms, advance 1ms, try 2, no 1 250ms, 3 x advance 250ms + try 2 + no 1 250ms
";

/// The buffer of a local handle, and its end.
const LOCAL: &str = "
a handle takes a batch for so many calls | 100/s burst 50; batch 3 | take, buffered 2, left 47, take, take, buffered 0,
    left 47, take, buffered 2, left 44
a handle for one takes nothing ahead | 100/s burst 50; batch 1 | 2 x take + buffered 0, left 48
a larger batch than the burst takes the burst | 100/s burst 50; batch 99 | take, buffered 49, left 0, take 49,
    buffered 0, left 0
a batch that is not available is not taken, and not asked for by sixteen more | 100/s burst 50; batch 8 | try 43, take,
    buffered 0, left 6, advance 1s, 16 x take + buffered 0, left 34, take, buffered 7, left 26
what is missing comes with a batch | 100/s burst 50; batch 8 | take 5, buffered 3, left 42, take 4, buffered 7, left 34
more than a batch takes what is missing, and nothing takes nothing | 100/s burst 50; batch 8 | take 0, buffered 0,
    left 50, take 5, buffered 3, take 20, buffered 0, left 25, take, buffered 7, take 0, buffered 7
unused is given back as far as time has not paid it off | 100/s burst 50; batch 32 | take 2, 2 x return + buffered 0,
    left 48
and after 15 ms as the time of the used | 100/s burst 50; batch 32 | take 2, advance 15ms, return, left 49
and when all of it is paid off | 100/s burst 50; batch 32 | take 2, advance 100ms, return, left 50
and what was used of it is paid off first | 100/s burst 50; batch 32 | take 20, advance 100ms, return, left 40
and none is given back of what is used up | 100/s burst 50; batch 32 | take 31, advance 300ms, return, left 49
a batch that is used up gives nothing back | 100/s burst 50; batch 32 | take 32, return, left 18
what is given back is for those who wait | 100/s burst 50; batch 50 | take 20, wait 30, pending 0, return, granted 0 0s
what is buffered stays admitted under another quota, and is not given back | 100/s burst 50; batch 32 | take 2,
    keep 100/s burst 60, take 20, buffered 10, left 28, return, buffered 0, left 28, take, return, left 27
what is buffered goes while others wait, and no more | 100/s burst 50; batch 8 | take 6, try 12, wait 33, 2 x take,
    take-no 1 40ms, due 0 30ms, take-no 1 10ms, advance 10ms, take, buffered 0
a wait goes at once if there is a batch, and takes none of it before it is polled | 100/s burst 50; batch 32 |
    take-now, buffered 31, left 18, 31 x take-now, buffered 0, left 18, take-now, buffered 0, left 17
a wait in the queue asks for what is missing | 100/s burst 50; batch 8 | take, try 42, left 0, buffered 7,
    take-due 10 30ms, buffered 0, left 0
a wait that is given up leaves what is buffered | 100/s burst 50; batch 8 | take, try 42, take-drop 10 0ns, buffered 7,
    left 0, waiting 0
and gives back what it was granted | 100/s burst 50; batch 8 | take, try 42, take-drop 10 30ms, buffered 7, left 3,
    waiting 0
but not if it is leaked | 100/s burst 50; batch 8 | take, try 42, take-leak 10 30ms, buffered 7, left 0, waiting 0
a wait behind others goes after them and takes no batch | 100/s burst 50; batch 8 | take 6, try 12, wait 33, take 2,
    take-due 1 40ms, granted 0 30ms, buffered 0
";

/// Pauses: nothing is admitted before the end, and then one by one, in the order of the queue.
const PAUSES: &str = "
# One goes at the end. In this window everything else is spent; in the next it fades, or the next batch comes.
a pause is followed by one call, and the rest at the rate | gcra sliding-log 10/s burst 10; at 5s | pause 250ms,
    7 x wait, advance 3s, granted 0 5s250ms, granted 0 5s350ms, granted 0 5s450ms, granted 0 5s550ms,
    granted 0 5s650ms, granted 0 5s750ms, granted 0 5s850ms
a pause of a sliding window is followed by one call | sliding-window 10/s; at 5s | pause 250ms, 7 x wait, advance 3s,
    granted 0 5s250ms, granted 0 6s100ms, granted 0 6s200ms, granted 0 6s300ms, granted 0 6s400ms, granted 0 6s500ms,
    granted 0 6s600ms
a pause of a batch is followed by one call, and the next batch | token-bucket fixed-window 10/s burst 10; at 5s |
    pause 250ms, 7 x wait, advance 3s, granted 0 5s250ms, 6 x granted 0 6s
a pause of a part is followed by one call, and the next parts | sub-interval/4 10/s; at 5s | pause 250ms, 7 x wait,
    advance 3s, granted 0 5s250ms, 2 x granted 0 5s500ms, 2 x granted 0 5s750ms, 2 x granted 0 6s
a pause ends at the exact tick, and what was earned since is there | whole 7/s burst 7 | try, pause 3333ms1ns,
    no 1 3333ms1ns, paused 3333ms1ns, left 0, advance 3333ms, no 1 1ns, paused 1ns, left 0, advance 1ns, paused, try,
    no, advance 1min, try 7
a pause ends at the exact tick, in parts | sub-interval/4 7/s | try, pause 3333ms1ns, no 1 3333ms1ns,
    paused 3333ms1ns, left 0, advance 3333ms, no 1 1ns, paused 1ns, left 0, advance 1ns, paused, try, no,
    advance 1min, try
a pause of a log keeps what was forced | sliding-log 4/s; at 200s | try 3, advance 992ms, charge 1000, peek 1 250s,
    pause 95ms, peek 1 250s
# There are no ticks before the epoch, and a limit by the hour must not stop for an hour.
a pause of a log younger than its period spends nothing | sliding-log 10/h; at 1s | try, pause 59s, peek 1 59s,
    advance 59s-1ns, no, advance 1ns, try 9, peek 1 3541s
a pause holds waiters in their order | 100/s burst 50 | try 50, wait, wait 3, wait, pause 1s, wait, reserve 1 1s60ms,
    advance 1s-1ns, pending 0, pending 1, pending 2, pending 3, delay 4 60ms1ns, advance 1ns, granted 0 1s,
    advance 60ms, granted 0 1s30ms, granted 0 1s40ms, granted 0 1s50ms, granted 0 1s60ms
a pause beyond a timeout refuses at once | 10/s | pause 1s, late 1 1s-1ns 1s, waiting 0, enter 0
a pause refuses those for whom there is no place | 10/s; waiters 0 | pause 1s, full 1 1s
a pause of no time is none, and of two the longer one counts | 10/s burst 3 | pause 0s, advance 1s, pause 0s, paused,
    left 3, pause 1s, pause 999ms, paused 1s, pause 1005ms, no 1 1005ms, reset 1205ms, in-use 3, left 0
a pause for ever ends by a resume | whole 10/s burst 10; at 5s | pause never, wait, advance 7d, pending 0, resume,
    granted 0 604805s, left 0
what is forced in a pause for ever is owed after it | sliding-log 10/s; at 5s | pause never, charge 5, charge 5, resume,
    in-use 19
what a server has counted in a pause is owed after it | 10/s burst 10; at 10s | pause 1min, charge, answer 80 1min,
    resume, in-use 20
a resume acts as if the pause had been asked to end now | 10/s burst 5 | try 5, pause 10s, charge 2, advance 1s,
    resume, peek 1 200ms, paused, advance 9s, left 5
and keeps what is owed beyond that | 10/s burst 5 | try 5, pause 10s, resume, peek 1 100ms
a resume without a pause does nothing | 10/s burst 5 | try 3, resume, left 2, refund 0, left 5
a pause for ever never ends, but by the close | 10/s | pause never, wait, advance 7300d, pending 0, no 1 never, close,
    refused 0 closed
what was charged before a pause is not given back, and what was forced meanwhile is | 10/s burst 5 | try 5,
    pause 100ms, refund 0, peek 1 100ms, charge 2, peek 1 300ms, refund 0, peek 1 100ms, advance 100ms, try,
    peek 1 100ms
what was forced in a pause is given back by each algorithm | all 10/s burst 10; at 1min | pause 1min, charge 30,
    later 1min, refund 0, peek 1 1min
a pause holds an overdraft | 10/s burst 2; overdraft | pause 1s, no 5 1s100ms

# Another quota during a pause keeps its end. What is forced is scaled in proportion to the bursts, and rounded up.
in proportion: from nine to one | 10/s burst 5 | pause 1s, wait, quota 100/s burst 9, peek 1 1s10ms, advance 1s,
    granted 0 1s, pause 1s, charge 3, quota 10/s, peek 1 1s33333334ns
in proportion: from one to one | 10/s burst 5 | pause 1s, wait, quota 1/s, peek 1 2s, advance 1s, granted 0 1s,
    pause 1s, charge 3, quota 10/s, peek 1 1s300ms
keep: from nine to one | 10/s burst 5 | pause 1s, wait, keep 100/s burst 9, peek 1 1s10ms, advance 1s, granted 0 1s,
    pause 1s, charge 3, keep 10/s, peek 1 1s300ms
keep: from one to one | 10/s burst 5 | pause 1s, wait, keep 1/s, peek 1 2s, advance 1s, granted 0 1s, pause 1s,
    charge 3, keep 10/s, peek 1 1s300ms
in proportion: the same is owed without a pause | 10/s burst 10 | charge 1010, pause 0s, quota 1/s, peek 1 101s
in proportion: and with one | 10/s burst 10 | charge 1010, pause 1ns, quota 1/s, advance 1ns, peek 1 101s-1ns
keep: all of it is owed without a pause | 10/s burst 10 | charge 1010, pause 0s, keep 1/s, peek 1 1010s
keep: and with one | 10/s burst 10 | charge 1010, pause 1ns, keep 1/s, advance 1ns, peek 1 1010s-1ns
# Calls that were admitted count for a period. The eleventh is free only if what was spent is kept as it is.
in proportion: a log keeps its charges | sliding-log 10/s | advance 10s, try 10, advance 10ms, pause 50ms, quota 11/s,
    advance 50ms, no 1 940ms
in proportion: a log younger than its period does | sliding-log 10/h | advance 10s, try 10, advance 10ms, pause 50ms,
    quota 11/h, advance 50ms, no 1 1h-60ms
keep: a log keeps its charges | sliding-log 10/s | advance 10s, try 10, advance 10ms, pause 50ms, keep 11/s,
    advance 50ms, try, no 1 940ms
keep: a log younger than its period does | sliding-log 10/h | advance 10s, try 10, advance 10ms, pause 50ms, keep 11/h,
    advance 50ms, try, no 1 1h-60ms
";

/// Holds, until the usage is known.
const HOLDS: &str = "
a hold is not paid off by time | word 1000/s burst 1000 | try 600, hold 0, advance 1h, in-use 600, left 400, try
    400, no
but in a log it ages like a charge | sliding-log 1000/s | try 600, hold 0, advance 1s-1ns, left 400, advance 1ns,
    left 1000, try 1000, used 0 0, left 0
and fades like one in a window | sliding-window 1000/s | advance 900ms, try 600, hold 0, advance 600ms, left 700,
    used 0 200, left 900
a settlement for nothing gives all back, however late | whole 1000/s burst 1000 | try 1000, hold 0, advance 1min,
    used 0 0, left 1000, try 1000
# The trial that began this: of 500 in excess, a settlement gave back 300 after 0.3 s, and none after 0.7 s.
the excess is given back as if it had never been charged | 1000/s burst 1000 | try 1000, hold 0, advance 300ms,
    no 1 unknown, used 0 500, left 800
and after 0.7 s | 1000/s burst 1000 | try 1000, hold 0, advance 700ms, no 1 unknown, used 0 500, left 1000
and after 2 s | 1000/s burst 1000 | try 1000, hold 0, advance 2s, no 1 unknown, used 0 500, left 1000
what was used of a log is paid off a period after the beginning | sliding-log 1000/s | try 1000, hold 0, advance 400ms,
    used 0 700, left 300, advance 600ms-1ns, left 300, advance 1ns, left 1000
what was used belongs to the window in which it began | fixed-window 1000/s | advance 900ms, try 1000, hold 0,
    advance 600ms, used 0 700, left 1000
and fades with it | sliding-window 1000/s | advance 900ms, try 1000, hold 0, advance 600ms, used 0 700, left 650
what was used costs only what idle time did not pay | 1000/s burst 1000 | try 500, hold 0, advance 200ms, try 400,
    used 0 300, left 500
a settlement for more than is held charges it all | whole 1000/s burst 1000 | try 100, hold 0, used 0 1500, left 0,
    in-use 1500
a hold that is dropped was used | whole 1000/s burst 1000 | try 600, hold 0, drop-hold 0, left 400
and since its beginning | 1000/s burst 1000 | try 600, hold 0, advance 500ms, drop-hold 0, left 900
a waiter that does not fit beside a hold is admitted by the settlement | word 1000/s burst 1000 | try 900, hold 0,
    wait 200, wait 50, advance 1h, pending 0, pending 1, peek 1 unknown, advance 5ms, used 0 800, granted 0 1h5ms,
    granted 0 1h5ms
a waiter that fits beside a hold is due when the charges are paid off | 1000/s burst 1000 | try 500, hold 0, try 500,
    no 200 200ms, wait 200, due 0 200ms
one settlement admits all whom it makes due | gcra sliding-log fixed-window 1000/s burst 1000; uncounted | try 1000, hold 0,
    500 x wait 2, used 0 0, 500 x granted 0 0s
a wait is not refused if a settlement can come before its timeout | 1000/s burst 1000 | try 1000, hold 0, within 100 1s,
    advance 500ms, pending 0, used 0 1000, granted 0, charge 5000, late 1 1s 4601ms, charge 0, hold 2,
    late 1 1s 4601ms
under a new quota what was used is charged as of the change | 1000/s burst 1000 | try 600, hold 0, advance 500ms,
    quota 1000/s burst 800, left 200, advance 100ms, used 0 600, left 300
a pause of a log leaves nothing of a hold to give back | sliding-log 1000/s | advance 10s, try 600, hold 0, pause 10s,
    advance 10s, left 1, used 0 0, left 1
a hold of a log that begins and ends in a pause leaves the pause | sliding-log 10/s | advance 2s, pause 5s, charge 1,
    hold 0, left 0, used 0 0, left 0, no 10 5900ms, advance 5s, left 1
# Of the pause and the usage before it, what owes more.
what was used before a pause counts at its beginning | 10/s burst 100 | try 20, hold 0, advance 1s, pause 5s, advance
    2s, used 0 600, advance 3s, in-use 540
also after the pause | 10/s burst 100 | try 20, hold 0, advance 1s, pause 5s, advance 10s, in-use 69, used 0 600,
    in-use 490
and holds that a pause outlasts delay nobody | 10/s burst 20 | 20 x try + hold 0, pause 5s, advance 1s, 20 x used 0 1,
    no 20 5900ms, advance 4s, try, no 1 100ms
what is used of a hold that begins in a pause comes after it | 10/s burst 100 | pause 5s, charge 20, hold 0, used 0 30,
    advance 5s, in-use 129
a hold ends after the longest time | word 1000/s burst 1000; max-hold 1min | try 600, hold 0, advance 1s, wait 1000,
    advance 59s, granted 0 1min, left 0, used 0 0, left 0
also one that is forgotten | word 1000/s burst 1000; max-hold 1min | try 600, hold 0, forget-hold 0, wait 1000,
    advance 1min-1ns, pending 0, advance 1ns, granted 0 1min
and what it used beyond its cost is charged when it is settled | 1000/s burst 1000; max-hold 1min | try 600, hold 0,
    advance 2min, left 1000, used 0 700, left 900
a hold above a lowered burst admits nothing until it is settled | 1000/s burst 1000 | try 600, hold 0,
    quota 1000/s burst 100, advance 1min, no 1 unknown, used 0 0, left 100
a hold of an overdraft delays a call until it is settled | 1000/s burst 1000; overdraft | try 5000, hold 0, wait 3000,
    advance 1min, pending 0, used 0 5000, granted 0
the time behind a waiter that needs a settlement is unknown | 10/s burst 10 | try, hold 0, try 9, wait,
    wait 10, no 1 unknown, peek 1 unknown, advance 1h, granted 0, pending 0
a window whose end a server moves in a pause is spent at the end of the pause | fixed-window 10/min; at 5min |
    pause 10s, charge 3, answer 3 30s, resume, in-use 12, advance 30s, left 8
everything waits beside a hold | 100/min burst 100; overdraft | try 10, hold 0, advance 1min, wait max, pending 0
a charge that is paid off in part is held in full | 1000/s burst 1000 | try 600, advance 100ms, hold 0, left 400,
    used 0 0, left 1000
a charge of another limiter is held beside its own | 1000/s burst 1000 | other, try 200, other, try 100, hold 0,
    left 700, used 0 0, left 900
a hold without a limit holds nobody up | unlimited | 3 x try 9223372036854775807, 3 x hold 0, in-use 0, advance 1ms,
    3 x used 0 max, try 1000
holds of the largest costs add up and come back | word 1000/s burst 1000 | 5 x charge max + hold 0, no 1 unknown,
    5 x used 0 0, advance 2s, left 1000, charge, hold 0, used 0 max, no 1 never
a hold may be settled after the close | 1000/s burst 1000 | try 600, hold 0, close, used 0 100, refuse 1 closed
a hold outlives its limiter | 1000/s burst 1000 | try 600, hold 0
a refund beside a hold is in full | whole 1000/s burst 1000 | try 100, try 200, try 300, hold 1, refund 0, left 500,
    refund 0, left 800, used 0 50, left 950
retry_after behind a hold is unknown until it is settled | 1000/s burst 1000; waiters 1 | try 900, hold 0, no 200 unknown,
    wait 200, no 1 unknown, full 1 unknown, used 0 900, no 1 101ms, full 1 100ms, due 0 100ms
a decision counts what is held | 100/min burst 100 | try 60, hold 0, try 10, left 30, decision 0 30 never, reset never
";

/// Following a server's count. `benches/` simulates it with servers, other clients and latencies.
const FOLLOW: &str = "
a server that has counted more charges the difference | gcra fixed-window sliding-window sliding-log 100/min burst 100 |
    try, follow 0 60 36s, left 40
a server that has counted less does nothing | gcra fixed-window sliding-window sliding-log 100/min burst 100 |
    try 30, follow 0 0 never, left 70
# The server had not counted what was charged since, and others are not charged twice.
what was under way when the answer was made is not in it | gcra sliding-window sliding-log 100/min burst 100 | try,
    answer 1 1min, 10 x try, follow 1 21 1min, left 70, follow 5 25 1min, left 70, follow 10 32 1min, left 68
# Calls within a thousandth of a window may come to the server in another order.
and calls of a window that are far enough apart are told apart | fixed-window 100/min | try, answer 1 1min,
    10 x advance 61ms + try, follow 1 21 1min, left 70, follow 5 25 1min, left 70, follow 10 32 1min, left 68
an answer older than one before does nothing | gcra fixed-window sliding-window sliding-log 100/min burst 100 | try,
    answer 1 1min, 3 x advance 61ms + try, follow 2 10 1min, left 89, follow 1 97 1min, follow 2 97 1min, left 89,
    follow 3 97 1min, left 3
an answer to a call of another limiter does nothing | gcra fixed-window sliding-window sliding-log 100/min burst 100 |
    other, try, other, follow 0 100 1min, left 100
nor does one to a call under another quota, or before a pause | gcra fixed-window sliding-window sliding-log
    100/min burst 100 | try, set 50/min burst 50, note, follow 0 100 1min, same, try, pause 200s, advance 300s, note,
    answer 100 1min, same
nor one without a limit | unlimited | try, answer 100 1min, try 1000
others may take what is refilled of a bucket | 100/min burst 100 | try 40, answer 40 24s, advance 40s, try 10,
    advance 20s, answer 50 1min, left 50
but what leaves the own log leaves that of the server | sliding-log 100/min | try 40, answer 40 24s, advance 40s,
    try 10, advance 20s, answer 50 1min, left 90
a fixed window takes over the first end, and only delays it then | fixed-window 100/min | advance 10s, try 100,
    answer 100 20s, no 1 20s, advance 20s-1ns, no 1 1ns, advance 1ns, try, left 99, answer 1 55s, try 99, no 1 1min,
    advance 1min, try, answer 1 62s, try 98, advance 1s, answer 99 1min, try, no 1 59s
# As when the clocks of the two drift. A server that always says that its window ends soon gains nothing.
a fixed window ends a hundredth earlier once a window | fixed-window 100/min | charge, answer 1 1min,
    3 x advance 1min + left 100 + charge 100 + answer 100 59s + no 1 1min + charge 0 + answer 100 59500ms + no 1 1min,
    advance 1min, charge 100, answer 100 59500ms, no 1 59500ms, charge, answer 100 59s, no 1 59500ms
of two answers the one that knows of more others counts, and each that knows of a later end | fixed-window 100/min |
    try, answer 1 59s, 3 x try, follow 3 11 59s, follow 1 12 1min, left 89, try, answer 5 59s, left 88, try 88,
    no 1 1min
the use by others grows to at most twice what was told | fixed-window 100/min | advance 1s, try, answer 11 59s,
    left 89, advance 500ms, left 84, advance 20s, left 79
an answer of the window before delays the end | fixed-window 100/min | try, answer 1 1min, advance 1min, try,
    answer 100 100ms, left 99, try 99, no 1 1min100ms
an answer to a window that has ended does nothing | fixed-window 100/min | try, answer 1 1min, advance 121s, try,
    advance 30s, answer 100 1s, left 99
waiters go when the end of a window is moved forward | fixed-window 100/min | try 100, wait, answer 100 10s,
    due 0 10s
a newer answer that delays the end keeps what is of others | fixed-window 100/min | try, answer 60 59s, try,
    answer 10 61s, advance 59s-1ms, note, advance 2ms, same
and so does an older one | fixed-window 100/min | try, answer 1 59s, 3 x try, follow 3 50 59s, follow 1 12 61s,
    advance 59s-1ms, note, advance 2ms, same
others in a window go on as they have since it began | fixed-window 100/min | try, answer 1 1min, advance 30s, try,
    advance 10s, answer 32 30s, left 58, advance 20s, left 100
others in a log are known for a period, also to those that wait | sliding-log 100/min | try, answer 100 1min,
    no 1 1min, late 1 1s 1min, wait 100, due 0 1min
others count in the delay of a reservation | sliding-log 100/min | try, answer 100 1min, reserve 1 1min, advance 1s,
    pending 0, advance 58s, pending 0
more than the limit beside others is admitted when it is due | fixed-window sliding-log sliding-window 100/min;
    overdraft | try, answer 60 1min, wait 150, advance 1h, granted 0
absurd answers are bounded | gcra fixed-window sliding-window sliding-log 100/min burst 100; uncounted | try, answer 100 never,
    charge max, answer 100 0s, charge max, answer 0 never
for no longer than it takes to pay off what was charged and twice the limit | gcra fixed-window sliding-window
    sliding-log 100/min burst 100; uncounted | 10000 x charge + answer max never, advance 103min, try
a token bucket ignores the end | token-bucket 100/min burst 100 | advance 10s, try 100, no 1 50s, answer 100 20s,
    no 1 50s
another quota keeps what others use | sliding-log 100/min | try, answer 60 1min, set 99/min, left 39
a refund of a charge before the first answer leaves what was charged since | 100/min burst 100 | try 50, try,
    answer 51 1min, try, 5 x try, refund 0, follow 1 60 1min, left 35
a hold is one of the charges | 100/min burst 100 | try, answer 1 1min, try 30, hold 1, follow-hold 0 50 1min, left 50,
    used 0 10, left 70
what is settled beyond a hold is charged since | 100/min burst 100 | try, answer 1 1min, try, try 10, hold 2,
    used 0 35, follow 1 60 1min, left 5
and what is settled for less is not | 100/min burst 100 | try, answer 1 1min, try, try 50, hold 2, used 0 1,
    follow 1 2 1min, left 97
";

#[test]
fn queue_in_each_row_does_what_the_row_says() {
    check(QUEUE, 29);
}

#[test]
fn charges_in_each_row_do_what_the_row_says() {
    check(CHARGES, 7);
}

#[test]
fn set_quota_in_each_row_does_what_the_row_says() {
    check(QUOTAS, 35);
}

#[test]
fn algorithms_in_each_row_keep_their_promise() {
    check(ALGORITHMS, 8);
}

#[test]
fn local_in_each_row_does_what_the_row_says() {
    check(LOCAL, 15);
}

#[test]
fn pause_for_in_each_row_does_what_the_row_says() {
    check(PAUSES, 34);
}

#[test]
fn hold_in_each_row_does_what_the_row_says() {
    check(HOLDS, 40);
}

#[test]
fn settle_for_far_more_than_the_limit_is_owed_like_a_charge_at_the_beginning() {
    for after in [
        0, 500, 999, 1000, 1500, 1999, 2000, 2500, 3000, 4900, 5000, 7000,
    ] {
        let row = format!(
            "after {after} ms | word 1000/s burst 1000 | try 500, hold 0, other, charge 5000, other, \
             advance {after}ms, used 0 5000, alike"
        );
        check(&row, 0);
    }
}

#[test]
fn follow_in_each_row_does_what_the_row_says() {
    check(FOLLOW, 26);
}
