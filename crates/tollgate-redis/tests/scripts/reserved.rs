//! Tests reservations that are given back, and charges that are refunded, while other reservations are to come: what
//! is used stays within the limit, by the microseconds at which it is used.

use proptest::prelude::*;

use super::engine::{Engine, Kind, Told};
use crate::support::cases;

const BEGIN: u64 = 1_700_000_000_000_000;

/// A turn that was taken at once, or that was reserved.
#[derive(Clone, Copy, Debug)]
struct Turn {
    n: u64,
    at: u64,
    /// The arguments of its refund.
    ticket: [u64; 4],
    is_refunded: bool,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Takes this number at once, if there are so many.
    Take(u64),
    Reserve(u64),
    /// Asks for the turns of a queue with these costs and times.
    Turns([u64; 3], u64, [u64; 2]),
    /// Gives a turn back that is to come.
    Leave(prop::sample::Index),
    /// Refunds a turn that may have been used.
    Refund(prop::sample::Index),
    /// Gives back the last turns in one call.
    Goodbye(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => (1..4_u64).prop_map(Step::Take),
        4 => (1..4_u64).prop_map(Step::Reserve),
        3 => ([1..4_u64, 1..4, 1..4], 0..6_u64, [0..3_000_u64, 0..9_000])
            .prop_map(|(costs, room, within)| Step::Turns(costs, room, within)),
        3 => any::<prop::sample::Index>().prop_map(Step::Leave),
        1 => any::<prop::sample::Index>().prop_map(Step::Refund),
        1 => (1..5_usize).prop_map(Step::Goodbye),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let kinds = prop::sample::select(vec![
        (Kind::Debt, false),
        (Kind::Debt, true),
        (Kind::Window, true),
        (Kind::Log, true),
    ]);
    (kinds, 1..5_u64, 1..5_u64).prop_map(|((kind, step), count, burst)| {
        let burst = match kind {
            Kind::Debt => burst,
            _ => count,
        };
        Told {
            burst,
            ..of(kind, step, count, 1_000)
        }
    })
}

/// Returns the most that may be used from one microsecond to another one, both included.
fn most(told: Told, from: u64, to: u64) -> u64 {
    let index = |at: u64| at / told.period;
    match told.kind {
        // The wait is rounded up to a whole microsecond.
        Kind::Debt if !told.step => told.burst + (to - from + 1) * told.count / told.period,
        Kind::Debt => told.burst + (index(to) - index(from)) * told.count,
        Kind::Window if index(from) == index(to) => told.count,
        Kind::Log if to - from < told.period => told.count,
        Kind::Window | Kind::Log => u64::MAX,
    }
}

fn is_within(told: Told, turns: &[Turn]) -> bool {
    let mut used: Vec<_> = turns.iter().filter(|turn| !turn.is_refunded).collect();
    used.sort_by_key(|turn| turn.at);
    (0..used.len()).all(|first| {
        let mut sum = 0;
        used[first..].iter().all(|turn| {
            sum += turn.n;
            sum <= most(told, used[first].at, turn.at)
        })
    })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn give_of_reservations_and_of_used_charges_never_exceeds_the_limit(
        told in told(),
        steps in prop::collection::vec((1..900_u64, step()), 1..40),
    ) {
        let mut now = BEGIN;
        let mut engine = Engine::new(now);
        let mut turns = Vec::<Turn>::new();
        for (pass, step) in steps {
            now += if matches!(step, Step::Leave(_)) { 1 } else { pass };
            engine.set(now);
            let mut made = |what, n: u64, rest: &[u64]| {
                let n = n.min(told.burst);
                let answer = engine.call(told, what, &[&[n], rest].concat());
                let [position, made] = answer.ticket;
                let at = now + answer.wait;
                let ticket = [n, position, made, at];
                (answer.done > 0).then_some(Turn { n, at, ticket, is_refunded: false })
            };
            match step {
                Step::Take(n) => turns.extend(made("take", n, &[])),
                Step::Reserve(n) => turns.extend(made("reserve", n, &[1 << 40])),
                Step::Turns(costs, room, [one, other]) if told.kind == Kind::Debt && !told.step => {
                    let asks = [0, 1, 2].map(|it| [costs[it].min(told.burst), [one, other, 1 << 40][it]]);
                    let (_, decided) = engine.turns(told, [7, 0, room], &asks);
                    for ([n, within], turn) in asks.into_iter().zip(decided) {
                        prop_assert_eq!(turn.wait <= within, turn.ticket.is_some());
                        let at = now + turn.wait;
                        turns.extend(turn.ticket.map(|[position, made]| Turn {
                            n,
                            at,
                            ticket: [n, position, made, at],
                            is_refunded: false,
                        }));
                    }
                }
                Step::Turns(..) => {}
                Step::Leave(index) => {
                    let mut coming: Vec<_> = turns.iter_mut().filter(|it| !it.is_refunded && it.at > now).collect();
                    if !coming.is_empty() {
                        let left = index.get_mut(&mut coming);
                        left.is_refunded = true;
                        engine.call(told, "give", &left.ticket);
                    }
                }
                Step::Refund(index) if !turns.is_empty() => {
                    let refunded = index.get_mut(&mut turns);
                    if !std::mem::replace(&mut refunded.is_refunded, true) {
                        engine.call(told, "give", &refunded.ticket);
                    }
                }
                Step::Refund(_) => {}
                Step::Goodbye(count) => {
                    let last = turns.len().saturating_sub(count);
                    let last = turns[last..].iter_mut().filter(|it| !it.is_refunded && it.at > now);
                    let tickets: Vec<_> = last.flat_map(|it| {
                        it.is_refunded = true;
                        it.ticket
                    }).collect();
                    if !tickets.is_empty() {
                        engine.call(told, "give", &tickets);
                    }
                }
            }
            prop_assert!(is_within(told, &turns), "{:?}", turns);
        }
    }
}

/// Returns a limit whose burst is its count.
fn of(kind: Kind, step: bool, count: u64, period: u64) -> Told {
    let burst = count;
    Told {
        kind,
        count,
        period,
        burst,
        step,
    }
}

/// The third of six reservations is given back.
#[test]
fn give_in_the_middle_leaves_no_two_reservations_at_one_time() {
    for (kind, step) in KINDS {
        let told = of(kind, step, 1, 100_000);
        let mut engine = Engine::new(BEGIN);
        let mut now = BEGIN;
        let mut reserve = |engine: &mut Engine| {
            now += 1;
            engine.set(now);
            let answer = engine.call(told, "reserve", &[1, 1 << 40]);
            let [position, made] = answer.ticket;
            let at = now + answer.wait;
            (at, [1, position, made, at])
        };
        let six: Vec<_> = (0..6).map(|_| reserve(&mut engine)).collect();
        assert_eq!(engine.call(told, "give", &six[2].1).done, 0);
        let (next, _) = reserve(&mut engine);
        if step {
            assert!(next >= six[5].0 + 100_000, "{kind:?}: {next} {six:?}");
        } else {
            assert_eq!(next, six[2].0);
            let (after, _) = reserve(&mut engine);
            assert_eq!(after, six[5].0 + 100_000);
        }
    }
}

/// A process that ends gives back what it has reserved last, and the next one gets these times.
#[test]
fn give_of_the_last_reservations_makes_room_for_the_next() {
    for kind in [Kind::Debt, Kind::Log] {
        let told = of(kind, kind != Kind::Debt, 1, 100_000);
        let mut engine = Engine::new(BEGIN);
        let reserve = |engine: &mut Engine| engine.call(told, "reserve", &[1, 1 << 40]);
        let four = [(); 4].map(|()| reserve(&mut engine));
        let tickets = [2, 3].map(|it: usize| {
            let [position, made] = four[it].ticket;
            [1, position, made, BEGIN + four[it].wait]
        });
        assert_eq!(engine.call(told, "give", tickets.as_flattened()).done, 2);
        assert_eq!(reserve(&mut engine).wait, four[2].wait);
    }
}

const KINDS: [(Kind, bool); 4] = [
    (Kind::Debt, false),
    (Kind::Debt, true),
    (Kind::Window, true),
    (Kind::Log, true),
];

/// A reservation that is given back at once leaves nothing behind, whatever it has skipped.
#[test]
fn give_of_the_last_reservation_again_and_again_changes_no_wait() {
    for (kind, step) in KINDS {
        for (count, n) in [(1, 1), (4, 3), (4, 4)] {
            let told = of(kind, step, count, 1_000);
            let mut now = BEGIN;
            let mut engine = Engine::new(now);
            engine.call(told, "take", &[count.div_ceil(2)]);
            let mut waits = Vec::new();
            for _ in 0..20 {
                now += 1;
                engine.set(now);
                let answer = engine.call(told, "reserve", &[n, 1 << 40]);
                let [position, made] = answer.ticket;
                waits.push(now + answer.wait);
                engine.call(told, "give", &[n, position, made, now + answer.wait]);
                let free = engine.call(told, "peek", &[1]).free;
                assert_eq!(free, count - count.div_ceil(2), "{told:?}");
            }
            assert!(
                waits.iter().all(|wait| *wait == waits[0]),
                "{told:?} {waits:?}"
            );
        }
    }
}

/// The last reservation was given back, so nothing is to come, and refunds are as usual.
#[test]
fn give_after_all_reservations_were_given_back_refunds() {
    for (kind, step) in KINDS {
        let told = of(kind, step, 4, 1_000);
        let mut engine = Engine::new(BEGIN);
        let first = engine.call(told, "take", &[2]).ticket;
        engine.set(BEGIN + 1);
        let reserved = engine.call(told, "reserve", &[4, 1 << 40]);
        let [position, made] = reserved.ticket;
        engine.call(
            told,
            "give",
            &[4, position, made, BEGIN + 1 + reserved.wait],
        );
        engine.set(BEGIN + 2);
        engine.call(told, "take", &[1]);
        assert_eq!(
            engine
                .call(told, "give", &[2, first[0], first[1], BEGIN])
                .done,
            if step { 2 } else { 1 }
        );
    }
}

/// A reservation that is over by a clock that was set back bars no refunds until the clock is there again.
#[test]
fn give_after_the_clock_was_set_back_refunds_when_no_reservation_is_to_come() {
    for (kind, step) in KINDS {
        let told = of(kind, step, 4, 1_000_000);
        let begin = BEGIN.next_multiple_of(told.period);
        let mut now = begin + 1_000 * told.period;
        let mut engine = Engine::new(now);
        engine.call(told, "take", &[4]);
        engine.call(told, "reserve", &[1, 1 << 40]);
        now = begin;
        engine.set(now);
        // A call notices it.
        engine.call(told, "charge", &[1]);
        now += 5 * told.period;
        engine.set(now);
        let [position, made] = engine.call(told, "take", &[1]).ticket;
        engine.call(told, "take", &[1]);
        assert_eq!(
            engine.call(told, "give", &[1, position, made, now]).done,
            1,
            "{told:?}"
        );
    }
}

/// The limit of the tests below: a unit each millisecond.
fn even(burst: u64) -> Told {
    Told {
        burst,
        ..of(Kind::Debt, false, 1, 1_000)
    }
}

const EVER: u64 = 1 << 40;

#[test]
fn turns_of_a_queue_are_what_is_there_now_and_then_one_after_the_other() {
    let mut engine = Engine::new(BEGIN);
    let (holders, turns) = engine.turns(even(3), [1, 0, 2], &[[1, EVER]; 8]);
    assert_eq!(holders, 1);
    let waits: Vec<_> = turns.iter().map(|turn| turn.wait).collect();
    assert_eq!(waits, [0, 0, 0, 1_000, 2_000], "a room of two");
    // A process without a turn gets one, whatever it costs.
    let (holders, turns) = engine.turns(even(3), [2, 0, 1], &[[3, EVER], [1, EVER]]);
    assert_eq!((holders, turns.len(), turns[0].wait), (2, 1, 5_000));
    // It has one, and no room.
    assert_eq!(engine.turns(even(3), [2, 1, 0], &[[1, EVER]]), (2, vec![]));
    engine.set(BEGIN + 2_001);
    assert_eq!(engine.turns(even(3), [3, 0, 1], &[[1, EVER]]).0, 2);
}

#[test]
fn turns_that_would_be_due_too_late_charge_nothing() {
    let mut engine = Engine::new(BEGIN);
    let asks = [[1, 0], [1, 0], [1, 999], [1, 1_000], [1, 1_999], [1, EVER]];
    let (_, turns) = engine.turns(even(1), [1, 0, 9], &asks);
    let turns: Vec<_> = turns
        .iter()
        .map(|it| (it.wait, it.ticket.is_some()))
        .collect();
    let late = |wait| (wait, false);
    assert_eq!(
        turns,
        [
            (0, true),
            late(1_000),
            late(1_000),
            (1_000, true),
            late(2_000),
            (2_000, true)
        ]
    );
}

/// Reserves turns of these costs, at a microsecond, and returns the arguments of their refunds.
fn reserved(engine: &mut Engine, told: Told, costs: &[u64]) -> Vec<[u64; 4]> {
    let asks: Vec<_> = costs.iter().map(|n| [*n, EVER]).collect();
    let (_, turns) = engine.turns(told, [1, 0, EVER], &asks);
    let tickets = turns.iter().zip(costs).map(|(turn, n)| {
        let [position, made] = turn.ticket.unwrap();
        [*n, position, made, BEGIN + turn.wait]
    });
    tickets.collect()
}

#[test]
fn turns_after_one_in_the_middle_was_given_back_take_its_tick_in_parts() {
    let mut engine = Engine::new(BEGIN);
    let told = even(4);
    let tickets = reserved(&mut engine, told, &[4, 4, 4, 4]);
    assert_eq!(engine.call(told, "give", &tickets[2]).done, 0);
    let ticks: Vec<_> = reserved(&mut engine, told, &[1, 2, 4, 1]);
    let ticks: Vec<_> = ticks.iter().map(|ticket| ticket[3] - BEGIN).collect();
    // The third was due at 8 ms. What is left of it is too little for 4.
    assert_eq!(ticks, [8_000, 9_000, 16_000, 11_000]);
    assert_eq!(engine.call(told, "peek", &[1]).reset, 20_000);
}

/// What is left of a tick comes later than the debt counts it, so a part that was given back meanwhile does not lower the debt.
#[test]
fn turns_after_a_part_of_a_tick_was_given_back_are_not_on_the_rest() {
    let mut engine = Engine::new(BEGIN);
    let told = even(3);
    let tickets = reserved(&mut engine, told, &[1, 1, 3, 1]);
    engine.call(told, "give", &tickets[2]);
    engine.call(told, "give", &tickets[3]);
    let part = reserved(&mut engine, told, &[1]);
    assert_eq!(part[0][3] - BEGIN, 2_000);
    engine.call(told, "give", &part[0]);
    let ticks = reserved(&mut engine, told, &[2, 2]);
    let ticks: Vec<_> = ticks.iter().map(|ticket| ticket[3] - BEGIN).collect();
    assert_eq!(ticks, [3_000, 4_000]);
}

/// A tick of a slower rate lies behind the end of the line of a faster one.
#[test]
fn turns_after_one_of_a_slower_rate_was_given_back_are_not_on_another() {
    let mut engine = Engine::new(BEGIN);
    let slow = even(1);
    let fast = Told { count: 4, ..slow };
    let slow_turns = reserved(&mut engine, slow, &[1, 1]);
    let fast_turns = reserved(&mut engine, fast, &[1]);
    engine.call(fast, "give", &slow_turns[1]);
    let others = reserved(&mut engine, fast, &[1, 1, 1, 1]);
    let turns = [&slow_turns[..1], &fast_turns, &others].concat();
    let mut ticks: Vec<_> = turns.iter().map(|ticket| ticket[3]).collect();
    ticks.sort_unstable();
    ticks.dedup();
    assert_eq!(ticks.len(), turns.len(), "{turns:?}");
}

#[test]
fn turns_after_many_were_given_back_take_the_earliest_64() {
    let mut engine = Engine::new(BEGIN);
    let told = even(1);
    let tickets = reserved(&mut engine, told, &[1; 80]);
    // The later half first, so that a full list drops its latest tick.
    for ticket in tickets[41..79].iter().chain(&tickets[1..41]) {
        engine.call(told, "give", ticket);
    }
    let ticks = reserved(&mut engine, told, &[1; 65]);
    let ticks: Vec<_> = ticks
        .iter()
        .map(|ticket| (ticket[3] - BEGIN) / 1_000)
        .collect();
    assert_eq!(ticks, (1..65).chain([80]).collect::<Vec<_>>());
}

/// The turns of a limit that was lost are not those of the next one.
#[test]
fn turns_of_a_limit_that_was_lost_leave_no_open_ticks() {
    let mut engine = Engine::new(BEGIN);
    let told = even(1);
    let tickets = reserved(&mut engine, told, &[1; 9]);
    engine.call(told, "give", &tickets[3]);
    engine.set(BEGIN + 1);
    engine.delete();
    let (holders, turns) = engine.turns(told, [2, 0, 9], &[[1, EVER]; 5]);
    let waits: Vec<_> = turns.iter().map(|turn| turn.wait).collect();
    assert_eq!(
        (holders, &waits[..]),
        (1, &[0, 1_000, 2_000, 3_000, 4_000][..])
    );
    assert_eq!(engine.call(told, "give", &tickets[4]).done, 0);
}

/// A process that ends gives back all its turns in one call; the limit is as if they had never been.
#[test]
fn give_of_all_turns_leaves_no_debt_behind() {
    let mut engine = Engine::new(BEGIN);
    let told = even(2);
    let tickets = reserved(&mut engine, told, &[2, 1, 2, 1, 1]);
    let given = engine.call(told, "give", tickets[1..].as_flattened());
    assert_eq!((given.done, given.free, given.reset), (5, 0, 2_000));
}

#[test]
fn turns_and_give_keep_the_list_of_turns_as_long_as_the_limit() {
    let told = Told {
        period: 1_000_000,
        ..even(1)
    };
    let mut engine = Engine::new(BEGIN);
    let check = |engine: &mut Engine| {
        let [limit, list] = engine.ends();
        assert!(list >= limit, "{limit} {list}");
        limit
    };
    // The whole script creates the list.
    let given = reserved(&mut engine, told, &[1; 11]);
    let end = check(&mut engine);
    // The head adds turns to it while they keep the limit no longer.
    engine.set(BEGIN + 9_000_000);
    engine.turns(told, [2, 0, 1], &[[1, EVER]]);
    assert_eq!(check(&mut engine), end);
    // A waiter leaves.
    assert_eq!(
        engine.call(told, "give", &given[10]).done,
        0,
        "another turn is behind it"
    );
    check(&mut engine);
    // The head keeps both for longer.
    engine.turns(told, [1, 2, EVER], &[[1, EVER]; 30]);
    assert!(check(&mut engine) > end + 30_000_000);
    let [n, position, made, tick] = reserved(&mut engine, told, &[1])[0];
    let last = [n, position, made, tick + 9_000_000];
    assert_eq!(engine.call(told, "give", &last).done, 1);
    check(&mut engine);
}
