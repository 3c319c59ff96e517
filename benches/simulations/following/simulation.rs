//! The simulation: clients with endless demand and at most 64 requests in flight each, at a server that
//! others use as well. Pure and discrete: only the seed and the clients decide what happens.
//!
//! 1. The server counts a request when it arrives, 5 to 25 ms after it was sent, and then states what
//!    remains. The client sees the answer after the latency.
//! 2. A refusal with `Retry-After` stops the client for that long, as `PausesLayer` does.
//! 3. A client that knows the server's count sends as soon as more remains than is on the way. Its requests
//!    are what the server would have admitted.
//! 4. Others that can be refused see the answer at once, and send one request after the other.

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

/// When counting begins.
const WARM: Nanos = 2 * MINUTE;

/// How a client decides when to send.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// By the server's count.
    Knows,
    /// By a limiter that follows the server's headers. Beside others, it is spaced.
    Follows,
}

/// What a client, or others, got.
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

    fn count(&mut self, said: Said) {
        self.admitted += u64::from(said.admitted);
        self.refused += u64::from(!said.admitted);
    }
}

/// A request in flight.
struct Request {
    client: usize,
    charge: Option<Charge>,
    answered: Nanos,
    said: Said,
}

enum Event {
    /// A client sends if it may.
    Look(usize),
    /// This many requests of others arrive, which are counted with or without room.
    Counted(u64),
    /// A request of others arrives, which can be refused. It is the last of so many refusals in succession.
    Asked(u32),
    Arrive(Request),
    Answer(Request),
}

struct Client {
    limiter: RateLimiter,
    spacing: RateLimiter,
    under_way: u64,
    on_the_way: u64,
    /// When the pause after a refusal ends.
    stopped: Nanos,
    /// When the client looks next.
    looks: Nanos,
    outcome: Outcome,
    /// What others use, as the last answer showed.
    others: u64,
}

impl Client {
    /// Returns the time until the next request, as `ApiLimit` does.
    fn space(&self, world: &World, charge: &Charge) -> Nanos {
        let left = self.limiter.snapshot();
        match world.counts {
            Counts::Bucket => MINUTE * world.percent / 100 / (2 * (left.available + 1)),
            Counts::Log => {
                let pace = MINUTE * 8 / (9 * left.limit.saturating_sub(self.others).max(1));
                pace.max(MINUTE / (80 * (left.available + 1)))
            }
            Counts::Window => {
                let until_end = self.limiter.decision(charge).reset_after.as_nanos() as Nanos;
                (2 * until_end / left.available.max(1)).min(until_end + 1000)
            }
        }
    }
}

struct Simulation {
    world: World,
    kind: Kind,
    server: Server,
    clients: Vec<Client>,
    events: Events<Event>,
    random: Rand64,
    /// The source of the requests of others, which are the same for all clients.
    of_others: Rand64,
    /// What others got that can be refused.
    others: Outcome,
    end: Nanos,
}

/// Runs a client in a world. Returns its outcome, and that of the others if they can be refused.
pub(crate) fn run(world: &World, kind: Kind, seed: u64) -> (Outcome, Outcome) {
    let events = Events::default();
    let client = || Client {
        limiter: world.limiter().clock(events.clock()),
        spacing: RateLimiter::new(Quota::new(1, Duration::from_nanos(1))).clock(events.clock()),
        under_way: 0,
        on_the_way: 0,
        stopped: 0,
        looks: Nanos::MAX,
        outcome: Outcome::default(),
        others: 0,
    };
    let clients = match world.others {
        Others::Ours => vec![client(), client()],
        _ => vec![client()],
    };
    let mut simulation = Simulation {
        world: *world,
        kind,
        server: Server::new(world),
        clients,
        events,
        random: Rand64::new(u128::from(seed)),
        of_others: Rand64::new(u128::from(seed) << 64),
        others: Outcome::default(),
        end: WARM + world.minutes() * MINUTE,
    };
    simulation.run();
    match simulation.clients[..] {
        [ref client, ref other] => (client.outcome, other.outcome),
        _ => (simulation.clients[0].outcome, simulation.others),
    }
}

impl Simulation {
    /// Returns the time between two requests of others, if each is one that takes this part of the quota.
    fn between(&mut self, percent: u64) -> Nanos {
        let each = 100 * MINUTE / (self.world.quota * percent);
        each * 9 / 10 + self.of_others.rand_range(0..each / 5)
    }

