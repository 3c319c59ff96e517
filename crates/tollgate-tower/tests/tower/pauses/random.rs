//! Random requests to a service, and with closures, that wait, fail and panic. The requests are dropped in any stage. None
//! is sent in a pause, and at the end everything is given back.

use std::any::Any;
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind};
use std::task::Waker;

use proptest::collection::vec;
use proptest::prelude::*;
use tollgate::semaphore::OwnedPermit;
use tollgate::time::ManualClock;
use tollgate::{Gate, Quota, RateLimiter, Semaphore, all};

use super::*;

const ORIGINS: [&str; 2] = ["http://a.test:80", "http://b.test:80"];
const REQUESTS: usize = 8;
const SLOTS: usize = 2;
const BURST: u64 = 1000;

/// What foreign code does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Works,
    Waits,
    Fails,
    /// It panics after so many calls of foreign code.
    Panics(u32),
}

thread_local! {
    static DOES: Cell<Does> = const { Cell::new(Does::Works) };
}

/// Acts as foreign code. The panic is not reported.
fn act() -> Does {
    match DOES.get() {
        Does::Panics(0) => resume_unwind(Box::new("on purpose")),
        Does::Panics(calls) => {
            DOES.set(Does::Panics(calls - 1));
            Does::Works
        }
        does => does,
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Begins a request to an origin.
    Begin(usize, Does),
    /// Polls a request. A response has this status.
    Poll(usize, Does, u16),
    Drop(usize),
    /// Drops the bodies of all responses.
    Read,
    Pause(usize, u64),
    Resume(usize),
    Advance(u64),
    /// Opens or blocks the gate in the throttle.
    Block(bool),
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        12 => Just(Does::Works),
        3 => Just(Does::Waits),
        1 => Just(Does::Fails),
        1 => (0..6_u32).prop_map(Does::Panics),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let status = prop_oneof![4 => Just(200), 2 => Just(429), 1 => Just(503)];
    let poll = (0..REQUESTS, does(), status);
    prop_oneof![
        8 => (0..ORIGINS.len(), does()).prop_map(|(origin, does)| Step::Begin(origin, does)),
        30 => poll.prop_map(|(index, does, status)| Step::Poll(index, does, status)),
        2 => (0..REQUESTS).prop_map(Step::Drop),
        2 => Just(Step::Read),
        2 => (0..ORIGINS.len(), 1..5_u64).prop_map(|(origin, wait)| Step::Pause(origin, wait)),
        1 => (0..ORIGINS.len()).prop_map(Step::Resume),
        4 => (1..1500_u64).prop_map(Step::Advance),
        1 => any::<bool>().prop_map(Step::Block),
    ]
}

/// A service that acquires a permit to become ready, and returns it when it is called.
struct Foreign {
    pauses: Pauses,
    status: Arc<Mutex<u16>>,
    sent: Arc<Mutex<u64>>,
    permits: Arc<Semaphore>,
    reserved: Option<OwnedPermit>,
}

impl Clone for Foreign {
    fn clone(&self) -> Self {
        Self {
            pauses: self.pauses.clone(),
            status: Arc::clone(&self.status),
            sent: Arc::clone(&self.sent),
            permits: Arc::clone(&self.permits),
            reserved: None,
        }
    }
}

impl Service<Request<Body>> for Foreign {
    type Response = Response<Body>;
    type Error = &'static str;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
        if self.reserved.is_none() {
            let permit = Arc::clone(&self.permits).try_acquire_owned();
            self.reserved = Some(permit.expect("there is one for each request"));
        }
        match act() {
            Does::Waits => Poll::Pending,
            Does::Fails => Poll::Ready(Err("on purpose")),
            Does::Works | Does::Panics(_) => Poll::Ready(Ok(())),
        }
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let paused = self.pauses.check(origin_of(&request));
        assert_eq!(paused, Ok(()), "sent in a pause");
        *self.sent.lock().unwrap() += 1;
        drop(self.reserved.take().expect("it was made ready"));
        Answer(Arc::clone(&self.status))
    }
}

fn origin_of(request: &Request<Body>) -> String {
    format!("http://{}:80", request.uri().host().unwrap())
}

/// A response under way.
struct Answer(Arc<Mutex<u16>>);

impl Future for Answer {
    type Output = Result<Response<Body>, &'static str>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Self::Output> {
        match act() {
            Does::Waits => Poll::Pending,
            Does::Fails => Poll::Ready(Err("on purpose")),
            Does::Works | Does::Panics(_) => {
                let response = Response::builder().status(*self.0.lock().unwrap());
                Poll::Ready(Ok(response.body(Body::from("text")).unwrap()))
            }
        }
    }
}

/// A request, whose response is a body and its status.
type Sending = Pin<Box<dyn Future<Output = Option<(u16, Box<dyn Any>)>>>>;

