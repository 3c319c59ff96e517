//! Tests who keeps and who loses a place in the line, on the script of leases, with a clock that the test sets.

use super::model::{CURRENT, DAY, KEYS, START, script};
use crate::support::server::Server;

/// The time in which each process claims, in microseconds.
const PATIENCE: i64 = 50_000;

/// The processes, each with its number of permits.
struct Line {
    server: Server,
    text: String,
}

impl Line {
    fn start() -> Self {
        let line = Self {
            server: Server::start(),
            text: script(CURRENT),
        };
        line.set_clock(0);
        line
    }

    /// Sets the clock to so many microseconds after the start.
    fn set_clock(&self, time: i64) {
        let mut command = redis::cmd("SET");
        command.arg("clock").arg(START + time);
        let () = command.query(&mut self.server.connection()).unwrap();
    }

    fn call(&self, permits: i64, what: &str, rest: &[String]) -> Vec<i64> {
        let mut command = redis::cmd("EVAL");
        command.arg(&self.text).arg(KEYS.len()).arg(&KEYS).arg(what);
        command.arg(&[permits, 1_000_000_000, 0, PATIENCE, i64::MAX, DAY]);
        let command = command.arg(rest);
        command.query(&mut self.server.connection()).unwrap()
    }

    /// Asks for leases with these ids, costs, and tickets, and returns whether each is granted, and its ticket. The
    /// channel is the first letter of the ids.
    fn acquire(&self, permits: i64, asked: &[(&str, i64, i64)]) -> Vec<(bool, i64)> {
        let mut rest = vec!["0".to_owned(), asked[0].0[..1].to_owned()];
        for (id, n, ticket) in asked {
            rest.push((*id).to_owned());
            rest.extend([*n, *ticket, 1].map(|number| number.to_string()));
        }
        let reply = self.call(permits, "acquire", &rest);
        let places = reply[6..].chunks(2);
        places.map(|place| (place[0] > 0, place[1])).collect()
    }

    /// Looks for one ticket. Returns the time after which the process has to look again, or 0.
    fn look(&self, permits: i64, id: &str, ticket: i64) -> i64 {
        let [n, ticket, stays] = [1, ticket, 1].map(|number| number.to_string());
        let rest = [
            "0".to_owned(),
            id[..1].to_owned(),
            id.to_owned(),
            n,
            ticket,
            stays,
        ];
        self.call(permits, "acquire", &rest)[2]
    }

    fn run(&self, command: &str, arguments: &[&str]) -> i64 {
        let mut command = redis::cmd(command);
        let command = command.arg(arguments);
        command.query(&mut self.server.connection()).unwrap()
    }

    /// Asks for one lease without a ticket. Returns its ticket, or `None` if it is granted.
    fn ask(&self, permits: i64, id: &str, n: i64) -> Option<i64> {
        let (is_granted, ticket) = self.acquire(permits, &[(id, n, 0)])[0];
        (!is_granted).then_some(ticket)
    }

    /// Asks again for the lease of a ticket. Returns whether it is granted.
    fn claim(&self, permits: i64, id: &str, n: i64, ticket: i64) -> bool {
        self.acquire(permits, &[(id, n, ticket)])[0].0
    }

    fn release(&self, permits: i64, id: &str, n: i64) {
        let reply = self.call(permits, "release", &[id.to_owned(), n.to_string()]);
        assert_eq!(reply[1], n);
    }

    /// Returns the tickets in their order.
    fn tickets(&self) -> Vec<String> {
        let mut command = redis::cmd("ZRANGE");
        let command = command.arg(KEYS[2]).arg(&[0, -1]);
        command.query(&mut self.server.connection()).unwrap()
    }

    /// Returns the messages since the last time.
    fn told(&self) -> Vec<String> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("LRANGE").arg(&["told", "0", "-1"]);
        pipeline.cmd("DEL").arg("told").ignore();
        let (told,) = pipeline.query(&mut self.server.connection()).unwrap();
        told
    }
}

