//! Callers of a server through [`Pauses`].

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use oorandom::Rand64;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tollgate::{Clock, Semaphore};
use tollgate_http::{NextStep, Pauses, ResponseClass};

use super::server::Server;

/// How the callers behave.
#[derive(Clone)]
pub(crate) struct Setup {
    /// Callers that go on, one call after the other.
    pub(crate) callers: usize,
    /// Calls a second that come whatever happens to the others.
    pub(crate) open: f64,
    /// Each caller makes one call only.
    pub(crate) once: bool,
    pub(crate) seconds: f64,
    /// What the server can answer a second.
    pub(crate) capacity: f64,
    /// The callers of one client share these slots.
    pub(crate) slots: Option<usize>,
    /// The part of the calls that are dropped after some time.
    pub(crate) cancelled: f64,
    /// This part of the paths is an origin of its own.
    pub(crate) apart: f64,
}

impl Setup {
    pub(crate) fn closed(callers: usize, seconds: f64) -> Self {
        Self {
            callers,
            open: 0.0,
            once: false,
            seconds,
            capacity: 0.0,
            slots: None,
            cancelled: 0.0,
            apart: 0.0,
        }
    }
}

/// What happened, with the times in seconds.
#[derive(Default)]
pub(crate) struct Log {
    pub(crate) seconds: f64,
    pub(crate) capacity: f64,
    /// The last time that an answer took.
    pub(crate) latency: f64,
    pub(crate) sent: Vec<f64>,
    pub(crate) succeeded: Vec<f64>,
    pub(crate) refused: Vec<f64>,
    /// Refusals that callers got.
    pub(crate) returned: u32,
    /// Calls that were refused by the client.
    pub(crate) local: u32,
    pub(crate) by_caller: Vec<u32>,
    pub(crate) most_in_flight: usize,
}

impl Log {
    pub(crate) fn count(times: &[f64], from: f64, to: f64) -> f64 {
        times.iter().filter(|it| (from..to).contains(*it)).count() as f64
    }

    /// Returns the successes a second.
    pub(crate) fn rate(&self, from: f64, to: f64) -> f64 {
        Self::count(&self.succeeded, from, to) / (to - from)
    }

    /// Returns the refused part of the requests.
    pub(crate) fn refused_part(&self, from: f64, to: f64) -> f64 {
        let refused = Self::count(&self.refused, from, to);
        let answered = refused + Self::count(&self.succeeded, from, to);
        if answered == 0.0 {
            0.0
        } else {
            refused / answered
        }
    }
}

struct World<S> {
    server: RefCell<S>,
    log: RefCell<Log>,
    flight: Cell<usize>,
    random: RefCell<Rand64>,
    pauses: Pauses,
    slots: Option<Arc<Semaphore>>,
    start: Instant,
    setup: Setup,
}

impl<S: Server> World<S> {
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn random(&self) -> f64 {
        self.random.borrow_mut().rand_float()
    }

    /// Sends a request and waits for the answer.
    async fn send(&self, path: f64) -> (StatusCode, ResponseClass) {
        /// Counts a request while it is in flight.
        struct Flight<'a>(&'a Cell<usize>);

        impl Drop for Flight<'_> {
            fn drop(&mut self) {
                self.0.set(self.0.get() - 1);
            }
        }
        let now = self.now();
        let (status, meaning, latency) = self.server.borrow_mut().answer(now, path);
        {
            let mut log = self.log.borrow_mut();
            log.sent.push(now);
            log.latency = latency;
            self.flight.set(self.flight.get() + 1);
            log.most_in_flight = log.most_in_flight.max(self.flight.get());
        }
        let flight = Flight(&self.flight);
        let latency = latency * (0.8 + 0.4 * self.random());
        sleep(Duration::from_secs_f64(latency)).await;
        drop(flight);
        self.server.borrow_mut().done(status);
        let mut log = self.log.borrow_mut();
        let times = match meaning {
            ResponseClass::Success => &mut log.succeeded,
            _ => &mut log.refused,
        };
        times.push(self.start.elapsed().as_secs_f64());
        (StatusCode::from_u16(status).expect("a status"), meaning)
    }

    /// Makes a call with its repeats. Returns whether it succeeded.
    async fn call(&self) -> bool {
        let path = self.random();
        let origin = if path < self.setup.apart {
            "https://example.com:443/search"
        } else {
            "https://example.com:443"
        };
        let mut call = self.pauses.call(origin);
        loop {
            let slot = loop {
                if call.ready().await.is_err() {
                    self.log.borrow_mut().local += 1;
                    return false;
                }
                let slot = match &self.slots {
                    Some(slots) => Some(slots.acquire().await.expect("it is open")),
                    None => None,
                };
                if call.send() {
                    break slot;
                }
            };
            let (status, meaning) = self.send(path).await;
            drop(slot);
            let next = call.answered_with(status, &HeaderMap::new(), meaning, true);
            if next == NextStep::Return {
                let succeeded = meaning == ResponseClass::Success;
                self.log.borrow_mut().returned += u32::from(!succeeded);
                return succeeded;
            }
        }
    }

    /// Makes a call that may be dropped.
    async fn call_or_cancel(&self) -> bool {
        if self.random() >= self.setup.cancelled {
            return self.call().await;
        }
        let after = Duration::from_secs_f64(-3.0 * (1.0 - self.random()).ln());
        timeout(after, self.call()).await.unwrap_or(false)
    }
}

/// Runs a world, and returns what happened.
pub(crate) fn run<S: Server + 'static>(server: S, setup: Setup, seed: u64) -> Log {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let pauses = Pauses::new().clock(Clock::tokio());
        let world = Rc::new(World {
            server: RefCell::new(server),
            log: RefCell::new(Log {
                seconds: setup.seconds,
                capacity: setup.capacity,
                by_caller: vec![0; setup.callers],
                ..Log::default()
            }),
            flight: Cell::new(0),
            random: RefCell::new(Rand64::new(seed.into())),
            pauses,
            slots: setup.slots.map(|count| Arc::new(Semaphore::new(count))),
            start: Instant::now(),
            setup: setup.clone(),
        });
        for caller in 0..setup.callers {
            let world = Rc::clone(&world);
            spawn_local(async move {
                sleep(Duration::from_secs_f64(0.05 * world.random())).await;
                loop {
                    let succeeded = world.call_or_cancel().await;
                    world.log.borrow_mut().by_caller[caller] += u32::from(succeeded);
                    if world.setup.once {
                        return;
                    }
                    if !succeeded {
                        sleep(Duration::from_secs_f64(0.5 + world.random())).await;
                    }
                }
            });
        }
        if setup.open > 0.0 {
            let world = Rc::clone(&world);
            spawn_local(async move {
                // The timer counts in milliseconds, so the times add up here.
                let mut next = Duration::ZERO;
                loop {
                    let after = -(1.0 - world.random()).ln() / world.setup.open;
                    next += Duration::from_secs_f64(after);
                    sleep_until(world.start + next).await;
                    let world = Rc::clone(&world);
                    spawn_local(async move { world.call_or_cancel().await });
                }
            });
        }
        sleep(Duration::from_secs_f64(setup.seconds)).await;
        world.log.take()
    })
}