struct World {
    pauses: Pauses,
    clock: ManualClock,
    slots: Arc<Semaphore>,
    rate: Arc<RateLimiter>,
    gate: Gate,
    inner: Foreign,
    begin: Box<dyn Fn(Request<Body>) -> Sending>,
    requests: [Option<Sending>; REQUESTS],
    bodies: Vec<Box<dyn Any>>,
}

impl World {
    fn new() -> Self {
        let clock = Clock::manual();
        let pauses = Pauses::new()
            .backoff(SECOND, 2 * SECOND)
            .classify(|_, _, class| {
                act();
                class
            })
            .clock(&clock);
        let slots = Arc::new(Semaphore::new(SLOTS));
        let quota = Quota::per_hour(1).burst(BURST);
        let rate = Arc::new(RateLimiter::new(quota).clock(&clock));
        let gate = Gate::new().clock(&clock);
        let inner = Foreign {
            pauses: pauses.clone(),
            status: Arc::new(Mutex::new(200)),
            sent: Arc::default(),
            permits: Arc::new(Semaphore::new(REQUESTS)),
            reserved: None,
        };
        let throttle = all((Arc::clone(&rate), gate.clone(), Arc::clone(&slots)));
        let copy = |body: &Body| {
            act();
            Some(body.clone())
        };
        let layer = PausesLayer::retrying(pauses.clone(), copy)
            .gate_by(|request| {
                act();
                origin_of(request)
            })
            .behind_by(move |_| {
                act();
                throttle.clone()
            })
            .retry_if(|_, _| act() != Does::Fails);
        let client = layer.layer(inner.clone());
        let begin = move |request| -> Sending {
            let sending = client.clone().call(request);
            Box::pin(async {
                let response = sending.await.ok()?;
                let status = response.status().as_u16();
                Some((status, Box::new(response.into_body()) as Box<dyn Any>))
            })
        };
        Self {
            pauses,
            clock,
            slots,
            rate,
            gate,
            inner,
            begin: Box::new(begin),
            requests: [const { None }; REQUESTS],
            bodies: Vec::new(),
        }
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Begin(origin, does) => {
                let Some(free) = self.requests.iter_mut().find(|it| it.is_none()) else {
                    return;
                };
                DOES.set(does);
                let request = request("GET", ORIGINS[origin]);
                *free = catch_unwind(AssertUnwindSafe(|| (self.begin)(request))).ok();
            }
            Step::Poll(index, does, status) => {
                let Some(sending) = &mut self.requests[index] else {
                    return;
                };
                DOES.set(does);
                *self.inner.status.lock().unwrap() = status;
                let mut context = Context::from_waker(Waker::noop());
                let polled = catch_unwind(AssertUnwindSafe(|| sending.as_mut().poll(&mut context)));
                DOES.set(Does::Works);
                match polled {
                    Ok(Poll::Pending) => return,
                    Ok(Poll::Ready(response)) => {
                        self.bodies.extend(response.map(|(_, body)| body));
                    }
                    Err(panic) => {
                        let message = panic.downcast_ref::<&str>();
                        assert_eq!(message, Some(&"on purpose"));
                    }
                }
                self.requests[index] = None;
            }
            Step::Drop(index) => self.requests[index] = None,
            Step::Read => self.bodies.clear(),
            Step::Pause(origin, wait) => {
                self.pauses
                    .pause(ORIGINS[origin], Duration::from_secs(wait));
            }
            Step::Resume(origin) => self.pauses.resume(ORIGINS[origin]),
            Step::Advance(millis) => self.clock.advance(Duration::from_millis(millis)),
            Step::Block(true) => self.gate.block_for(SECOND),
            Step::Block(false) => self.gate.open(),
        }
    }

    /// Checks that nothing is held but by the requests that were sent.
    fn finish(&mut self) {
        self.requests = [const { None }; REQUESTS];
        self.bodies.clear();
        assert_eq!(self.pauses.snapshot().waiting, 0);
        assert_eq!(self.slots.available_permits(), SLOTS);
        assert_eq!(self.inner.permits.available_permits(), REQUESTS);
        let sent = *self.inner.sent.lock().unwrap();
        assert_eq!(self.rate.snapshot().available, BURST - sent);
        // The origins are open for others.
        self.clock.advance(5 * SECOND);
        for origin in 0..ORIGINS.len() {
            self.take(Step::Begin(origin, Does::Works));
            self.take(Step::Poll(0, Does::Works, 200));
        }
        assert_eq!(self.bodies.len(), ORIGINS.len());
        assert_eq!(*self.inner.sent.lock().unwrap(), sent + 2);
        let nothing = tollgate_http::PausesSnapshot::default();
        assert_eq!(self.pauses.snapshot(), nothing);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn call_in_any_order_gives_back_what_was_not_sent(steps in vec(step(), 1..200)) {
        let mut world = World::new();
        for step in steps {
            world.take(step);
        }
        world.finish();
    }
}
