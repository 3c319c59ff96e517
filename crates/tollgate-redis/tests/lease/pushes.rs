//! Tests waiters whose messages are lost, doubled, or late, while all else arrives; three stores stand for three
//! processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::task::JoinSet;

use super::verbs::{semaphore, tickets, until};
use crate::support::on_server;
use crate::support::proxy::{Mode, Proxy};

const PERMITS: usize = 2;

/// Lets each of nine callers hold a permit four times, and until the proxy has treated a message.
fn serves_everybody(mode: Mode) {
    on_server(async |server| {
        let proxy = Arc::new(Proxy::start(server.port()).await);
        proxy.set(mode);
        let held = Arc::new(AtomicUsize::new(0));
        let mut callers = JoinSet::new();
        for _ in 0..3 {
            let store = proxy.store().deadline(Duration::from_secs(20));
            let semaphore = semaphore(&store, PERMITS);
            for _ in 0..3 {
                let (semaphore, held) = (semaphore.clone(), Arc::clone(&held));
                let proxy = Arc::clone(&proxy);
                callers.spawn(async move {
                    let mut count = 0;
                    while count < 4 || proxy.messages() == 0 {
                        count += 1;
                        let lease = semaphore.acquire().await.unwrap();
                        assert!(held.fetch_add(1, Ordering::SeqCst) < PERMITS);
                        tokio::task::yield_now().await;
                        held.fetch_sub(1, Ordering::SeqCst);
                        lease.release().await.unwrap();
                    }
                });
            }
        }
        callers.join_all().await;
        until(async || tickets(server) == 0).await;
    });
}

#[test]
fn acquire_while_messages_are_lost_is_served() {
    serves_everybody(Mode::DropMessages);
}

#[test]
fn acquire_while_messages_arrive_twice_is_served() {
    serves_everybody(Mode::DoubleMessages);
}

/// Later than the time in which a process claims a ticket.
#[test]
fn acquire_while_messages_are_late_is_served() {
    serves_everybody(Mode::DelayMessages(Duration::from_millis(200)));
}
