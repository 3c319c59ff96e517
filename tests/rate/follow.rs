//! Following the count of a server: by examples, and at random beside the rule that the docs give. How it
//! goes with servers, other clients and latencies, is simulated in `benches/`.

use std::time::Duration;

use proptest::prelude::*;
use tollgate::{Algorithm, Charge, ManualClock, Quota, RateLimiter};

use crate::scenarios::check;
use crate::setup::{limiter, ms, secs};
use crate::support::cases::cases;

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
absurd answers are bounded | gcra fixed-window sliding-window sliding-log 100/min burst 100 | try, answer 100 never,
    charge max, answer 100 0s, charge max, answer 0 never
for no longer than it takes to pay off what was charged and twice the limit | gcra fixed-window sliding-window
    sliding-log 100/min burst 100 | 10000 x charge + answer max never, advance 103min, try
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

/// One each 600 ms, and up to a hundred at once.
const HUNDRED: Quota = Quota::per_minute(100).burst(100);

/// In nanoseconds.
const MINUTE: u64 = 60_000_000_000;

fn of(algorithm: Algorithm) -> (ManualClock, RateLimiter) {
    let (clock, limiter) = limiter(HUNDRED);
    (clock, limiter.algorithm(algorithm))
}

fn available(limiter: &RateLimiter) -> u64 {
    limiter.snapshot().available
}

/// Of the hundred of a server, so many are left.
fn follow(limiter: &RateLimiter, charge: &Charge, left: u64, reset_after: Duration) {
    limiter.follow(charge, 100_u64.saturating_sub(left), reset_after);
}

#[test]
fn follow_in_each_row_does_what_the_row_says() {
    check(FOLLOW, 0);
}

#[derive(Clone, Debug)]
enum Step {
    Advance(u64),
    Try(u64),
    /// Which one of the charges is answered, and what is left.
    Answer(prop::sample::Index, u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let index = any::<prop::sample::Index>();
    let step = prop_oneof![
        2 => (0..5_000_u64).prop_map(Step::Advance),
        4 => (1..=20_u64).prop_map(Step::Try),
        2 => (index, 0..=100_u64).prop_map(|(which, left)| Step::Answer(which, left)),
    ];
    prop::collection::vec(step, 1..80)
}

/// What was charged, and when.
#[derive(Default)]
struct Sent {
    charges: Vec<(u64, Charge)>,
    /// The newest that was answered, and how much is of others since.
    answered: Option<usize>,
    of_others: (u64, u64),
}

impl Sent {
    /// How much of the charges from `first` on, until `last`, counts in a log at a tick.
    fn counts(&self, range: std::ops::Range<usize>, now: u64) -> u64 {
        let counts = |charge: &&(u64, Charge)| charge.1.at().as_nanos() + MINUTE > now;
        let charges = self.charges[range].iter().filter(counts);
        charges.map(|(cost, _)| cost).sum()
    }

    /// What a log has available at a tick.
    fn available(&self, now: u64) -> u64 {
        let (others, until) = self.of_others;
        let others = if now < until { others } else { 0 };
        100_u64.saturating_sub(self.counts(0..self.charges.len(), now) + others)
    }

    /// An answer is read, unless a later charge was answered.
    fn answer(&mut self, which: usize, left: u64) {
        if self.answered.is_none_or(|newest| which > newest) {
            self.answered = Some(which);
            let at = self.charges[which].1.at().as_nanos();
            let others = (100 - left).saturating_sub(self.counts(0..which + 1, at));
            self.of_others = (others, at + MINUTE);
        }
    }
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn follow_of_a_bucket_counts_at_least_what_the_server_has_counted_and_what_came_since(
        steps in steps(),
    ) {
        let (clock, limiter) = of(Algorithm::Gcra);
        follow(&limiter, &limiter.try_acquire().unwrap(), 100, secs(60));
        let (mut sent, mut charged, mut answered) = (Vec::new(), 0, None);
        for step in steps {
            match step {
                Step::Advance(millis) => clock.advance(ms(millis)),
                Step::Try(cost) => {
                    if let Ok(charge) = limiter.try_acquire_many(cost) {
                        charged += cost;
                        sent.push((charged, charge));
                    }
                }
                Step::Answer(_, _) if sent.is_empty() => {}
                Step::Answer(which, left) => {
                    let (until, charge) = &sent[which.index(sent.len())];
                    let before = limiter.snapshot().in_use;
                    follow(&limiter, charge, left, secs(60));
                    let least = match answered {
                        Some(newest) if *until <= newest => 0,
                        _ => 100 - left + charged - until,
                    };
                    answered = answered.max(Some(*until));
                    prop_assert_eq!(limiter.snapshot().in_use, before.max(least));
                }
            }
        }
    }

    #[test]
    fn follow_of_a_log_counts_what_is_of_others_beside_its_own(steps in steps()) {
        let (clock, limiter) = of(Algorithm::SlidingLog);
        let mut sent = Sent::default();
        sent.charges.push((1, limiter.try_acquire().unwrap()));
        follow(&limiter, &sent.charges[0].1, 99, secs(60));
        sent.answer(0, 99);
        for step in steps {
            let now = clock.now().as_nanos();
            let before = available(&limiter);
            prop_assert_eq!(before, sent.available(now));
            match step {
                Step::Advance(millis) => clock.advance(ms(millis)),
                Step::Try(cost) => {
                    let charge = limiter.try_acquire_many(cost);
                    prop_assert_eq!(charge.is_ok(), cost <= before);
                    sent.charges.extend(charge.ok().map(|charge| (cost, charge)));
                }
                Step::Answer(which, left) => {
                    let which = which.index(sent.charges.len());
                    follow(&limiter, &sent.charges[which].1, left, secs(60));
                    sent.answer(which, left);
                }
            }
        }
    }
}