#[test]
fn acquire_past_a_process_with_too_few_permits_passes_all_its_tickets_at_once() {
    let line = Line::start();
    assert_eq!(line.ask(2, "b.0", 1), None);
    line.acquire(1, &[("a.1", 1, 0), ("a.2", 1, 0)]);
    let ticket = line.ask(2, "b.1", 1).expect("another one is in front");
    line.set_clock(999_999);
    assert!(!line.claim(2, "b.1", 1, ticket));
    line.set_clock(1_000_000);
    assert!(line.claim(2, "b.1", 1, ticket));
    assert_eq!(line.tickets(), ["a.1:1", "a.2:1"]);
    // They keep their places: they are the first ones when their own permits are enough.
    line.release(2, "b.1", 1);
    line.release(2, "b.0", 1);
    assert_eq!(line.told(), ["a claim a.1:1"]);
}

#[test]
fn acquire_past_a_ticket_for_too_much_passes_no_ticket_for_less() {
    let line = Line::start();
    assert_eq!(line.ask(3, "b.0", 1), None);
    line.acquire(2, &[("a.1", 2, 0), ("a.2", 1, 0)]);
    let ticket = line.ask(3, "b.1", 1).expect("another one is in front");
    line.set_clock(1_000_000);
    // Beside the second ticket of the other process, its own permits leave no room.
    assert!(!line.claim(3, "b.1", 1, ticket));
    assert_eq!(line.told(), ["a claim a.2:1"]);
    assert_eq!(line.tickets(), ["a.1:2", "a.2:1", "b.1:1"]);
}

#[test]
fn acquire_of_a_process_that_did_not_claim_in_time_keeps_its_tickets() {
    let line = Line::start();
    assert_eq!(line.ask(1, "b.0", 1), None);
    line.ask(1, "a.1", 1).expect("it is held");
    let ticket = line.ask(1, "c.1", 1).expect("it is held");
    line.release(1, "b.0", 1);
    assert_eq!(line.told(), ["a claim a.1:1", "c soon 50000"]);
    // It is heard, with another request, when its time is over, and gets that time again.
    line.set_clock(PATIENCE);
    line.ask(1, "a.2", 1).expect("others are in front");
    line.set_clock(2 * PATIENCE - 1);
    assert!(!line.claim(1, "c.1", 1, ticket));
    assert_eq!(line.tickets(), ["a.1:1", "c.1:1", "a.2:1"]);
    line.set_clock(2 * PATIENCE);
    assert!(line.claim(1, "c.1", 1, ticket));
    assert_eq!(line.tickets(), [""; 0]);
}

#[test]
fn acquire_of_one_behind_a_ticket_for_all_permits_waits() {
    let line = Line::start();
    assert_eq!(line.ask(50, "b.0", 1), None);
    let all = line.ask(50, "a.1", 50).expect("one is held");
    let one = line.ask(50, "b.1", 1).expect("another one is in front");
    assert!(!line.claim(50, "b.1", 1, one));
    line.release(50, "b.0", 1);
    assert!(!line.claim(50, "b.1", 1, one));
    assert!(line.claim(50, "a.1", 50, all));
    assert!(!line.claim(50, "b.1", 1, one));
    line.release(50, "a.1", 50);
    let told = ["a claim a.1:50", "b soon 50000", "b claim b.1:1"];
    assert_eq!(line.told(), told);
    assert!(line.claim(50, "b.1", 1, one));
}

