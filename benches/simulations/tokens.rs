//! `cargo run --release -p simulations --bin tokens`: what a client loses that charges an estimate of each call's tokens and
//! corrects the charge after the call, by algorithm.
//!
//! A client with endless demand has a limit of 40,000 tokens a minute. A call takes 1 to 20 s, and uses 1 to 4,000
//! tokens, which are known when it ends; until then it counts with 4,000. The result is the number of tokens that it has
//! used in an hour, in percent of a client that knows the usage of each call before. No clock is read, and nothing
//! depends on the machine.

use std::time::Duration;

use oorandom::Rand64;
use simulations::events::Events;
use tollgate::rate::{Charge, Hold};
use tollgate::{Algorithm, Quota, RateLimiter};

const PER_MINUTE: u64 = 40_000;
const ESTIMATE: u64 = 4_000;
const HOUR: u64 = 3_600_000_000_000;
const SEED: u128 = 7;

#[derive(Clone, Copy)]
enum Correction {
    /// The usage is known, so nothing is corrected.
    Known,
    Settle,
    Hold,
}

enum Charged {
    Exactly,
    Estimate(Charge),
    Held(Hold),
}

enum Event {
    Try,
    End(Charged, u64),
}

/// Returns the number of tokens that a client uses.
fn used(algorithm: Algorithm, correction: Correction) -> u64 {
    let (mut events, mut random) = (Events::default(), Rand64::new(SEED));
    let quota = Quota::per_minute(PER_MINUTE).burst(PER_MINUTE);
    let limiter = RateLimiter::new(quota)
        .algorithm(algorithm)
        .clock(events.clock());
    let mut draw = || {
        (
            random.rand_range(1..ESTIMATE + 1),
            random.rand_range(1_000..20_000),
        )
    };
    let (mut next, mut total) = (draw(), 0);
    // The tick of the next try.
    let mut planned = 0;
    events.at(0, Event::Try);
    while let Some(event) = events.next_before(HOUR) {
        if let Event::End(charged, used) = event {
            match charged {
                Charged::Exactly => {}
                Charged::Estimate(charge) => limiter.settle(charge, used),
                Charged::Held(hold) => hold.settle(used),
            }
        }
        loop {
            let (used, millis) = next;
            let cost = match correction {
                Correction::Known => used,
                Correction::Settle | Correction::Hold => ESTIMATE,
            };
            let charge = match limiter.try_acquire_many(cost) {
                Ok(charge) => charge,
                Err(refused) => {
                    // Behind holds the time is unknown, and the end of a call tries again.
                    if let Some(after) = refused.retry_after().filter(|it| *it < Duration::MAX) {
                        let at = events.now() + after.as_nanos() as u64;
                        if planned <= events.now() || at < planned {
                            planned = at;
                            events.at(at, Event::Try);
                        }
                    }
                    break;
                }
            };
            total += used;
            let charged = match correction {
                Correction::Known => Charged::Exactly,
                Correction::Settle => Charged::Estimate(charge),
                Correction::Hold => Charged::Held(limiter.hold(charge)),
            };
            events.after(Duration::from_millis(millis), Event::End(charged, used));
            next = draw();
        }
    }
    total
}

fn main() {
    println!("{:<16} {:>8} {:>8}", "algorithm", "settle", "hold");
    for algorithm in [
        Algorithm::SlidingLog,
        Algorithm::SlidingWindow,
        Algorithm::Gcra,
    ] {
        let most = used(algorithm, Correction::Known) as f64;
        let [settle, hold] = [Correction::Settle, Correction::Hold]
            .map(|correction| 100.0 * used(algorithm, correction) as f64 / most);
        println!(
            "{:<16} {settle:>6.1} % {hold:>6.1} %",
            algorithm.to_string()
        );
    }
}
