//! The simulation: a client with endless demand and at most 64 requests in flight, at a server that
//! others use as well. Pure and discrete: only the seed and the client decide what happens.
//!
//! 1. The server counts a request when it arrives, 5 to 25 ms after it was sent, and then states what
//!    remains. The client sees the answer after the latency.
//! 2. A refusal with `Retry-After` stops the client for that long, as `PausesLayer` does.
//! 3. A client that knows the server's count sends as soon as more remains than is on the way. Its requests
//!    are what the server would have admitted.

use std::time::Duration;

use oorandom::Rand64;
use simulations::events::Events;
use tollgate::rate::Charge;
use tollgate::{Quota, RateLimiter};

use crate::server::{Said, Server};
use crate::{Counts, Latency, MINUTE, Nanos, Others, SECOND, World};

/// The most requests in flight.
const SLOTS: u64 = 64;

/// How long a request takes to reach the server, at least, and how much longer at most.
const SHORTEST_WAY: Nanos = SECOND / 200;
const WAYS_DIFFER: Nanos = SECOND / 50;

/// The times at which counting begins and ends.
const COUNTED: (Nanos, Nanos) = (2 * MINUTE, 22 * MINUTE);

/// How a client decides when to send.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// By the server's count.
    Knows,
    /// By a limiter that follows the server's headers.
    Follows,
    /// By such a limiter, and no faster than what it has left allows over a while.
    Spaced,
}

/// The result of a run.
#[derive(Clone, Copy, Default)]
pub(crate) struct Outcome {
    pub(crate) admitted: u64,
    pub(crate) refused: u64,
}

impl Outcome {
    /// In percent of all requests.
    pub(crate) fn refused(self) -> f64 {
        100.0 * self.refused as f64 / (self.refused + self.admitted) as f64
    }
}

/// A request in flight.
struct Request {
    charge: Option<Charge>,
    answered: Nanos,
    said: Said,
}

enum Event {
    /// The client sends if it may.
    Look,
    /// This many requests of others arrive.
    Others(u64),
    Arrive(Request),
    Answer(Request),
}

struct Simulation {
    world: World,
    kind: Kind,
    server: Server,
    limiter: RateLimiter,
    spacing: RateLimiter,
    events: Events<Event>,
    random: Rand64,
    under_way: u64,
    on_the_way: u64,
    /// When the pause after a refusal ends.
    stopped: Nanos,
    /// When the client looks next.
    looks: Nanos,
    outcome: Outcome,
}

/// Runs a client in a world.
pub(crate) fn run(world: &World, kind: Kind, seed: u64) -> Outcome {
    let events = Events::default();
    let limiter = match kind {
        Kind::Spaced => world.limiter(100, 1),
        _ => world.limiter(50, 2),
    };
    let mut simulation = Simulation {
        world: *world,
        kind,
        server: Server::new(world),
        limiter: limiter.clock(events.clock()),
        spacing: RateLimiter::new(Quota::UNLIMITED).clock(events.clock()),
        events,
        random: Rand64::new(u128::from(seed)),
        under_way: 0,
        on_the_way: 0,
        stopped: 0,
        looks: Nanos::MAX,
        outcome: Outcome::default(),
    };
    simulation.others(seed);
    simulation.run();
    simulation.outcome
}

impl Simulation {
    /// Adds the requests of others, which are the same for all clients.
    fn others(&mut self, seed: u64) {
        let mut random = Rand64::new(u128::from(seed) << 64);
        let each = 2 * MINUTE / self.world.quota;
        let mut tick = 0;
        while tick < COUNTED.1 {
            let (after, count) = match self.world.others {
                Others::Nobody => return,
                Others::Steady => (each * 9 / 10 + random.rand_range(0..each / 5), 1),
                Others::Bursts => {
                    let after = 5 * SECOND + random.rand_range(0..10 * SECOND);
                    (after, self.world.quota / 12)
                }
            };
            tick += after;
            self.events.at(tick, Event::Others(count));
        }
    }

