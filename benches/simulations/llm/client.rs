//! The client: 64 callers in a closed loop, which repeat what is refused. Only the seed and the client decide what
//! happens.
//!
//! A call takes 5 to 25 ms to the provider and back. The provider counts when it arrives, and the head of the response
//! comes 0.3 to 2 s later with the count of the arrival. The body takes 10 ms for each token.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use oorandom::Rand64;
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{Instant, sleep, sleep_until};
use tollgate::{Clock, Semaphore, Throttle};
use tollgate_http::server_limits::Unit;
use tollgate_http::{ApiLimits, NextStep, Pauses, ResponseClass};

use crate::provider::{Provider, wall_clock};
use crate::world::{Mix, Prompt, World};

const CALLERS: usize = 64;

/// The times without and with a count. The second is a whole number of windows.
const WARM_UP: Duration = Duration::from_secs(2 * 60);
const RUN: Duration = Duration::from_secs(6 * 60);

/// The client that decides when a call is sent.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// One that knows the state of the provider and what its calls will use.
    Ideal,
    /// `Pauses` and `ApiLimits`.
    Limits,
}

/// The result of a run.
#[derive(Clone, Default)]
pub(crate) struct Outcome {
    sent: f64,
    refused: f64,
    /// What the provider has counted for the client, by limit.
    pub(crate) counted: Vec<f64>,
}

impl Outcome {
    /// In percent of what was sent.
    pub(crate) fn refused(&self) -> f64 {
        100.0 * self.refused / self.sent
    }

    fn since(self, earlier: &Self) -> Self {
        let counted = self.counted.iter().zip(&earlier.counted);
        Self {
            sent: self.sent - earlier.sent,
            refused: self.refused - earlier.refused,
            counted: counted.map(|(now, then)| now - then).collect(),
        }
    }
}

struct Simulation {
    provider: RefCell<Provider>,
    random: RefCell<Rand64>,
    mix: Mix,
    start: Instant,
    pauses: Pauses,
    limits: ApiLimits<Prompt>,
    tokens_per_unit: u64,
    /// The turn of an ideal caller.
    turn: Semaphore,
    sent: Cell<f64>,
    refused: Cell<f64>,
}

impl Simulation {
    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn between(&self, least: f64, most: f64) -> Duration {
        let part = self.random.borrow_mut().rand_float();
        Duration::from_secs_f64(least + (most - least) * part)
    }

    fn way(&self) -> Duration {
        self.between(0.005, 0.025)
    }

    /// Sends a call. Returns the head of the response, and when the call arrived.
    async fn send(&self, prompt: &Prompt) -> (StatusCode, HeaderMap, f64) {
        sleep(self.way()).await;
        let arrived = self.now();
        let (status, headers) = self.provider.borrow_mut().arrive(prompt, arrived);
        self.sent.set(self.sent.get() + 1.0);
        if status == StatusCode::TOO_MANY_REQUESTS {
            self.refused.set(self.refused.get() + 1.0);
        } else {
            sleep(self.between(0.3, 2.0)).await;
            if prompt.fails {
                self.end(prompt, arrived);
            }
        }
        sleep(self.way()).await;
        (status, headers, arrived)
    }

    fn end(&self, prompt: &Prompt, arrived: f64) {
        let now = self.now();
        self.provider.borrow_mut().end(prompt, arrived, now, true);
    }

    /// Reads the body of a response.
    async fn read(&self, prompt: &Prompt, arrived: f64) {
        sleep(body(prompt)).await;
        self.end(prompt, arrived);
        sleep(self.way()).await;
    }

