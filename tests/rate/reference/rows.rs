//! Rows of calls to a limiter and the reference. `ROW=words cargo test --test rate reference` runs
//! only the rows whose names contain these words.

use super::world::World;
use crate::support::scenarios::rows;

/// The calls are the [random](super::draw) ones. After `=` stands what a call shows: `left`, `in-use` and
/// `buffered` show a number, a try or a poll its outcome. Times end in a unit.
const ROWS: &str = "
a queue is served in order, each waiter at its due tick | gcra 100/s burst 50 | try 50, wait 3, wait 1, advance 30ms,
    poll 0 = charged at 30ms, advance 10ms, poll 0 = charged at 40ms
a waiter behind a late timer is charged as of its due tick | gcra 10/s; makes-up 5 | try 1, slow 1 250ms, wait 1,
    advance 100ms, poll 1 = charged at 200ms
a waiter behind a late timer is charged at its grant if nothing is made up for | gcra 10/s; delay | try 1,
    slow 1 250ms, wait 1, advance 100ms, poll 1 = charged at 350ms
a forced charge in a pause comes on top of the spent burst | gcra 10/s burst 5 | pause 1s, charge 3, advance 1s,
    in-use = 7
a hold is charged as of its beginning | gcra 1000/s burst 1000 | try 1000, hold 0, advance 700ms, used 0 500,
    left = 1000
the usage beyond a hold is charged as well | gcra 10/s burst 10 | try 2, hold 0, advance 1s, used 0 30, in-use = 20
a hold of a log ages like a charge | sliding-log 10/s | try 10, hold 0, advance 1s, left = 10, used 0 10, left = 10
usage beyond a hold of a log is charged at the settlement | sliding-log 10/s | try 5, try 5, hold 1, advance 1s,
    used 0 25, in-use = 20
a hold of a log with room for a part of its cost gives back no more than that | sliding-log 3/10ns;
    at 288230376151711737ns | try 2, pause 3ns, hold 0, used 0 1, in-use = 3
usage beyond a hold of a window is charged at the settlement | sliding-window 10/s | try 5, hold 0, advance 2s,
    used 0 25, in-use = 20
a hold of a log beside a forced charge stays where it is | sliding-log 10/s | try 5, hold 0, charge 15, advance 500ms,
    used 0 5, in-use = 20
the unused part of a hold of a log comes back while it counts | sliding-log 10/s | try 5, hold 0, advance 999ms,
    used 0 2, in-use = 2, try 5, hold 0, advance 1s, used 0 0, in-use = 0
holds are settled in the order of their beginnings | gcra 1000/s burst 1000 | try 100, hold 0, advance 100ms, try 100,
    hold 0, advance 100ms, used 0 100, in-use = 100, used 0 100, in-use = 0
the usage of a hold of nothing is charged as of its beginning | gcra 1/ns burst 2 | try 0, hold 0, advance 1ns, try 1,
    used 0 3, in-use = 3
a hold counts as of the last change of the quota | gcra 1/ns burst 3 | try 1, hold 0, keep 1/ns burst 2, advance 1ns,
    used 0 2, in-use = 1
idle time before a hold pays off nothing of it | gcra 10/s burst 10 | advance 1s, try 0, hold 0, try 1, used 0 3, in-use = 4
idle time before a later hold pays off nothing of that one | gcra 10/s burst 10 | try 1, hold 0, advance 500ms, try 1,
    hold 0, used 1 3, in-use = 4
idle time since a later hold also pays off an earlier one | gcra 10/s burst 10 | try 1, hold 0, try 1, hold 0,
    advance 500ms, try 1, used 1 0, used 0 3, in-use = 1
idle time pays off one of two holds | gcra 10/s burst 10 | try 1, hold 0, try 1, hold 0, advance 300ms, try 1, used 1 3,
    used 0 3, in-use = 4
idle time before a change of the quota pays off no hold | gcra 10/s burst 10 | try 1, hold 0, advance 500ms, try 1,
    keep 20/s burst 20, used 0 3, in-use = 4
a hold of a charge from before a change of the quota charges a log again | sliding-log 10/s | try 4, keep 20/s, hold 0,
    in-use = 8
