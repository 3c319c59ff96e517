//! [`Call`]: a request of a client, over all its attempts.

use std::fmt::{self, Display};
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::{HeaderMap, StatusCode};
use tollgate::time::Tick;

use super::alarm::{Sleep, sleep};
use super::origin::{Passage, Place, Refusal};
use super::{Paused, ResponseClass, Shared};

/// What a client does with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NextStep {
    /// It returns the answer to the caller.
    Return,
    /// It drops the answer, waits until the call is [ready](Call::ready), and sends the request again.
    Retry,
}

/// A request of a client, over all its attempts. It begins with [`Pauses::call`](super::Pauses::call).
///
/// Its place among those that wait, and the time that it may still wait, count from its beginning.
///
/// # Cancel safety
///
/// Dropping it gives up its place, or counts as a request without an answer, so that the next can go. Dropping the
/// future of [`ready`](Self::ready) alone loses nothing: the call keeps its place.
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use http::{HeaderMap, HeaderValue, StatusCode};
/// use tokio::time::Instant;
/// use tollgate::{Clock, Semaphore};
/// use tollgate_http::{NextStep, Paused, Pauses};
///
/// /// Stands in for a client, and for a server that is busy for five seconds.
/// async fn send(start: Instant) -> (StatusCode, HeaderMap) {
///     let mut headers = HeaderMap::new();
///     if start.elapsed() >= Duration::from_secs(5) {
///         return (StatusCode::OK, headers);
///     }
///     headers.insert("retry-after", HeaderValue::from(5));
///     (StatusCode::TOO_MANY_REQUESTS, headers)
/// }
///
/// /// Sends a request, and repeats it.
/// async fn get(pauses: &Pauses, slots: &Semaphore, start: Instant) -> Result<StatusCode, Paused> {
///     let mut call = pauses.call("https://example.com:443");
///     loop {
///         call.ready().await?;
///         // A call that waits for its origin holds no slot.
///         let slot = slots.acquire().await.expect("it is open");
///         if !call.send() {
///             // The origin was paused while the call waited for the slot.
///             continue;
///         }
///         let (status, headers) = send(start).await;
///         drop(slot);
///         if call.answered(status, &headers, true) == NextStep::Return {
///             return Ok(status);
///         }
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), Paused> {
/// let pauses = Pauses::new().jitter_percent(0).clock(Clock::tokio());
/// let (slots, start) = (Semaphore::new(8), Instant::now());
/// assert_eq!(get(&pauses, &slots, start).await?, StatusCode::OK);
/// assert_eq!(start.elapsed(), Duration::from_secs(5));
/// # Ok(())
/// # }
/// ```
pub struct Call<O: Display> {
    shared: Arc<Shared>,
    origin: O,
    place: Place,
    /// When the present attempt was sent, and the index of its counter.
    sent: Option<(Tick, usize)>,
    /// The wait of a request that was refused alone.
    delay: Option<Sleep>,
    repeats: u32,
    /// Whether the table may know the call.
    is_known: bool,
    /// The wait for another origin, which refused the last attempt after a redirect.
    redirected: Option<Box<Call<String>>>,
}

impl<O: Display> Call<O> {
    pub(super) fn new(shared: Arc<Shared>, origin: O) -> Self {
        let place = Place {
            began: shared.now(),
            number: shared.calls.fetch_add(1, Ordering::Relaxed),
        };
        Self {
            shared,
            origin,
            place,
            sent: None,
            delay: None,
            repeats: 0,
            is_known: false,
            redirected: None,
        }
    }

    /// Returns whether the request may be sent once more after the present attempt. If not, it need not be copied.
    ///
    /// # Examples
    ///
    /// ```
    /// use tollgate_http::Pauses;
    ///
    /// let pauses = Pauses::new().retries(0);
    /// assert!(!pauses.call("https://example.com:443").has_retries_left());
    /// ```
    pub fn has_retries_left(&self) -> bool {
        self.repeats < self.shared.settings.retries
    }

    fn deadline(&self) -> Tick {
        self.place
            .began
            .saturating_add(self.shared.settings.max_wait)
    }

    /// Waits until the request may be sent. Then enter other limits, and [send](Self::send) it.
    ///
    /// # Errors
    ///
    /// [`Paused`], at once if the wait would be longer than the call may wait, and otherwise when it has waited for
    /// that long.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub async fn ready(&mut self) -> Result<(), Paused> {
        poll_fn(|context| self.poll_ready(context)).await
    }

    /// Polls [`ready`](Self::ready).
    ///
    /// # Errors
    ///
    /// The same.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Paused>> {
        if let Some(redirected) = &mut self.redirected {
            ready!(redirected.poll_ready(context))?;
        }
        if let Some(delay) = &mut self.delay {
            // A wait without a timeout does not fail.
            let _over = ready!(delay.as_mut().poll(context));
            self.delay = None;
        }
        let shared = &self.shared;
        if shared.knows_none() {
            return Poll::Ready(Ok(()));
        }
        let (name, deadline, now) = (self.origin.to_string(), self.deadline(), shared.now());
        let mut waker = Some(context.waker().clone());
        let mut table = shared.lock();
        let passage = match table.origins.get_mut(&*name) {
            Some(known) => known.poll(self.place, deadline, &mut waker, now),
            None => table.without_room(&shared.settings, now),
        };
        self.is_known = true;
        let effects = shared.settle(&mut table, &name);
        drop(table);
        drop(waker);
        shared.apply(&name, effects);
        match passage {
            Passage::Passes => Poll::Ready(Ok(())),
            Passage::Waits => Poll::Pending,
            Passage::Refused(pause, until) => {
                Poll::Ready(Err(Paused::new(name, &pause, until, now)))
            }
        }
    }

    /// Returns whether the request may be sent now, and counts it as sent. Call it right before the request is sent:
    /// the origin may have been paused since the call was [ready](Self::ready). If it may not, give up what it has
    /// entered since, and wait again.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn send(&mut self) -> bool {
        if self.redirected.as_mut().is_some_and(|it| !it.send()) {
            return false;
        }
        let shared = &self.shared;
        let now = shared.now();
        let place = self.place;
        let may = shared.knows_none() || {
            self.is_known = true;
            let name = self.origin.to_string();
            shared
                .change(&name, |known| known.send(place, now))
                .unwrap_or(true)
        };
        if may {
            let counter = shared.counter(&self.origin);
            shared.counters[counter].0.fetch_add(1, Ordering::Relaxed);
            self.sent = Some((now, counter));
        } else if let Some(redirected) = &mut self.redirected {
            redirected.end_attempt();
        }
        may
    }

    /// Reads the head of the response, and returns what to do with it. `may_repeat` says whether the request can be
    /// sent again.
    ///
    /// A response is returned if it is a success, if the request cannot be repeated, has been
    /// [often enough](super::Pauses::retries), or would then wait for longer than it [may](super::Pauses::max_wait), if
    /// the budget is used up, or if it has `x-should-retry: false`. So the call that is refused for forty minutes returns
    /// that response, and later calls get [`Paused`] from [`ready`](Self::ready).
    ///
    /// A request that fails without a response is not answered: wait until the call is ready and send it again, or drop
    /// the call.
    ///
    /// # Examples
    ///
    /// See [the type](Self).
    pub fn answered(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        may_repeat: bool,
    ) -> NextStep {
        let class = self.shared.settings.class(status, headers);
        self.answered_with(status, class, may_repeat && !is_final(headers))
    }

    /// Does the same for a response of another origin, to which the client was redirected. A refusal pauses that origin,
    /// and the call then waits for both; for its own origin the response is no refusal.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::{HeaderMap, StatusCode};
    /// use tollgate_http::{NextStep, Pauses};
    ///
    /// let pauses = Pauses::new();
    /// let mut call = pauses.call("https://example.com:443");
    /// assert!(call.send());
    ///
    /// // The client has followed a redirect.
    /// let (origin, status) = ("https://example.org:443", StatusCode::TOO_MANY_REQUESTS);
    /// let next = call.answered_by(origin, status, &HeaderMap::new(), false);
    /// assert_eq!(next, NextStep::Return);
    /// assert!(pauses.check("https://example.org:443").is_err());
    /// assert!(pauses.check("https://example.com:443").is_ok());
    /// ```
    pub fn answered_by(
        &mut self,
        origin: impl Display,
        status: StatusCode,
        headers: &HeaderMap,
        may_repeat: bool,
    ) -> NextStep {
        let name = origin.to_string();
        if name == self.origin.to_string() {
            return self.answered(status, headers, may_repeat);
        }
        let known = self.redirected.take().filter(|it| it.origin == name);
        let mut redirected = known.unwrap_or_else(|| Box::new(self.redirected_to(name)));
        redirected.repeats = self.repeats;
        self.answered_with(status, ResponseClass::Success, false);
        let next = redirected.answered(status, headers, may_repeat);
        self.repeats = redirected.repeats;
        self.redirected = (next == NextStep::Retry).then_some(redirected);
        next
    }

    /// Returns a call to another origin, which has the place of this one and was sent when this one was.
    fn redirected_to(&self, origin: String) -> Call<String> {
        let shared = Arc::clone(&self.shared);
        let sent = self.sent.map(|(sent, _)| {
            let counter = shared.counter(&origin);
            shared.counters[counter].0.fetch_add(1, Ordering::Relaxed);
            (sent, counter)
        });
        Call {
            shared,
            origin,
            place: self.place,
            sent,
            delay: None,
            repeats: self.repeats,
            is_known: false,
            redirected: None,
        }
    }

    /// Does the same for a response of this class, for protocols that refuse in another way.
    ///
    /// # Examples
    ///
    /// ```
    /// use http::StatusCode;
    /// use tollgate_http::{NextStep, Pauses, ResponseClass};
    ///
    /// // An API that answers 200 and says in the body that it is overloaded.
    /// let pauses = Pauses::new();
    /// let mut call = pauses.call("https://example.com:443");
    /// assert!(call.send());
    /// let class = ResponseClass::Refused(None);
    /// assert_eq!(call.answered_with(StatusCode::OK, class, false), NextStep::Return);
    /// assert!(pauses.check("https://example.com:443").is_err());
    /// ```
    pub fn answered_with(
        &mut self,
        status: StatusCode,
        class: ResponseClass,
        may_repeat: bool,
    ) -> NextStep {
        self.redirected = None;
        let shared = &self.shared;
        let now = shared.now();
        let (sent, place) = (self.sent.map_or(now, |(sent, _)| sent), self.place);
        if class == ResponseClass::Success && shared.knows_none() {
            self.end_attempt();
            return NextStep::Return;
        }
        let name = self.origin.to_string();
        let is_recorded = match class {
            ResponseClass::Success => {
                shared.change(&name, |known| known.succeeded(place, sent, now));
                self.end_attempt();
                return NextStep::Return;
            }
            ResponseClass::RefusedAlone => {
                self.leave();
                true
            }
            ResponseClass::Refused(asked) => {
                let (length, by) = shared.length(asked);
                let place = Some(place);
                let refusal = Refusal {
                    length,
                    by,
                    status,
                    place,
                    sent,
                };
                shared.pause(&name, &refusal, now)
            }
        };
        self.end_attempt();
        let alone = (class == ResponseClass::RefusedAlone).then(|| self.shared.delay(self.repeats));
        if may_repeat && is_recorded && self.take_repeat(&name, alone, now) {
            self.delay = alone.map(|delay| sleep(&self.shared.settings.clock, delay));
            self.repeats += 1;
            return NextStep::Retry;
        }
        NextStep::Return
    }

    /// Returns whether the request may be repeated, after a delay of its own or the pause of its origin.
    fn take_repeat(&self, name: &str, delay: Option<Duration>, now: Tick) -> bool {
        let shared = &self.shared;
        if self.repeats >= shared.settings.retries {
            return false;
        }
        let mut table = shared.lock();
        let paused_until = table.origins.get(name).map(|known| known.pause_of().until);
        let until = paused_until.unwrap_or_default();
        let until = until.max(now.saturating_add(delay.unwrap_or_default()));
        if until > self.deadline() {
            return false;
        }
        // The gate bounds the first repeats after a pause.
        let is_free = delay.is_none() && self.repeats == 0;
        let calls = shared.calls.load(Ordering::Relaxed);
        is_free || table.budget.take(calls, now)
    }

    /// Counts the present attempt as no longer in flight.
    fn end_attempt(&mut self) {
        if let Some((_, counter)) = self.sent.take() {
            self.shared.counters[counter]
                .0
                .fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Gives up the place and the pass.
    fn leave(&mut self) {
        if self.is_known && !self.shared.knows_none() {
            let name = self.origin.to_string();
            let place = self.place;
            let waker = self.shared.change(&name, |known| known.leave(place));
            drop(waker);
        }
    }
}

/// Returns whether the server asks the client not to repeat the request.
fn is_final(headers: &HeaderMap) -> bool {
    let field = headers.get("x-should-retry");
    field.is_some_and(|it| it == "false")
}

impl<O: Display> Drop for Call<O> {
    fn drop(&mut self) {
        self.end_attempt();
        self.leave();
    }
}

impl<O: Display> fmt::Debug for Call<O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Call")
            .field("origin", &format_args!("{}", self.origin))
            .field("sent", &self.sent.is_some())
            .field("repeats", &self.repeats)
            .finish_non_exhaustive()
    }
}
