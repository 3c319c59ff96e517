//! [`ApiCall`]: the limits of an API for one request, and [`ApiCharges`]: what was charged for it.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::SystemTime;

use http::{HeaderMap, StatusCode};
use tollgate::rate::Charge;
use tollgate::wait::Waiting;
use tollgate::{AcquireError, RateLimiter, Throttle};

use super::Shared;
use super::limit::{Charged, Made};
use crate::ResponseClass;
use crate::server_limits::{ServerLimits, Unit};

/// The limits of an API for one request, created by [`ApiLimits::call`](super::ApiLimits::call).
///
/// # Cancel safety
///
/// Dropping the future of [`enter`](Throttle::enter) gives up the place of the request, and charges nothing.
///
/// # Errors
///
/// Those of [`RateLimiter::acquire_many`], for example if the request costs more than a limit ever has room for.
#[derive(Clone)]
pub struct ApiCall {
    pub(super) costs: Arc<[u64]>,
    pub(super) shared: Arc<Shared>,
}

/// The wait for all limits.
#[must_use = "a future does nothing unless it is awaited"]
pub struct EnterApi(Stage);

enum Stage {
    /// It was not polled yet.
    Start(ApiCall),
    /// There was no room.
    Waits(Pin<Box<dyn Future<Output = Result<ApiCharges, AcquireError>> + Send>>),
}

impl Future for EnterApi {
    type Output = Result<ApiCharges, AcquireError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Stage::Start(call) = &self.0 {
            if let Some(charges) = call.enter_now() {
                return Poll::Ready(Ok(charges));
            }
            self.0 = Stage::Waits(Box::pin(call.clone().wait()));
        }
        let Stage::Waits(wait) = &mut self.0 else {
            unreachable!("it was made above");
        };
        wait.as_mut().poll(context)
    }
}

impl fmt::Debug for EnterApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EnterApi").finish_non_exhaustive()
    }
}

impl ApiCall {
    /// The limiters that the request enters, with their costs. A spacing costs a nanosecond,
    /// until the request has entered all.
    fn limiters(&self) -> impl Iterator<Item = (&Arc<RateLimiter>, u64)> {
        let limits = self.shared.limits.iter().zip(self.costs.iter().copied());
        limits.flat_map(|(limit, cost)| {
            let spacing = limit.spacing.as_ref();
            let spacing = spacing.map(|spacing| (&spacing.limiter, cost.min(1)));
            [Some((&limit.limiter, cost)), spacing]
                .into_iter()
                .flatten()
        })
    }

    /// Charges all limits, or none and returns the index of a limiter that has no room. `entered` is one that has been
    /// charged.
    fn try_charge(&self, entered: Option<(usize, Charge)>) -> Result<Vec<Option<Charge>>, usize> {
        let mut charges: Vec<_> = self.limiters().map(|_| None).collect();
        if let Some((index, charge)) = entered {
            charges[index] = Some(charge);
        }
        let mut limiters = self.limiters().zip(&mut charges);
        let full = limiters.position(|((limiter, cost), charge)| {
            if charge.is_none() {
                *charge = limiter.try_acquire_many(cost).ok();
            }
            charge.is_none()
        });
        let Some(full) = full else {
            return Ok(charges);
        };
        for ((limiter, _), charge) in self.limiters().zip(charges) {
            charge.into_iter().for_each(|it| limiter.refund(it));
        }
        Err(full)
    }

    /// Holds what is charged.
    fn keep(&self, charges: Vec<Option<Charge>>) -> ApiCharges {
        let mut charges = charges.into_iter().flatten();
        let made = self.shared.limits.iter().filter_map(|limit| {
            let charge = charges.next()?;
            if let Some(spacing) = &limit.spacing {
                spacing.limiter.refund(charges.next()?);
            }
            Some(limit.keep(charge))
        });
        ApiCharges {
            made: made.collect(),
            shared: Arc::clone(&self.shared),
        }
    }

    async fn wait(self) -> Result<ApiCharges, AcquireError> {
        let _turn = Arc::clone(&self.shared.turn).acquire_owned().await?;
        let mut entered = None;
        loop {
            match self.try_charge(entered.take()) {
                Ok(charges) => return Ok(self.keep(charges)),
                // It is kept only until the others are charged, without a wait.
                Err(index) => {
                    let (limiter, cost) = self.limiters().nth(index).expect("it has no room");
                    entered = Some((index, limiter.acquire_many(cost).await?));
                }
            }
        }
    }
}

impl Throttle for ApiCall {
    type Permit = ApiCharges;
    type Enter = EnterApi;

    fn enter(&self) -> Waiting<EnterApi> {
        Waiting::new(EnterApi(Stage::Start(self.clone())))
    }

