//! Injects faults into the store and the fleet during the work, one after the other, each time
//! after all processes have recovered.

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use redis_on_loopback::Server;
use redis_on_loopback::proxy::{Mode, Proxy};
use tokio::time::sleep;

use crate::fleet::Fleet;
use crate::fleet::{micros, now, seconds, until};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The server forgets its scripts.
    Flush,
    /// The server stops, and later executes the calls sent meanwhile.
    Stop,
    /// Every connection ends.
    Cut,
    /// The server is killed, and starts again without data.
    Kill,
    /// A partition: nothing passes, and data arrive later.
    BlackHole,
    /// A partition: connections are reset.
    Reset,
    /// A partition: calls are executed, and their answers are lost.
    DropReplies,
    /// The same, but for so long that new connections are not answered either.
    DropAll,
    /// A process of the fleet is killed, and another one replaces it.
    Node,
    /// A process of the fleet stops for longer than its leases last.
    Pause,
}

const ALL: [(Fault, &str); 10] = [
    (Fault::Flush, "flush"),
    (Fault::Stop, "stop"),
    (Fault::Cut, "cut"),
    (Fault::Kill, "kill"),
    (Fault::BlackHole, "black-hole"),
    (Fault::Reset, "reset"),
    (Fault::DropReplies, "drop-replies"),
    (Fault::DropAll, "drop-all"),
    (Fault::Node, "node"),
    (Fault::Pause, "pause"),
];

/// The maximum time for which a breaker stays open.
const PAUSE: Duration = Duration::from_millis(500);

/// The time to connect and to receive an answer.
const CONNECTING: Duration = Duration::from_millis(100);

/// The time after which an unanswered connection attempt is abandoned: the second attempt, which begins while
/// the fault lasts.
const UNANSWERED: Duration = Duration::from_millis(500);

/// The time without a fault.
const REST: Duration = Duration::from_millis(300);

impl Fault {
    fn lasts(self, lease: Duration) -> Duration {
        Duration::from_millis(match self {
            Self::Pause => return lease + Self::Stop.lasts(lease),
            Self::Flush | Self::Cut | Self::Kill | Self::Node => 0,
            Self::Stop => 150,
            Self::BlackHole | Self::Reset => 200,
            // This is less than a deadline, so that no process connects during the fault.
            Self::DropReplies => 40,
            Self::DropAll => 300,
        })
    }

    /// Returns whether fewer calls may be admitted. Rates continue through the other processes, which have equal
    /// demand.
    fn is_outage(self, lease: Duration) -> bool {
        match self {
            Self::Flush => false,
            Self::Node | Self::Pause => !lease.is_zero(),
            _ => true,
        }
    }

    /// Returns the time until all have recovered. It is unknown whether a lease is held until its
    /// time is over, and for the same time nothing is admitted after a loss.
    fn recovery(self, lease: Duration) -> Duration {
        match self {
            Self::Flush => Duration::ZERO,
            Self::Node | Self::Pause => lease,
            Self::DropAll => UNANSWERED + PAUSE + CONNECTING + lease,
            _ => PAUSE + CONNECTING + lease,
        }
    }
}

/// The faults in their order.
#[derive(Clone, Debug)]
pub(crate) struct Faults(Vec<Fault>);

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self(ALL.map(|(fault, _)| fault).to_vec()));
        }
        let fault = |name: &str| {
            let found = ALL.iter().find(|(_, known)| *known == name);
            found
                .map(|(fault, _)| *fault)
                .ok_or_else(|| format!("{name:?} is no fault"))
        };
        text.split(',')
            .map(fault)
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Happened {
    pub(crate) made: Vec<Fault>,
    pub(crate) outages: Vec<Outage>,
    /// The times at which the server lost all its data.
    pub(crate) losses: Vec<u64>,
}

impl Happened {
    pub(crate) fn count(&self, fault: Fault) -> usize {
        self.made.iter().filter(|made| **made == fault).count()
    }
}

pub(crate) struct Scene<'a> {
    pub(crate) server: &'a mut Server,
    pub(crate) proxy: &'a Proxy,
    pub(crate) fleet: &'a mut Fleet,
    /// The lifetime of a lease, if there are leases.
    pub(crate) lease: Duration,
}

/// Injects the faults in turn, again and again, as long as there is time to recover before the end; each of
/// them at least once.
pub(crate) async fn make(
    mut scene: Scene<'_>,
    faults: &Faults,
    end: u64,
) -> Result<Happened, Box<dyn Error>> {
    let mut happened = Happened::default();
    // At first nothing is admitted for that long.
    sleep(scene.lease).await;
    for fault in faults.0.iter().copied().cycle() {
        let recovery = fault.recovery(scene.lease);
        let needs = REST + fault.lasts(scene.lease) + recovery;
        if happened.made.len() >= faults.0.len() && until(end) < needs + REST {
            break;
        }
        sleep(REST).await;
        let from = now();
        scene.make(fault, &mut happened.losses).await?;
        let to = now() + micros(recovery);
        if fault.is_outage(scene.lease) {
            happened.outages.push(Outage { from, to });
        }
        happened.made.push(fault);
        sleep(until(to)).await;
    }
    sleep(REST.max(until(end))).await;
    Ok(happened)
}

