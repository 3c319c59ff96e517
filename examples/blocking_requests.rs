//! Three HTTP clients and a poller, each in its own thread, share a limiter of ten requests per second.

use std::{thread, time::Duration};
use tollgate::{Clock, Quota, RateLimiter};

fn main() {
    let clock = Clock::manual(); // For this example only; by default a limiter uses the system clock.
    let service = RateLimiter::new(Quota::per_second(10)).clock(&clock);
    let sleep = |time| clock.advance(time);
    // Blocks its thread until the request may be sent, in the order of arrival.
    let request = |_| service.acquire().wait().expect("it is never closed").at();
    let mut ticks = Vec::new();
    thread::scope(|scope| {
        let clients = [12; 3].map(|n| scope.spawn(move || (0..n).map(request).collect::<Vec<_>>()));
        while !clients.iter().all(|client| client.is_finished()) {
            match service.try_acquire() {
                Ok(charge) => ticks.push(charge.at()),
                Err(refused) => sleep(refused.retry_after().expect("it is never closed")),
            }
        }
        for client in clients {
            ticks.extend(client.join().unwrap());
        }
    });
    ticks.sort_unstable();
    for eleven in ticks.windows(11) {
        assert!(eleven[10].saturating_since(eleven[0]) >= Duration::from_secs(1));
    }
    println!("{} requests, in no second more than 10", ticks.len());
}