    /// Takes back the charges of a request that was not sent.
    fn rollback(&self, permit: ApiCharges) {
        let limits = self.shared.limits.iter().zip(permit.made);
        limits.for_each(|(limit, made)| limit.roll_back(made));
    }

    fn enter_now(&self) -> Option<ApiCharges> {
        let _turn = self.shared.turn.try_acquire().ok()?;
        self.try_charge(None).ok().map(|charges| self.keep(charges))
    }
}

impl fmt::Debug for ApiCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiCall")
            .field("costs", &self.costs)
            .finish_non_exhaustive()
    }
}

/// What was charged for a request.
///
/// Dropping it counts the estimates, because a request that was sent and has no answer may have been counted.
#[must_use = "without the answer, the limits do not follow the server"]
pub struct ApiCharges {
    /// One for each limit.
    made: Vec<Made>,
    shared: Arc<Shared>,
}

impl ApiCharges {
    /// Reads the head of the response: each limit follows what the server reports, and is corrected to what the server has
    /// charged. What the request [will have used](Charged::Used) is held until it is [settled](Usage::settle).
    ///
    /// `class` is what the response means, and `now` is the time of its arrival, for fields with a point in time in a
    /// response without a date.
    ///
    /// # Examples
    ///
    /// See [`ApiLimits`](super::ApiLimits).
    pub fn answered(
        self,
        status: StatusCode,
        headers: &HeaderMap,
        class: ResponseClass,
        now: SystemTime,
    ) -> Usage {
        let server = ServerLimits::of(headers, now);
        let is_refused = class != ResponseClass::Success;
        let mut held = Vec::new();
        for (index, made) in self.made.into_iter().enumerate() {
            let limit = &self.shared.limits[index];
            limit.follow(&made, &server);
            match limit.charged(made.charge().cost(), is_refused, status, headers) {
                Charged::Exactly(units) if is_refused => limit.correct(made, units),
                Charged::Exactly(units) => limit.settle(made, units),
                Charged::Used if limit.holds => held.push((index, made)),
                // Dropping a hold settles it for its whole cost.
                Charged::Used | Charged::Estimate => drop(made),
            }
        }
        let is_held = !held.is_empty();
        let shared = self.shared;
        let made = Mutex::new(held);
        Usage(is_held.then(|| Arc::new(Held { made, shared })))
    }
}

impl fmt::Debug for ApiCharges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let costs = self.made.iter().map(|made| made.charge().cost());
        f.debug_list().entries(costs).finish()
    }
}

/// What a request has used, to be [settled](Self::settle) when it is known.
///
/// Clones share it. What is not settled when the last of them is dropped counts as the estimate. The adapters put one
/// into the extensions of a response, if a limit of the request is held: take a clone out before the body is read, because
/// clients drop the extensions then.
#[derive(Clone)]
pub struct Usage(Option<Arc<Held>>);

/// The held charges, with the indices of their limits.
struct Held {
    made: Mutex<Vec<(usize, Made)>>,
    shared: Arc<Shared>,
}

impl Usage {
    /// Settles the limit of this unit for what was used. Several limits of the unit are all settled. It does nothing if
    /// no limit of the unit is held, or it was settled before.
    ///
    /// # Examples
    ///
    /// See [`ApiLimits`](super::ApiLimits).
    pub fn settle(&self, unit: Unit, used: u64) {
        let Some(all) = &self.0 else {
            return;
        };
        let limits = &all.shared.limits;
        let mut held = all.lock();
        let settled = held.extract_if(.., |(index, _)| limits[*index].unit == unit);
        let settled: Vec<_> = settled.collect();
        // A settlement wakes tasks.
        drop(held);
        for (index, made) in settled {
            limits[index].settle(made, used);
        }
    }

    /// Returns whether nothing is held.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::{Duration, SystemTime};
    ///
    /// use http::{HeaderMap, StatusCode};
    /// use tollgate::Throttle;
    /// use tollgate_http::server_limits::Unit;
    /// use tollgate_http::{ApiLimit, ApiLimits, ResponseClass};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let tokens = ApiLimit::new(Unit::Tokens, 90_000, Duration::from_secs(60));
    /// let limits = ApiLimits::new([tokens.hold(|prompt: &str| prompt.len() as u64)]);
    ///
    /// let charges = limits.call("a prompt").enter().await?;
    /// let (status, headers) = (StatusCode::TOO_MANY_REQUESTS, HeaderMap::new());
    /// let usage = charges.answered(status, &headers, ResponseClass::Refused(None), SystemTime::now());
    /// assert!(usage.is_settled());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_settled(&self) -> bool {
        self.0.as_ref().is_none_or(|it| it.lock().is_empty())
    }
}

impl Held {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Made)>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Usage")
            .field("is_settled", &self.is_settled())
            .finish_non_exhaustive()
    }
}
