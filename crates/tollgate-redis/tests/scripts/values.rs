//! Tests the values of rates on the server: those that the first version has written are read, and those that are
//! written now have the same form, because both versions run in one fleet while it is updated.

use tollgate::Algorithm;
use tollgate_redis::RateLimiter;

use crate::support::server::Server;
use crate::support::{ask, on_server, slow};

const BURST: u64 = 10;

/// A day in microseconds.
const DAY: u64 = 86_400_000_000;

fn now(server: &Server) -> u64 {
    let [seconds, micros]: [u64; 2] = ask::<Vec<u64>>(server, &["TIME"]).try_into().unwrap();
    seconds * 1_000_000 + micros
}

/// Replaces each number by a zero.
fn form(value: &str) -> String {
    let mut form = String::new();
    for it in value.chars() {
        match it {
            '0'..='9' if form.ends_with('0') => {}
            '0'..='9' => form.push('0'),
            it => form.push(it),
        }
    }
    form
}

/// Writes the value of a key after three charges, as the first version does. Returns its form.
fn write(server: &Server, algorithm: Algorithm) -> &'static str {
    let (now, later) = (now(server), now(server) + DAY);
    match algorithm {
        Algorithm::SlidingLog => {
            let last = format!("{now}:4:{now}");
            let charges = (1..=3).map(|number| (now.to_string(), format!("{number:020}")));
            for (score, member) in charges.chain([("+inf".to_owned(), last)]) {
                let () = ask(server, &["ZADD", "k", &score, &member]);
            }
            "0:0:0"
        }
        Algorithm::SlidingWindow => {
            let () = ask(server, &["SET", "k", &format!("w:{now}:3:0:{DAY}:{now}")]);
            "w:0:0:0:0:0"
        }
        // The count of a day and its burst need no reduction.
        Algorithm::Gcra => {
            let owed = 3 * DAY;
            let value = format!("d:{now}:{owed}:{DAY}:3:{now}:{later}");
            let () = ask(server, &["SET", "k", &value]);
            "d:0:0:0:0:0:0"
        }
        _ => {
            let () = ask(
                server,
                &["SET", "k", &format!("d:{now}:3:1:3:{now}:{later}")],
            );
            "d:0:0:0:0:0:0"
        }
    }
}

fn read(server: &Server, algorithm: Algorithm) -> String {
    if algorithm == Algorithm::SlidingLog {
        return ask::<Vec<String>>(server, &["ZRANGE", "k", "-1", "-1"]).remove(0);
    }
    ask(server, &["GET", "k"])
}

#[test]
fn acquire_of_a_value_of_the_first_version_shares_it() {
    on_server(async |server| {
        let algorithms = [
            Algorithm::Gcra,
            Algorithm::TokenBucket,
            Algorithm::SlidingWindow,
            Algorithm::SlidingLog,
        ];
        for algorithm in algorithms {
            let () = ask(server, &["DEL", "k"]);
            let expected = write(server, algorithm);
            let limiter = RateLimiter::new(&server.store(), "k", slow(BURST)).algorithm(algorithm);
            let left = |remaining: u64| (BURST - 3).abs_diff(remaining);
            assert_eq!(
                left(limiter.peek(0).await.unwrap().remaining),
                0,
                "{algorithm}"
            );
            // The script for the common case, and the script for all others.
            let charge = limiter.acquire().await.unwrap();
            assert_eq!(left(charge.decision().remaining), 1, "{algorithm}");
            assert_eq!(form(&read(server, algorithm)), expected, "{algorithm}");
            limiter.charge(1).await.unwrap();
            assert_eq!(form(&read(server, algorithm)), expected, "{algorithm}");
            assert_eq!(
                limiter.peek(0).await.unwrap().remaining,
                BURST - 5,
                "{algorithm}"
            );
            // While a reservation is to come, its four numbers follow.
            limiter.charge(5).await.unwrap();
            let reserved = limiter
                .reserve(std::time::Duration::from_secs(3 * 86_400))
                .await;
            let reserved = reserved.unwrap();
            let value = form(&read(server, algorithm));
            assert_eq!(value, format!("{expected}:0:0:0:0"), "{algorithm}");
            drop(reserved);
        }
    });
}