the usage of a hold from before a pause is part of the spent burst | gcra 10/s burst 100 | advance 10s, try 20,
    hold 0, advance 1s, pause 5s, advance 2s, used 0 20, advance 3s, in-use = 99
the larger of that usage and the spent burst is owed | gcra 10/s burst 100 | try 20, hold 0, advance 1s, pause 5s,
    advance 2s, used 0 600, advance 3s, in-use = 540
the usage of a hold that began in a pause comes on top | gcra 10/s burst 5 | pause 1s, charge 2, hold 0, used 0 3,
    advance 1s, in-use = 7
that usage also comes on top after the pause | gcra 10/s burst 5 | pause 1s, charge 2, hold 0, advance 1s, used 0 3,
    in-use = 7
a longer pause does not bring back what was refunded | gcra 10/s burst 5 | pause 1s, charge 2, refund 0, pause 2s,
    advance 2s, in-use = 4
a pause keeps the charges without a slot of a log | sliding-log 10/s | try 10, keep 4/s, pause 100ms, in-use = 4,
    advance 100ms, in-use = 10
a hold of a log that begins and ends in a pause leaves the pause | sliding-log 3/3ns | pause 3ns, charge 2, hold 0,
    used 0 1, advance 3ns, in-use = 3
a hold of a window that begins and ends in a pause leaves the pause | sliding-window 3/3ns | pause 3ns, charge 2,
    hold 0, used 0 1, advance 3ns, in-use = 3, advance 3ns, in-use = 3
a refund in a pause leaves what was forced in it | sliding-log 2/5ns | pause 5ns, charge 3, charge 2, refund 0,
    advance 5ns, in-use = 3
a change in a pause spends the new burst, and no more | fixed-window 1/2ns | try 1, pause 1ns, keep 100/s,
    advance 1ns, in-use = 99
a change in a pause carries over what the pause does not cover | gcra 1/2ns burst 5 | try 3, charge 5, pause 19ns,
    scale 5/75ns burst 4, advance 19ns, in-use = 6
a spent number above a lower burst stays owed | gcra 1/s burst 6 | try 3, keep 1/s, in-use = 3, keep 1/s burst 6,
    in-use = 3
a spent number above a lower burst stays owed by steps | fixed-window 5/9s | try 3, keep 1/s, in-use = 3
a spent number above a lower burst stays owed by a window | sliding-window 5/9s | try 3, keep 1/s, in-use = 3
a change refuses whoever can no longer be admitted | gcra 1/s burst 5 | try 5, wait 1, wait 4, wait 2,
    scale 1/s burst 3, poll 1 = exceeds 3, advance 1s, poll 0 = charged at 1s
usage in a window counts there although a server ends the window | fixed-window 5/6ns | try 1, try 1, hold 1,
    advance 6ns, follow 0 0 0ns, used 0 1, in-use = 0
a wait that will not fit its timeout is refused, and another ends | gcra 10/s | try 1, within 1 99ms = late 100ms,
    within 1 100ms, wait 1, charge 1, advance 100ms, poll 0 = timed out, advance 100ms, poll 0 = charged at 200ms
a waiter that is due as a hold ends is charged at that tick | token-bucket 1/4ns burst 5; max-hold 19ns | advance 1ns,
    try 3, hold 0, try 1, advance 7ns, pause 1ns, advance 3ns, wait 1, advance 9ns, poll 0 = charged at 20ns
a waiter that was due before a hold ended is charged at its own tick | gcra 10/s burst 2; makes-up 5; max-hold 290ms |
    try 1, hold 0, try 1, slow 1 250ms, wait 1, advance 100ms, poll 1 = charged at 200ms
a waiter that was due before a settlement begins at the settlement | gcra 4/17ns | try 1, wait 1, hold 0, advance 6ns,
    used 0 1, advance 4ns, in-use = 1, advance 1ns, in-use = 0
";

#[test]
fn rows_of_calls_do_what_the_reference_says() {
    let rows = rows(ROWS);
    let failed: Vec<String> = rows
        .iter()
        .filter_map(|row| World::follow(row).err())
        .collect();
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
