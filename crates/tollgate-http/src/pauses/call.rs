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
use super::table::Shared;
use super::wake::contain_panic;
use super::{Paused, PausedBy, ResponseClass};

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
/// Its place among those that wait is that of its beginning.
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
    /// How long it may still wait, and since when it waits, if it does.
    may_wait: Duration,
    waits_since: Option<Tick>,
    /// The wait of a request that was refused alone.
    delay: Option<Sleep>,
    repeats: u32,
    /// Whether the table may have a waker or a pass of the call.
    is_known: bool,
    /// The wait for another origin, which refused the last attempt after a redirect.
    redirected: Option<Box<Call<String>>>,
}

impl<O: Display> Call<O> {
    pub(super) fn new(shared: Arc<Shared>, origin: O) -> Self {
        let place = shared.calls.fetch_add(1, Ordering::Relaxed);
        Self::at(shared, origin, place)
    }

    /// Creates a call with a place.
    fn at(shared: Arc<Shared>, origin: O, place: Place) -> Self {
        Self {
            may_wait: shared.settings.max_wait,
            shared,
            origin,
            place,
            sent: None,
            waits_since: None,
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

    /// Waits until the request may be sent. Then enter other limits, and [send](Self::send) it.
    ///
    /// # Errors
    ///
    /// [`Paused`], at once if the wait would be longer than the call [may wait](super::Pauses::max_wait), and otherwise
    /// when it has waited for that long.
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
        if self.waits_since.is_none() && self.shared.knows_none() {
            return Poll::Ready(Ok(()));
        }
        let now = self.shared.now();
        let since = *self.waits_since.get_or_insert(now);
        let waited = ready!(self.poll_waits(context, since.saturating_add(self.may_wait), now));
        self.may_wait = self.may_wait.saturating_sub(now.saturating_since(since));
        self.waits_since = None;
        Poll::Ready(waited)
    }

    fn poll_waits(
        &mut self,
        context: &mut Context<'_>,
        deadline: Tick,
        now: Tick,
    ) -> Poll<Result<(), Paused>> {
        if let Some(redirected) = &mut self.redirected {
            ready!(redirected.poll_ready(context))?;
        }
        if let Some(delay) = &mut self.delay {
            // A wait without a timeout does not fail.
            let _over = ready!(delay.as_mut().poll(context));
            self.delay = None;
        }
        let (shared, place) = (&self.shared, self.place);
        let name = self.origin.to_string();
        // Cloned before and dropped after the lock.
        let mut waker = Some(context.waker().clone());
        let polled = shared.change(&name, now, |known| {
            known.poll(place, deadline, &mut waker, now)
        });
        self.is_known |= polled.is_some();
        let passage = polled.map_or_else(|| shared.poll_unknown(now), |(passage, _)| passage);
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
        let (shared, place, now) = (&self.shared, self.place, self.shared.now());
        let may = shared.knows_none() || {
            let name = self.origin.to_string();
            let sent = shared.change(&name, now, |known| known.send(place, now));
            self.is_known |= sent.is_some();
            sent.map_or_else(
                || matches!(shared.poll_unknown(now), Passage::Passes),
                |(may, _waker)| may,
            )
        };
        if may {
            // The last attempt may have failed without a response.
            let is_repeat = self.repeats > 0 || self.sent.is_some();
            self.end_attempt();
            let counter = self.shared.begin_flight(&self.origin, is_repeat);
            self.sent = Some((now, counter));
        } else if let Some(redirected) = &mut self.redirected {
            redirected.end_attempt();
        }
        may
    }

    /// Returns the time since the present attempt was [sent](Self::send), until it is answered.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use tollgate::Clock;
    /// use tollgate_http::Pauses;
    ///
    /// let clock = Clock::manual();
    /// let mut call = Pauses::new().clock(&clock).call("https://example.com:443");
    /// assert_eq!(call.latency(), None);
    /// assert!(call.send());
    /// clock.advance(Duration::from_secs(3));
    /// assert_eq!(call.latency(), Some(Duration::from_secs(3)));
    /// ```
    pub fn latency(&self) -> Option<Duration> {
        let (sent, _) = self.sent?;
        Some(self.shared.now().saturating_since(sent))
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
        self.answered_with(status, headers, class, may_repeat)
    }

    /// Does the same for a response of this [class](super::Pauses::class), which another origin may have sent, to which the
    /// client was redirected. A refusal pauses that origin, and the call then waits for both; for its own origin the response
    /// is no refusal.
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
    /// let (status, headers) = (StatusCode::TOO_MANY_REQUESTS, HeaderMap::new());
    /// let class = pauses.class(status, &headers);
    /// let next = call.answered_by("https://example.org:443", status, &headers, class, false);
    /// assert_eq!(next, NextStep::Return);
    /// assert!(pauses.check("https://example.org:443").is_err());
    /// assert!(pauses.check("https://example.com:443").is_ok());
    /// ```
    pub fn answered_by(
        &mut self,
        origin: impl Display,
        status: StatusCode,
        headers: &HeaderMap,
        class: ResponseClass,
        may_repeat: bool,
    ) -> NextStep {
        let name = origin.to_string();
        if name == self.origin.to_string() {
            return self.answered_with(status, headers, class, may_repeat);
        }
        let known = self.redirected.take().filter(|it| it.origin == name);
        let mut redirected = known.unwrap_or_else(|| Box::new(self.redirected_to(name)));
        (redirected.repeats, redirected.may_wait) = (self.repeats, self.may_wait);
        self.answered_with(status, headers, ResponseClass::Success, false);
        let next = redirected.answered_with(status, headers, class, may_repeat);
        self.repeats = redirected.repeats;
        // While the other call waits, so does this one.
        self.waits_since = redirected.waits_since;
        self.redirected = (next == NextStep::Retry).then_some(redirected);
        next
    }

    /// Returns a call to another origin, which has the place of this one and was sent when this one was.
    fn redirected_to(&self, origin: String) -> Call<String> {
        let shared = Arc::clone(&self.shared);
        let sent = self
            .sent
            .map(|(sent, _)| (sent, shared.begin_flight(&origin, self.repeats > 0)));
        let mut call = Call::at(shared, origin, self.place);
        call.sent = sent;
        call
    }

    /// Does the same as [`answered`](Self::answered) for a response of this class, for example because its body was read, or
    /// for protocols that refuse in another way.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use http::{HeaderMap, StatusCode};
    /// use tollgate_http::{NextStep, Pauses, ResponseClass};
    ///
    /// // An API that answers 200 and says in the body that it is overloaded for seven seconds.
    /// let pauses = Pauses::new();
    /// let mut call = pauses.call("https://example.com:443");
    /// assert!(call.send());
    /// let class = ResponseClass::Refused(Some(Duration::from_secs(7)));
    /// let next = call.answered_with(StatusCode::OK, &HeaderMap::new(), class, false);
    /// assert_eq!(next, NextStep::Return);
    /// assert!(pauses.check("https://example.com:443").is_err());
    /// ```
    pub fn answered_with(
        &mut self,
        status: StatusCode,
        headers: &HeaderMap,
        class: ResponseClass,
        may_repeat: bool,
    ) -> NextStep {
        self.redirected = None;
        if class == ResponseClass::Success && self.shared.knows_none() {
            self.end_attempt();
            return NextStep::Return;
        }
        let (shared, place) = (Arc::clone(&self.shared), self.place);
        let (name, now) = (self.origin.to_string(), shared.now());
        let sent = self.sent.map_or(now, |(sent, _)| sent);
        // From here on, the table has no pass of the call.
        self.is_known = false;
        let is_refused = match class {
            ResponseClass::Success => {
                shared.change(&name, now, |known| known.succeeded(place, sent, now));
                false
            }
            ResponseClass::RefusedAlone => {
                shared.change(&name, now, |known| known.leave(place));
                true
            }
            ResponseClass::Refused(asked) => {
                let asked = asked.filter(|wait| !wait.is_zero());
                let by = asked.map_or(PausedBy::Guess, |_| PausedBy::Server);
                let refusal = Refusal {
                    asked: asked.map(|wait| wait.min(shared.settings.max_pause)),
                    by,
                    status,
                    jitter: shared.settings.jitter(),
                    place: Some(place),
                    sent,
                };
                shared.pause(&name, &refusal, now)
            }
        };
        // A refused request counts as in flight until then.
        self.end_attempt();
        let is_alone = class == ResponseClass::RefusedAlone;
        let delay = is_alone.then(|| shared.settings.delay(self.repeats));
        let may_repeat = may_repeat && is_refused && !is_final(headers);
        if !(may_repeat && self.take_repeat(&name, delay, now)) {
            return NextStep::Return;
        }
        self.delay = delay.map(|delay| sleep(&shared.settings.clock, delay));
        self.waits_since = Some(now);
        self.repeats += 1;
        NextStep::Retry
    }

    /// Returns whether the request may be repeated, after a delay of its own or the pause of its origin.
    fn take_repeat(&self, name: &str, delay: Option<Duration>, now: Tick) -> bool {
        let shared = &self.shared;
        if !self.has_retries_left() {
            return false;
        }
        let paused_until = shared.pause_of(name).map(|pause| pause.until);
        let delayed_until = now.saturating_add(delay.unwrap_or_default());
        if paused_until.max(Some(delayed_until)) > Some(now.saturating_add(self.may_wait)) {
            return false;
        }
        // The gate bounds the first repeats after a pause.
        let is_free = delay.is_none() && self.repeats == 0;
        is_free || shared.take_repeat(name, now)
    }

    /// Counts the present attempt as no longer in flight.
    fn end_attempt(&mut self) {
        if let Some((_, counter)) = self.sent.take() {
            self.shared.end_flight(counter);
        }
    }

    /// Gives up the place and the pass.
    fn leave(&self) {
        if self.is_known && !self.shared.knows_none() {
            let (name, place, now) = (self.origin.to_string(), self.place, self.shared.now());
            // The waker is dropped after the lock.
            let _waker = self.shared.change(&name, now, |known| known.leave(place));
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
        // The name of the origin and the destructor of the waker are foreign code.
        contain_panic(|| self.leave());
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
