//! Following the count of a server, which it reports in its responses.

use std::sync::Arc;
use std::time::Duration;

use super::RateLimiter;
use super::acquire::Limiter;
use super::charge::Charge;

/// Following a server.
impl RateLimiter {
    /// Brings the limiter in step with a server's count: `used` is the server's limit minus the remaining
    /// part, from its response to the call that this charge was made for, and `reset_after` the time until
    /// its count restarts. Returns the use by others that counts beside the charges: in a bucket nothing, because
    /// it is charged.
    ///
    /// If others use the server's limit too, the server has counted more than this limiter. The
    /// difference counts as used here too: afterwards, the available capacity is at most the limit
    /// less `used`, and less the charges made after this charge. Following never makes the limiter
    /// admit more, except that a fixed window may end earlier, see below. The use in a response is
    /// ignored if a response to a later charge was followed before, or if the charge is from before
    /// a [`set_quota`](Self::set_quota) or a [pause](Self::pause_for), or of another limiter.
    ///
    /// The response should report the server's count at the arrival of the call. If it reports the
    /// count at the time when it is written, later calls may count twice until the next response,
    /// so the limiter is too careful. The server does not count a refused call:
    /// [refund](Self::refund) its charge after this call.
    ///
    /// The limiter should count like the server, with an [algorithm](Self::algorithm) like the
    /// server's, and a quota that is somewhat lower: reserve 2 % of the limit, and at least 2, for
    /// the use by others while a response is under way. Of a limit below 40, reserve at most a
    /// twentieth, and the 2 of the burst of a bucket. Not all calls take equally long to the
    /// server, so make the period longer than the server's by a thousandth, unless it is that of a
    /// fixed window.
    ///
    /// | the server counts by | algorithm | the use by others |
    /// |---|---|---|
    /// | a bucket that refills evenly | `Gcra`, with its burst | is paid off by time, but not before the response is read: others may use the refill until then |
    /// | a fixed window | `FixedWindow` | grows evenly until the window ends, `reset_after` after the charge, to at most twice the reported use |
    /// | a sliding log, or a sliding window | the same | stays the same until the next response; after a period without one, a call may go alone |
    ///
    /// Any other algorithm counts in the same way as `Gcra`, and the limiter is too careful.
    ///
    /// The first response sets the end of a fixed window. Later responses, to any charge, delay
    /// that end, or, once per window, move it up to a hundredth of the period earlier. In such a
    /// window, charges within a thousandth of the period after this one count as if the server had
    /// counted them, because calls overtake one another. Other algorithms ignore `reset_after`.
    ///
    /// A count above twice the burst counts as twice the burst. After the first `follow`, calls
    /// take the lock of the limiter. It remembers at most 4,096 charges without a response, in some
    /// 200 kB; a refund takes a time that is linear in their number. Charges made before the first
    /// `follow` count as if the server had counted them.
    ///
    /// # Spacing
    ///
    /// Suppose that a client always uses up the remaining capacity. If others take a part in a burst, or while the
    /// client has no response, the client learns of it only from refusals; and others who step back when they are
    /// refused get nothing. A second limiter in front, which counts nanoseconds, avoids that: it is charged the time until
    /// the next call may go. So the server keeps some capacity, and the reserve can be half of the above. After a call
    /// of cost 1 that left `available`, that time is
    ///
    /// | the server counts by | the time until the next call |
    /// |---|---|
    /// | a bucket | at twice the part that remained in the time in which the bucket refills |
    /// | a sliding log, or a sliding window | at twice the part that remained in a fortieth of the period, but not faster than 9/8 of what others leave, evenly |
    /// | a fixed window | at half of `available`, evenly until the window ends, at which time the next call may go in any case |
    ///
    /// In a fixed window, this only helps others. This one is for a bucket:
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let clock = Clock::manual();
    /// let limiter = RateLimiter::new(Quota::per_minute(99).burst(99)).clock(&clock);
    /// let spacing = RateLimiter::new(Quota::new(1, Duration::from_nanos(1))).clock(&clock);
    ///
    /// let turn = spacing.try_acquire()?;
    /// let charge = limiter.try_acquire()?;
    /// spacing.refund(turn);
    /// let remained = 1 + limiter.snapshot().available;
    /// spacing.charge(60_000_000_000 / (2 * remained));
    /// // After the answer:
    /// limiter.follow(&charge, 68, Duration::from_secs(41));
    /// assert_eq!(limiter.snapshot().available, 31);
    /// assert!(spacing.try_acquire().is_err());
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    ///
    /// # Examples
    ///
    /// ```
    /// use std::time::Duration;
    /// use tollgate::{Clock, Quota, RateLimiter};
    ///
    /// let limiter = RateLimiter::new(Quota::per_minute(98).burst(98)).clock(Clock::manual());
    /// let charge = limiter.try_acquire()?;
    /// // Of the server's 100, 40 remain: somebody else has used 59.
    /// limiter.follow(&charge, 60, Duration::from_secs(36));
    /// assert_eq!(limiter.snapshot().available, 38);
    ///
    /// let (first, second) = (limiter.try_acquire()?, limiter.try_acquire()?);
    /// // When the second call was counted, nobody else had come.
    /// limiter.follow(&second, 62, Duration::from_secs(37));
    /// limiter.follow(&first, 61, Duration::from_secs(36));
    /// assert_eq!(limiter.snapshot().available, 36);
    /// # Ok::<_, tollgate::AcquireError>(())
    /// ```
    pub fn follow(&self, charge: &Charge, used: u64, reset_after: Duration) -> u64 {
        let made = self.state_of_charge(charge);
        made.unwrap_or_else(|| self.here(Arc::clone))
            .change(|ledger, now| ledger.follow(&charge.0, used, reset_after, now))
    }
}