    async fn call(&self, prompt: &Prompt) {
        let mut call = self.pauses.call("https://example.com:443");
        let limits = self.limits.call(prompt);
        while call.ready().await.is_ok() {
            let charges = limits.enter().await.expect("it is open");
            if !call.send() {
                limits.rollback(charges);
                continue;
            }
            self.provider.borrow_mut().expect(prompt);
            let (status, headers, arrived) = self.send(prompt).await;
            let now = wall_clock(self.now());
            let class = ResponseClass::of(status, &headers, || now);
            let usage = charges.answered(status, &headers, class, now);
            let next = call.answered_with(status, &headers, class, true);
            if status == StatusCode::OK {
                self.read(prompt, arrived).await;
                usage.settle(Unit::Tokens, prompt.used().div_ceil(self.tokens_per_unit));
                usage.settle(Unit::OutputTokens, prompt.answer);
            }
            if next == NextStep::Return {
                return;
            }
        }
    }

    async fn call_ideally(&self, prompt: &Prompt) {
        let turn = self.turn.acquire().await.expect("it is open");
        loop {
            let wait = self.provider.borrow_mut().wait(prompt, self.now());
            if wait == 0.0 {
                break;
            }
            // What ends meanwhile may make room.
            sleep(Duration::from_secs_f64(wait.min(1.0))).await;
        }
        self.provider.borrow_mut().expect(prompt);
        drop(turn);
        let (status, _, arrived) = self.send(prompt).await;
        if status == StatusCode::OK {
            self.read(prompt, arrived).await;
        }
    }

    async fn caller(&self, kind: Kind) {
        sleep(self.between(0.0, 0.05)).await;
        loop {
            let prompt = self.mix.prompt(&mut self.random.borrow_mut());
            match kind {
                Kind::Ideal => self.call_ideally(&prompt).await,
                Kind::Limits => self.call(&prompt).await,
            }
        }
    }

    /// Makes the calls of another user, who takes 30 % of the limits, evenly with a jitter of a tenth.
    async fn other(self: Rc<Self>, seed: u64) {
        let mut random = Rand64::new(u128::from(seed) << 64);
        let sample: Vec<_> = (0..1000).map(|_| self.mix.prompt(&mut random)).collect();
        let each = 60.0 * self.provider.borrow().part(&sample) / 0.3;
        let mut at = 0.0;
        loop {
            at += each * (0.9 + 0.2 * random.rand_float());
            sleep_until(self.start + Duration::from_secs_f64(at)).await;
            let prompt = self.mix.prompt(&mut random);
            let head = Duration::from_secs_f64(0.3 + 1.7 * random.rand_float());
            let simulation = Rc::clone(&self);
            spawn_local(async move {
                let provider = &simulation.provider;
                let arrived = simulation.now();
                provider.borrow_mut().arrive_of_other(&prompt, arrived);
                sleep(if prompt.fails {
                    head
                } else {
                    head + body(&prompt)
                })
                .await;
                let now = simulation.now();
                provider.borrow_mut().end(&prompt, arrived, now, false);
            });
        }
    }

    fn outcome(&self) -> Outcome {
        let provider = self.provider.borrow();
        Outcome {
            sent: self.sent.get(),
            refused: self.refused.get(),
            counted: provider.meters.iter().map(|it| it.counted).collect(),
        }
    }
}

fn body(prompt: &Prompt) -> Duration {
    Duration::from_millis(10 * prompt.answer)
}

/// Runs a client in a world.
pub(crate) fn run(world: &World, kind: Kind, seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap();
    LocalSet::new().block_on(&runtime, async {
        let simulation = Rc::new(Simulation {
            provider: RefCell::new(Provider::new(world)),
            random: RefCell::new(Rand64::new(seed.into())),
            mix: world.mix,
            start: Instant::now(),
            pauses: Pauses::new().jitter_percent(0).clock(Clock::tokio()),
            limits: world.api_limits(),
            tokens_per_unit: world.tokens_per_unit(),
            turn: Semaphore::new(1),
            sent: Cell::default(),
            refused: Cell::default(),
        });
        for _ in 0..CALLERS {
            let simulation = Rc::clone(&simulation);
            spawn_local(async move { simulation.caller(kind).await });
        }
        if world.other {
            spawn_local(Rc::clone(&simulation).other(seed));
        }
        sleep(WARM_UP).await;
        let before = simulation.outcome();
        sleep(RUN).await;
        simulation.outcome().since(&before)
    })
}