    /// Adds the next requests of others.
    fn others(&mut self, refusals: u32, retry_after: Nanos) {
        let (after, event) = match self.world.others {
            Others::Nobody | Others::Ours => return,
            Others::Steady(percent) => (self.between(percent), Event::Counted(1)),
            Others::Bursts => {
                let after = 5 * SECOND + self.of_others.rand_range(0..10 * SECOND);
                (after, Event::Counted(self.world.quota / 12))
            }
            Others::StepsBack => {
                let pause = self.between(50).saturating_mul(1 << refusals.min(6));
                (pause.max(retry_after), Event::Asked(refusals))
            }
            Others::Pushes if refusals > 0 => (retry_after, Event::Asked(refusals)),
            Others::Pushes => (self.between(75), Event::Asked(0)),
        };
        self.events.after(Duration::from_nanos(after), event);
    }

    fn run(&mut self) {
        for client in 0..self.clients.len() {
            self.events.at(0, Event::Look(client));
        }
        self.others(0, 0);
        while let Some(event) = self.events.next_before(self.end) {
            let now = self.events.now();
            match event {
                Event::Look(client) => {
                    if now == self.clients[client].looks {
                        self.clients[client].looks = Nanos::MAX;
                    }
                }
                Event::Counted(count) => {
                    for _ in 0..count {
                        self.server.count(now);
                    }
                    self.others(0, 0);
                }
                Event::Asked(refusals) => {
                    let said = self.server.ask(now);
                    if now >= WARM {
                        self.others.count(said);
                    }
                    if said.admitted {
                        self.others(0, 0);
                    } else {
                        self.others(refusals + 1, said.retry_after);
                    }
                }
                Event::Arrive(request) => self.arrive(now, request),
                Event::Answer(request) => self.answer(now, request),
            }
            for client in 0..self.clients.len() {
                self.send(client, now);
            }
        }
    }

    fn arrive(&mut self, now: Nanos, mut request: Request) {
        let client = &mut self.clients[request.client];
        client.on_the_way -= 1;
        request.said = self.server.ask(now);
        if now >= WARM {
            client.outcome.count(request.said);
        }
        self.events.at(request.answered, Event::Answer(request));
    }

    fn answer(&mut self, now: Nanos, request: Request) {
        let client = &mut self.clients[request.client];
        client.under_way -= 1;
        let (said, Some(charge)) = (request.said, request.charge) else {
            return;
        };
        if !said.admitted {
            client.stopped = client.stopped.max(now + said.retry_after);
        }
        let used = self.world.most() - said.remaining;
        let reset_after = Duration::from_nanos(said.reset_after + WAYS_DIFFER);
        client.others = client.limiter.follow(&charge, used, reset_after);
        if !said.admitted {
            // The server has not counted it yet.
            client.limiter.refund(charge);
        }
    }

    fn send(&mut self, client: usize, now: Nanos) {
        while self.clients[client].under_way < SLOTS {
            let charge = match self.enter(client, now) {
                Ok(charge) => charge,
                Err(tick) => return self.look(client, tick.max(now + 1)),
            };
            self.clients[client].under_way += 1;
            self.clients[client].on_the_way += 1;
            let latency = match self.world.latency {
                Latency::Constant(latency) => latency,
                Latency::Spread => (5e7 * 600_f64.powf(self.random.rand_float())) as Nanos,
            };
            let way = SHORTEST_WAY + self.random.rand_range(0..WAYS_DIFFER);
            let request = Request {
                client,
                charge,
                answered: now + latency,
                said: Said::default(),
            };
            self.events.at(now + way, Event::Arrive(request));
        }
    }

    /// Looks again at this tick, or earlier.
    fn look(&mut self, client: usize, tick: Nanos) {
        let looks = &mut self.clients[client].looks;
        if tick < *looks {
            *looks = tick;
            self.events.at(tick, Event::Look(client));
        }
    }

    /// Returns the charge of a request that may be sent, or when to look again.
    fn enter(&mut self, client: usize, now: Nanos) -> Result<Option<Charge>, Nanos> {
        let client = &mut self.clients[client];
        if self.kind == Kind::Knows {
            return if self.server.remaining(now) > client.on_the_way {
                Ok(None)
            } else {
                Err(self.server.next(now))
            };
        }
        if now < client.stopped {
            return Err(client.stopped);
        }
        let later = |after: Option<Duration>| {
            let after = after.map_or(MINUTE, |after| after.as_nanos() as Nanos);
            now + after
        };
        let spaced = client.spacing.try_acquire();
        let spaced = spaced.map_err(|refused| later(refused.retry_after()))?;
        client.spacing.refund(spaced);
        let charge = client.limiter.try_acquire();
        let charge = charge.map_err(|refused| later(refused.retry_after()))?;
        if self.world.is_spaced() {
            let nanos = client.space(&self.world, &charge);
            client.spacing.charge(nanos);
        }
        Ok(Some(charge))
    }
}
