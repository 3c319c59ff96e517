//! Tests how a server tells the waiters of other processes; two stores stand for two processes.

use tollgate_redis::Store;

use super::model::{CURRENT, DAY};
use super::verbs::{members, semaphore, tickets, until};
use crate::support::{ask, on_server};

const WAITS: &str = "{jobs}/semaphore/waits";

/// Takes a ticket for a process that never claims it. Its messages go to that channel.
fn take_a_ticket(connection: &mut redis::Connection, channel: &str) {
    take_tickets(connection, channel, "other", 1);
}

/// Takes tickets for a process of that name.
fn take_tickets(connection: &mut redis::Connection, channel: &str, process: &str, count: usize) {
    let mut call = redis::cmd("EVAL");
    call.arg(CURRENT).arg(7);
    for part in ["leases", "fences", "tickets", "ends", "state"] {
        call.arg(format!("{{jobs}}/semaphore/{part}"));
    }
    call.arg("tollgate:born").arg(WAITS).arg("acquire");
    // One permit, leases of an hour, no grace, 50 milliseconds to claim, whenever the call is executed.
    call.arg(&[1, 3_600_000_000, 0, 50_000, u64::MAX, DAY as u64]);
    call.arg(0).arg(channel);
    for index in 1..=count {
        call.arg(format!("{process}.{index}")).arg(&[1, 0, 1]);
    }
    let reply: Vec<u64> = call.query(connection).unwrap();
    assert_eq!(reply[6], 0, "somebody holds the permit");
}

#[test]
fn release_tells_the_first_waiter_and_its_successor() {
    on_server(async |server| {
        let held = semaphore(&server.store(), 1).acquire().await.unwrap();
        let mut connection = server.connection();
        let mut messages = connection.as_pubsub();
        messages.subscribe("other").unwrap();
        take_a_ticket(&mut server.connection(), "other");
        let next = semaphore(&server.store(), 1);
        let next = tokio::spawn(next.acquire());
        until(async || tickets(server) == 2).await;
        held.release().await.unwrap();
        let message: String = messages.get_message().unwrap().get_payload().unwrap();
        assert_eq!(message, "other claim other.1:1");
        // It is subscribed, and does not claim, so it loses its place, and the next one does not wait for it.
        let lease = next.await.unwrap().unwrap();
        until(async || tickets(server) == 0).await;
        assert_eq!((lease.count(), members(server, WAITS)), (1, 0));
    });
}

#[test]
fn release_to_a_process_with_many_tickets_tells_the_process_behind_them() {
    on_server(async |server| {
        let held = semaphore(&server.store(), 1).acquire().await.unwrap();
        let mut connection = server.connection();
        let mut messages = connection.as_pubsub();
        messages.subscribe(&["other", "next"]).unwrap();
        // More than a page of the line.
        take_tickets(&mut server.connection(), "other", "other", 40);
        take_tickets(&mut server.connection(), "next", "next", 1);
        held.release().await.unwrap();
        for expected in ["other claim other.1:1", "next soon 50000"] {
            let message: String = messages.get_message().unwrap().get_payload().unwrap();
            assert_eq!(message, expected);
        }
    });
}

#[test]
fn release_passes_a_waiter_whom_no_message_reaches() {
    on_server(async |server| {
        let held = semaphore(&server.store(), 1).acquire().await.unwrap();
        take_a_ticket(&mut server.connection(), "nobody");
        held.release().await.unwrap();
        assert_eq!((tickets(server), members(server, WAITS)), (0, 0));
    });
}

#[test]
fn release_without_the_right_to_publish_leaves_the_waiter_its_time() {
    on_server(async |server| {
        let user = ["SETUSER", "app", "on", ">secret", "~*", "+@all", "-publish"];
        let words: Vec<_> = ["ACL"].into_iter().chain(user).collect();
        let () = ask(server, &words);
        let address = server.address().replace("//", "//app:secret@");
        let holder = semaphore(&Store::new(&address).unwrap(), 1);
        let held = holder.acquire().await.unwrap();
        take_a_ticket(&mut server.connection(), "nobody");
        held.release().await.unwrap();
        // The writes of the script before the refused command are not lost.
        assert_eq!((tickets(server), holder.available().await), (1, Ok(1)));
        let next = holder.acquire().await.unwrap();
        assert_eq!((next.count(), tickets(server)), (1, 0));
    });
}

#[test]
fn acquire_without_the_right_for_channels_waits_and_says_so_once() {
    on_server(async |server| {
        let user = [
            "SETUSER",
            "app",
            "on",
            ">secret",
            "~*",
            "+@all",
            "resetchannels",
        ];
        let words: Vec<_> = ["ACL"].into_iter().chain(user).collect();
        let () = ask(server, &words);
        let address = server.address().replace("//", "//app:secret@");
        let store = Store::new(&address).unwrap();
        let held = semaphore(&server.store(), 1).acquire().await.unwrap();
        let next = tokio::spawn(semaphore(&store, 1).acquire());
        until(async || store.last_failure().is_some()).await;
        let text = store.last_failure().unwrap();
        assert!(text.contains("channel"), "{text}");
        assert!(!next.is_finished() && !store.is_broken());
        held.release().await.unwrap();
        drop(next.await.unwrap().unwrap());
        assert_eq!(store.last_failure(), Some(text));
    });
}
