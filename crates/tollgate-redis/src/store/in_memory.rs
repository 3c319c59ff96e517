//! The constructors of a store without a server.

use std::sync::Arc;

use tokio::runtime::Handle;
use tollgate::Clock;

use super::Store;
use super::link::Link;
use super::memory_wire::InMemory;
use super::time::StoreTime;
use crate::memory::Memory;

impl Store {
    /// Creates a store in this process, without a server, for tests of programs that use limits across machines. It runs on
    /// the time of the current tokio runtime, which a test can pause.
    ///
    /// Every limit of this crate works on it as on a server. The limiters and the semaphore of tollgate decide, and
    /// everything else, such as queues, turns, renewals, refunds and statistics, is the code that a server has in front
    /// of it. Clones share the limits, as the stores of two processes on one server do: a limit that is created on each
    /// clone stands for a process of its own. Two stores that were created apart share nothing.
    ///
    /// With paused time (`tokio::time::pause`, or `start_paused`), waits take no real time and end at exact times, in
    /// whole milliseconds.
    ///
    /// | | in memory |
    /// |---|---|
    /// | `RateLimiter`, `Keyed`, `LimitSet`, `Detector` | decisions, waits, turns, reservations and refunds as on a server |
    /// | `Semaphore`, `Lease` | leases as on a server: they end when the ttl has passed on the clock, and fencing numbers rise; there is no [grace](crate::Semaphore::grace), because no data was lost |
    /// | [`Charge::at`](crate::Charge::at), windows | time begins at the Unix epoch when the store is created, so windows begin then; `at` of a call that costs nothing is the time of this machine, and that of a prefetched token the time at which the newest tokens were charged, as with a server |
    /// | `set_quota` | what is owed is rounded up, to a nanosecond of the rate; time until the change counts at the old rate, and on a server from the last charge on at the new one; a fixed window that has begun goes on |
    /// | a reservation that waits, of a sliding window or a log | its own time is that of a server; until then nothing more is admitted, where a server may admit up to what the reservation leaves |
    /// | a refund of a part of more than 4,096 tokens that were [prefetched](crate::RateLimiter::prefetch) in one call | up to a 4,096th of them may stay charged |
    /// | a refund behind which other charges were refunded | a server gives back less, see [`refund`](crate::RateLimiter::refund) |
    /// | outages, [`deadline`](Self::deadline), [`breaker`](Self::breaker), credentials | no call fails, so [fallbacks](crate::Fallback) do not decide; an address where nothing listens is an outage: `Store::new("redis://127.0.0.1:1/")` |
    /// | [`check`](Self::check) | has no warnings |
    ///
    /// A lease is lost in a test when the clock passes its ttl in one step, as if the process had stood still:
    /// `tokio::time::advance(ttl)`.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: waits need the timer of the current one.
    ///
    /// # Examples
    ///
    /// A function of a program that waits for a limit, and its test: without a server, and without a sleep.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tokio::time::Instant;
    /// use tollgate::{AcquireError, Quota};
    /// use tollgate_redis::{RateLimiter, Store};
    ///
    /// /// Sends each message, 10 in a second over all machines.
    /// async fn send_all(store: &Store, messages: &[&str]) -> Result<usize, AcquireError> {
    ///     let limiter = RateLimiter::new(store, "messages", Quota::per_second(10));
    ///     for _message in messages {
    ///         limiter.acquire().await?;
    ///     }
    ///     Ok(messages.len())
    /// }
    ///
    /// // In a test: `#[tokio::test(start_paused = true)]`.
    /// #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// async fn main() -> Result<(), AcquireError> {
    ///     let (store, start) = (Store::in_memory(), Instant::now());
    ///     assert_eq!(send_all(&store, &["a", "b", "c"]).await?, 3);
    ///     assert_eq!(start.elapsed(), Duration::from_millis(200));
    ///     // A clone stands for another process: together they send 10 in a second.
    ///     let other = store.clone();
    ///     let (one, two) = tokio::join!(send_all(&store, &["d"; 5]), send_all(&other, &["e"; 5]));
    ///     assert_eq!((one?, two?), (5, 5));
    ///     assert_eq!(start.elapsed(), Duration::from_millis(1200));
    ///     Ok(())
    /// }
    /// ```
    #[doc(alias = "mock")]
    #[doc(alias = "fake")]
    #[must_use]
    #[track_caller]
    pub fn in_memory() -> Self {
        Self::in_memory_on(Clock::tokio())
    }

    /// Creates a store [in memory](Self::in_memory) on a clock of tollgate, such as one that only moves when it is
    /// [advanced](tollgate::time::ManualClock::advance). Timeouts around its limits run on that clock, too.
    ///
    /// A clock that is advanced only wakes tasks, and a wait takes several of them: let the runtime run, for example with
    /// `tokio::task::yield_now` a few times, before it is advanced again. Tokio's paused time needs none of this.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime: the tasks of limits run on the current one.
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota};
    /// use tollgate_redis::{RateLimiter, Store};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), tollgate::AcquireError> {
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(&Store::in_memory_on(&clock), "calls", Quota::per_minute(1));
    /// limiter.try_acquire().await?;
    /// let refused = limiter.try_acquire().await.unwrap_err();
    /// assert_eq!(refused.retry_after(), Some(Duration::from_secs(60)));
    /// clock.advance(Duration::from_secs(60));
    /// limiter.try_acquire().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    #[track_caller]
    pub fn in_memory_on(clock: impl Into<Clock>) -> Self {
        let runtime = Handle::current();
        let time = StoreTime::on(clock.into(), runtime.clone());
        let memory = Arc::new(Memory::default());
        let link = Link::to_memory(InMemory::new(&memory, &time), runtime);
        let pushes = Arc::downgrade(&link.pushes);
        memory.open(
            link.pushes.channel(),
            Box::new(move |message| {
                let pushes = pushes.upgrade();
                pushes.inspect(|pushes| pushes.heard(message)).is_some()
            }),
        );
        Self::on(link, time)
    }
}