#[test]
fn acquire_of_a_process_that_lost_its_messages_tells_its_other_tickets_again() {
    let line = Line::start();
    let held = ["a.0", "a.1", "a.2", "a.3"];
    for id in held {
        assert_eq!(line.ask(4, id, 1), None);
    }
    let waiting = ["a.4", "a.5", "a.6", "a.7"].map(|id| (id, 1, 0));
    let first = line.acquire(4, &waiting)[0].1;
    for id in held {
        line.release(4, id, 1);
    }
    assert_eq!(
        line.told().len(),
        waiting.len(),
        "all permits are free, and all are told"
    );
    // The messages do not arrive. It looks, which names the first ticket only.
    line.set_clock(PATIENCE);
    assert!(line.claim(4, "a.4", 1, first));
    assert_eq!(
        line.told(),
        ["a.5", "a.6", "a.7"].map(|id| format!("a claim {id}:1"))
    );
    // Not before their time is over again.
    line.set_clock(2 * PATIENCE - 1);
    line.release(4, "a.4", 1);
    assert_eq!(line.told(), [""; 0]);
}

#[test]
fn acquire_behind_tickets_whose_values_were_lost_is_served() {
    let line = Line::start();
    assert_eq!(line.ask(1, "b.0", 1), None);
    let others = ["a.1", "a.2", "a.3", "a.4"].map(|id| (id, 1, 0));
    line.acquire(1, &others);
    let ticket = line.ask(1, "c.1", 1).expect("it is held");
    // More of them than the script reads at first.
    line.run("DEL", &[KEYS[0], KEYS[6]]);
    assert!(line.claim(1, "c.1", 1, ticket));
    assert_eq!(line.tickets(), [""; 0]);
}

#[test]
fn acquire_that_removes_a_stopped_process_returns_the_time_of_the_next_one() {
    let line = Line::start();
    assert_eq!(line.ask(1, "b.0", 1), None);
    let ids = ["a.1", "c.1", "d.1", "e.1"];
    let tickets = ids.map(|id| line.ask(1, id, 1).expect("it is held"));
    line.release(1, "b.0", 1);
    assert_eq!(line.told(), ["a claim a.1:1", "c soon 50000"]);
    // All but the last process are stopped. Its look is the first one.
    line.set_clock(20 * PATIENCE);
    assert_eq!(line.look(1, "e.1", tickets[3]), PATIENCE);
    assert_eq!(line.told(), ["c claim c.1:1", "d soon 50000"]);
    line.set_clock(21 * PATIENCE);
    assert_eq!(line.look(1, "e.1", tickets[3]), PATIENCE);
    assert_eq!(line.told(), ["d claim d.1:1"]);
    line.set_clock(22 * PATIENCE);
    assert!(line.claim(1, "e.1", 1, tickets[3]));
}

#[test]
fn acquire_beside_values_of_an_earlier_line_keeps_its_ticket() {
    let line = Line::start();
    assert_eq!(line.ask(1, "b.0", 1), None);
    line.run("HSET", &[KEYS[6], "next", "lost channel"]);
    line.run("PEXPIRE", &[KEYS[6], "120000"]);
    line.ask(1, "a.1", 1).expect("it is held");
    for key in [KEYS[2], KEYS[3], KEYS[6]] {
        assert!(line.run("PTTL", &[key]) > 60_000, "{key}");
    }
    assert_eq!(line.run("HLEN", &[KEYS[6]]), 1);
}

#[test]
fn acquire_behind_a_short_lived_ticket_of_the_first_version_keeps_its_own() {
    let line = Line::start();
    assert_eq!(line.ask(1, "b.0", 1), None);
    // The line of the first version, which lasts for its ticket.
    let until = (START + 3_000_000).to_string();
    line.run("ZADD", &[KEYS[2], "1", "first:1"]);
    line.run("ZADD", &[KEYS[3], &until, "first:1"]);
    for key in [KEYS[2], KEYS[3]] {
        line.run("PEXPIRE", &[key, "3000"]);
    }
    // The first version writes no 0 in front of its time.
    line.run("DEL", &[KEYS[4]]);
    line.run("HSET", &[KEYS[6], "lost.1:1", "0:0:1:50000:lost"]);
    line.run("PEXPIRE", &[KEYS[6], "120000"]);
    line.ask(1, "a.1", 1).expect("it is held");
    for key in [KEYS[2], KEYS[3]] {
        assert!(line.run("PTTL", &[key]) > 60_000, "{key}");
    }
}