impl Scene<'_> {
    async fn make(&mut self, fault: Fault, losses: &mut Vec<u64>) -> Result<(), Box<dyn Error>> {
        let time = fault.lasts(self.lease);
        match fault {
            Fault::Flush => say(self.server, "SCRIPT", &["FLUSH"])?,
            Fault::Cut => say(self.server, "CLIENT", &["KILL", "TYPE", "normal"])?,
            Fault::Stop => {
                self.server.stop();
                sleep(time).await;
                self.server.go_on();
            }
            Fault::Kill => {
                self.server.kill();
                losses.push(now());
                self.server.restart();
            }
            Fault::BlackHole => self.cut_off(Mode::BlackHole, time).await,
            Fault::Reset => self.cut_off(Mode::Reset, time).await,
            Fault::DropReplies | Fault::DropAll => self.cut_off(Mode::DropReplies, time).await,
            Fault::Node => self.fleet.replace_one().await?,
            Fault::Pause => self.fleet.pause_one(time).await?,
        }
        Ok(())
    }

    async fn cut_off(&self, mode: Mode, time: Duration) {
        self.proxy.set(mode);
        sleep(time).await;
        self.proxy.set(Mode::Pass);
    }
}

fn say(server: &Server, verb: &str, words: &[&str]) -> redis::RedisResult<()> {
    redis::cmd(verb).arg(words).query(&mut server.connection())
}

impl fmt::Display for Happened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.made.is_empty() {
            return f.write_str("no faults");
        }
        f.write_str("faults:")?;
        for (fault, name) in ALL {
            match self.count(fault) {
                0 => {}
                times => write!(f, " {name} {times}")?,
            }
        }
        Ok(())
    }
}

// The times at which the store could answer.
//
// Each fault that prevented answers is deducted from the time of the whole run, together with the promised
// time for clients to recover. In the remaining time, the fleet must have used
// its limits.

/// An outage, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outage {
    pub(crate) from: u64,
    /// The time by which all have recovered.
    pub(crate) to: u64,
}

/// Consecutive intervals that do not overlap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Uptime {
    pub(crate) times: Vec<(u64, u64)>,
    begin: u64,
    end: u64,
}

impl Uptime {
    pub(crate) fn new(begin: u64, end: u64, outages: &[Outage]) -> Self {
        let mut outages = outages.to_vec();
        outages.sort_unstable_by_key(|outage| outage.from);
        let (mut times, mut from) = (Vec::new(), begin);
        for outage in outages {
            if outage.from > from {
                times.push((from, outage.from.min(end)));
            }
            from = from.max(outage.to);
        }
        if from < end {
            times.push((from, end));
        }
        times.retain(|(from, to)| from < to);
        Self { times, begin, end }
    }

    /// Returns whether there was no outage at the beginning.
    pub(crate) fn is_from_the_first(&self) -> bool {
        self.times
            .first()
            .is_some_and(|(from, _)| *from == self.begin)
    }

    pub(crate) fn contains(&self, micros: u64) -> bool {
        let after = self.times.partition_point(|(from, _)| *from <= micros);
        after > 0 && micros < self.times[after - 1].1
    }

    /// Returns how much of an interval is uptime.
    pub(crate) fn shared(&self, from: u64, to: u64) -> u64 {
        let times = self.times.iter();
        times
            .map(|(start, end)| to.min(*end).saturating_sub(from.max(*start)))
            .sum()
    }

    pub(crate) fn micros(&self) -> u64 {
        self.times.iter().map(|(from, to)| to - from).sum()
    }
}

/// The used part of the capacity, and the minimum that must have been used.
#[derive(Clone, Debug)]
pub(crate) struct Used {
    /// The unit: "admissions" or "permit seconds".
    pub(crate) what: &'static str,
    pub(crate) used: f64,
    pub(crate) promised: f64,
    /// The minimum share of the promise.
    pub(crate) share: f64,
    pub(crate) up: f64,
    pub(crate) whole: f64,
}

impl Used {
    pub(crate) fn new(
        what: &'static str,
        used: f64,
        promised: f64,
        share: f64,
        uptime: &Uptime,
    ) -> Self {
        Self {
            what,
            used,
            promised,
            share,
            up: seconds(uptime.micros()),
            whole: seconds(uptime.end - uptime.begin),
        }
    }

    /// Returns whether enough was used. Without any promise, nothing was shown either.
    pub(crate) fn is_enough(&self) -> bool {
        self.promised > 0.0 && self.used >= self.share * self.promised
    }
}

impl std::fmt::Display for Used {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "used: {:.1} of {:.1} {} in the {:.3} of {:.3} s in which the store could answer: \
             {:.1} %, of at least {:.0} %: {}",
            self.used,
            self.promised,
            self.what,
            self.up,
            self.whole,
            100.0 * self.used / self.promised,
            100.0 * self.share,
            if self.is_enough() {
                "enough"
            } else {
                "NOT USED: less was let go than was promised"
            }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_is_between_the_outages() {
        let outage = |from, to| Outage { from, to };
        let uptime = Uptime::new(
            10,
            100,
            &[
                outage(50, 60),
                outage(20, 30),
                outage(25, 40),
                outage(95, 120),
            ],
        );
        assert_eq!(uptime.times, [(10, 20), (40, 50), (60, 95)]);
        assert_eq!(uptime.micros(), 55);
        let inside = [10, 19, 40, 94].map(|micros| uptime.contains(micros));
        assert_eq!(inside, [true; 4]);
        let outside = [9, 20, 39, 50, 95, 200].map(|micros| uptime.contains(micros));
        assert_eq!(outside, [false; 6]);
        assert_eq!(uptime.shared(15, 65), 5 + 10 + 5);
        assert_eq!(Uptime::new(10, 100, &[outage(0, 200)]).times, []);
        assert_eq!(Uptime::new(10, 100, &[]).times, [(10, 100)]);
    }
}