    fn run(&mut self) {
        self.events.at(0, Event::Look);
        while let Some(event) = self.events.next_before(COUNTED.1) {
            let tick = self.events.now();
            match event {
                Event::Look => {
                    if tick == self.looks {
                        self.looks = Nanos::MAX;
                    }
                }
                Event::Others(count) => {
                    for _ in 0..count {
                        self.server.count(tick);
                    }
                }
                Event::Arrive(request) => self.arrive(tick, request),
                Event::Answer(request) => self.answer(tick, request),
            }
            self.send(tick);
        }
    }

    fn arrive(&mut self, now: Nanos, mut request: Request) {
        self.on_the_way -= 1;
        request.said = self.server.ask(now);
        if now >= COUNTED.0 {
            self.outcome.admitted += u64::from(request.said.admitted);
            self.outcome.refused += u64::from(!request.said.admitted);
        }
        self.events.at(request.answered, Event::Answer(request));
    }

    fn answer(&mut self, now: Nanos, request: Request) {
        self.under_way -= 1;
        let (said, Some(charge)) = (request.said, request.charge) else {
            return;
        };
        if !said.admitted {
            self.stopped = self.stopped.max(now + said.retry_after);
        }
        let used = self.world.most() - said.remaining;
        let reset_after = Duration::from_nanos(said.reset_after + WAYS_DIFFER);
        self.limiter.follow(&charge, used, reset_after);
        if !said.admitted {
            // The server has not counted it yet.
            self.limiter.refund(charge);
        }
    }

    fn send(&mut self, now: Nanos) {
        while self.under_way < SLOTS {
            let charge = match self.enter(now) {
                Ok(charge) => charge,
                Err(tick) => return self.look(tick.max(now + 1)),
            };
            self.under_way += 1;
            self.on_the_way += 1;
            let latency = match self.world.latency {
                Latency::Constant(latency) => latency,
                Latency::Spread => (5e7 * 600_f64.powf(self.random.rand_float())) as Nanos,
            };
            let way = SHORTEST_WAY + self.random.rand_range(0..WAYS_DIFFER);
            let request = Request {
                charge,
                answered: now + latency,
                said: Said::default(),
            };
            self.events.at(now + way, Event::Arrive(request));
        }
    }

    /// Looks again at this tick, or earlier.
    fn look(&mut self, tick: Nanos) {
        if tick < self.looks {
            self.looks = tick;
            self.events.at(tick, Event::Look);
        }
    }

    /// Returns the charge of a request that may be sent, or when to look again.
    fn enter(&mut self, now: Nanos) -> Result<Option<Charge>, Nanos> {
        if self.kind == Kind::Knows {
            return if self.server.remaining(now) > self.on_the_way {
                Ok(None)
            } else {
                Err(self.server.next(now))
            };
        }
        if now < self.stopped {
            return Err(self.stopped);
        }
        if self.kind == Kind::Spaced {
            self.space();
        }
        let later = |after: Option<Duration>| {
            let after = after.map_or(MINUTE, |after| after.as_nanos() as Nanos);
            now + after
        };
        let spaced = self.spacing.try_acquire();
        let spaced = spaced.map_err(|refused| later(refused.retry_after()))?;
        let charge = self.limiter.try_acquire();
        charge.map(Some).map_err(|refused| {
            self.spacing.refund(spaced);
            later(refused.retry_after())
        })
    }

    /// Admits in a while at most twice what is left: in the time in which the bucket refills, and for a log
    /// in three seconds. A fixed window may be used up at its beginning.
    fn space(&mut self) {
        let left = self.limiter.snapshot().available.max(1);
        let period = match self.world.counts {
            Counts::Window => return,
            Counts::Bucket => MINUTE * self.world.percent / 100,
            Counts::Log => 3 * SECOND,
        };
        let quota = Quota::new(2 * left, Duration::from_nanos(period));
        if self.spacing.quota() != quota {
            self.spacing.set_quota(quota);
        }
    }
}
