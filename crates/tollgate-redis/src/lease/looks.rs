//! [`Looks`]: when a process looks after the tickets of its waiters.
//!
//! 1. A message tells the process that a ticket fits, so it sends nothing meanwhile but a look each second, or
//!    less often if it waits for [many](super::group) semaphores, which repairs what was lost: messages, tickets,
//!    the data of the server. A look is about the first ticket, because a process that loses its place loses all tickets. If that one is missing, and every twenty seconds, all
//!    are named.
//! 2. A process that gets no messages polls: without a subscription; for about a look after it has lost its place
//!    although it is alive, or until a message arrives; and while the first version of the crate has leases, whose
//!    releases tell nobody. In the grace time nobody is served, so nobody polls.
//! 3. A look is earlier if the server says when a lease expires or its grace ends, or that the process before this
//!    one should have claimed by then. It is later if many tickets stand before the first one: each look serves the
//!    line, but the processes in front look earlier in most cases.

use std::time::{Duration, Instant};

/// The time for which a process that has lost its place polls.
const DEAF: Duration = Duration::from_secs(1);

/// The time after which a look names all tickets again: the server keeps one for a minute after it was named.
const ALL: Duration = Duration::from_secs(20);

/// The bounds of the time in which a process claims a ticket.
const SHORTEST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(1);

#[derive(Default)]
pub(super) struct Looks {
    /// The next look; `None` for at once.
    at: Option<Instant>,
    /// The look that the process before this one makes unnecessary.
    soon: Option<Instant>,
    /// When all tickets were named, unless they have to be named by the next look.
    named_all: Option<Instant>,
    /// The number of reasons to look at once.
    reasons: u64,
    /// Until then, messages are taken not to arrive, although the channel is subscribed.
    deaf_until: Option<Instant>,
    sees_first_version: bool,
    /// The mean of the last round trips.
    round_trip: Duration,
}

/// What the answer to a request says about the line.
pub(super) struct Line {
    /// The rest of the grace time.
    pub(super) grace: Duration,
    /// When this process has to look: the next lease expires, or those before it should have claimed.
    pub(super) soonest: Option<Duration>,
    pub(super) has_first_version: bool,
    /// A ticket of this process had lost its place.
    pub(super) was_missing: bool,
    /// The number of tickets before the first one of the request, if it is far from the front. The next look is later for
    /// each of them.
    pub(super) ahead: u64,
    /// The server tells this process about its tickets.
    pub(super) has_channel: bool,
}

/// A request under way.
#[derive(Clone, Copy)]
pub(super) struct Asked {
    pub(super) sent: Instant,
    reasons: u64,
    is_look: bool,
    /// It names all tickets.
    names_all: bool,
}

impl Looks {
    /// Creates the looks of a semaphore without waiters, in a process with this mean of the last round trips.
    pub(super) fn new(round_trip: Duration) -> Self {
        Self {
            round_trip,
            ..Self::default()
        }
    }

    /// Returns the mean of the last round trips.
    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip
    }

    pub(super) fn is_deaf(&self, now: Instant) -> bool {
        self.deaf_until.is_some_and(|until| now < until)
    }

    /// Returns whether a process polls that has this channel, or none.
    pub(super) fn polls(&self, has_channel: bool) -> bool {
        !has_channel || self.sees_first_version
    }

    /// Returns the time in which the process claims a ticket. `poll` is the time between two polls, and `paced` the
    /// part of it that the number of semaphores demands: only for that may it be longer than [`LONGEST`], because
    /// a process that waits for many is alive, and one that has set a long interval must not delay others.
    pub(super) fn patience(&self, has_channel: bool, poll: Duration, paced: Duration) -> Duration {
        let trips = 3 * self.round_trip;
        if self.polls(has_channel) {
            let longest = LONGEST.max(2 * paced + trips);
            (2 * poll + trips).clamp(SHORTEST, longest)
        } else {
            trips.clamp(SHORTEST, LONGEST)
        }
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.at.map(|at| self.soon.map_or(at, |soon| soon.min(at)))
    }

    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.next().is_none_or(|next| next <= now)
    }

    /// Returns whether a look of a process that has this channel, or none, names all tickets.
    pub(super) fn names_all(&self, now: Instant, has_channel: bool) -> bool {
        let was_lately = self.named_all.is_some_and(|at| now < at + ALL);
        self.polls(has_channel) || self.is_deaf(now) || !was_lately
    }

    pub(super) fn look_now(&mut self) {
        (self.at, self.named_all) = (None, None);
        self.reasons += 1;
    }

    /// A message has arrived, or the channel was subscribed anew.
    pub(super) fn heard(&mut self) {
        self.deaf_until = None;
    }

    pub(super) fn set_soon(&mut self, soon: Option<Instant>) {
        self.soon = soon;
    }

    pub(super) fn begin(&mut self, sent: Instant, is_look: bool, names_all: bool) -> Asked {
        if is_look {
            self.soon = None;
        }
        if names_all {
            self.named_all = Some(sent);
        }
        Asked {
            sent,
            reasons: self.reasons,
            is_look,
            names_all,
        }
    }

    /// A request was not answered, or failed: looks after a pause.
    pub(super) fn failed(&mut self, again: Instant) {
        (self.at, self.named_all) = (Some(again), None);
    }

    /// Handles an answer. `look` and `poll` are the times between two looks or polls.
    pub(super) fn answered(
        &mut self,
        asked: Asked,
        now: Instant,
        line: &Line,
        look: Duration,
        poll: Duration,
    ) {
        let trip = now - asked.sent;
        self.round_trip = match self.round_trip {
            Duration::ZERO => trip,
            mean => (7 * mean + trip) / 8,
        };
        self.sees_first_version = line.has_first_version;
        if line.was_missing && line.has_channel {
            self.deaf_until = Some(now + DEAF);
        }
        if self.reasons != asked.reasons {
            self.at = None;
            return;
        }
        // With jitter, so that the processes of a fleet do not all look at once.
        let pause = if line.was_missing && !asked.names_all {
            // The other tickets are missing too.
            self.named_all = None;
            Duration::ZERO
        } else if line.grace.is_zero() && (self.polls(line.has_channel) || self.is_deaf(now)) {
            poll.mul_f64(1.0 + fastrand::f64())
        } else {
            look.mul_f64(1.0 - fastrand::f64() / 10.0)
        };
        let mut at = now + pause;
        if !asked.is_look {
            at = self.at.map_or(at, |before| before.min(at));
        }
        if !line.grace.is_zero() {
            at = at.min(now + line.grace + poll.mul_f64(fastrand::f64()));
        }
        self.at = Some(at);
        let soonest = line.soonest.map(|soonest| now + soonest);
        self.soon = self.soon.into_iter().chain(soonest).min();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOK: Duration = Duration::from_secs(1);
    const POLL: Duration = Duration::from_millis(25);
    const LINE: Line = Line {
        grace: Duration::ZERO,
        soonest: None,
        has_first_version: false,
        was_missing: false,
        ahead: 0,
        has_channel: true,
    };

    fn look(looks: &mut Looks, now: Instant, line: &Line) -> Duration {
        let asked = looks.begin(now, true, true);
        looks.answered(asked, now, line, LOOK, POLL);
        looks.next().unwrap() - now
    }

    #[test]
    fn answered_with_a_channel_looks_each_second_and_polls_while_messages_are_missing() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        assert!(looks.is_due(now));
        assert!(look(&mut looks, now, &LINE) >= LOOK - LOOK / 10);
        let was_missing = true;
        assert!(
            look(
                &mut looks,
                now,
                &Line {
                    was_missing,
                    ..LINE
                }
            ) <= 2 * POLL
        );
        assert!(look(&mut looks, now, &LINE) <= 2 * POLL);
        looks.heard();
        assert!(look(&mut looks, now, &LINE) > 2 * POLL);
        let has_first_version = true;
        assert!(
            look(
                &mut looks,
                now,
                &Line {
                    has_first_version,
                    ..LINE
                }
            ) <= 2 * POLL
        );
        assert!(look(&mut looks, now, &LINE) > 2 * POLL);
        let has_channel = false;
        assert!(
            look(
                &mut looks,
                now,
                &Line {
                    has_channel,
                    ..LINE
                }
            ) <= 2 * POLL
        );
    }

    #[test]
    fn answered_after_a_lost_place_polls_for_one_look() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        let lost = Line {
            was_missing: true,
            ..LINE
        };
        look(&mut looks, now, &lost);
        // Meanwhile the process names no channel.
        let polls = Line {
            has_channel: false,
            ..lost
        };
        let last = now + LOOK - Duration::from_nanos(1);
        assert!(looks.is_deaf(last));
        assert!(look(&mut looks, last, &polls) <= 2 * POLL);
        assert!(!looks.is_deaf(now + LOOK));
        assert!(look(&mut looks, now + LOOK, &LINE) > 2 * POLL);
    }

    #[test]
    fn answered_in_the_grace_time_looks_at_its_end_and_each_second() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        for has_channel in [true, false] {
            let grace = |grace| Line {
                grace,
                has_channel,
                ..LINE
            };
            assert!(look(&mut looks, now, &grace(100 * LOOK)) >= LOOK - LOOK / 10);
            let first = look(&mut looks, now, &grace(LOOK / 2));
            assert!((LOOK / 2..=LOOK / 2 + POLL).contains(&first));
        }
    }

    #[test]
    fn answered_to_a_claim_brings_the_look_forward_and_never_back() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        look(&mut looks, now, &LINE);
        let before = looks.next();
        let asked = looks.begin(now, false, false);
        looks.answered(asked, now + LOOK / 2, &LINE, LOOK, POLL);
        assert_eq!(looks.next(), before);
        let soonest = Some(Duration::from_millis(7));
        looks.answered(asked, now, &Line { soonest, ..LINE }, LOOK, POLL);
        assert_eq!(looks.next(), Some(now + Duration::from_millis(7)));
        looks.look_now();
        looks.answered(asked, now, &LINE, LOOK, POLL);
        assert_eq!(looks.next(), None, "the reason came after the request");
    }

    #[test]
    fn set_soon_is_forgotten_when_the_process_is_told_or_looks() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        look(&mut looks, now, &LINE);
        looks.set_soon(Some(now + POLL));
        assert_eq!(looks.next(), Some(now + POLL));
        looks.set_soon(None);
        assert!(looks.next() > Some(now + POLL));
        looks.set_soon(Some(now + POLL));
        assert!(look(&mut looks, now, &LINE) > POLL);
    }

    #[test]
    fn names_all_each_twenty_seconds_without_messages_and_after_a_loss() {
        let (mut looks, now) = (Looks::default(), Instant::now());
        assert!(looks.names_all(now, true));
        look(&mut looks, now, &LINE);
        let last = now + ALL - Duration::from_nanos(1);
        assert!(!looks.names_all(last, true) && looks.names_all(last, false));
        assert!(looks.names_all(now + ALL, true));
        // Without its first ticket the process looks at once.
        let asked = looks.begin(now, true, false);
        let lost = Line {
            was_missing: true,
            ..LINE
        };
        looks.answered(asked, now, &lost, LOOK, POLL);
        assert!(looks.names_all(now, true) && looks.is_due(now));
        looks.begin(now, true, true);
        looks.look_now();
        assert!(looks.names_all(now, true));
    }

    #[test]
    fn patience_is_three_round_trips_within_its_bounds() {
        let mut looks = Looks::default();
        let none = Duration::ZERO;
        assert_eq!(looks.patience(true, POLL, none), SHORTEST);
        looks.round_trip = Duration::from_millis(40);
        assert_eq!(looks.patience(true, POLL, none), Duration::from_millis(120));
        assert_eq!(
            looks.patience(false, POLL, none),
            Duration::from_millis(170)
        );
        assert_eq!(looks.patience(false, 100 * POLL, none), LONGEST);
    }

    #[test]
    fn patience_of_polls_that_are_paced_has_room_for_two_of_them() {
        let looks = Looks {
            round_trip: Duration::from_millis(40),
            ..Looks::default()
        };
        for keys in [600, 1_000, 10_000] {
            let paced = Duration::from_millis(keys);
            assert!(looks.patience(false, paced, paced) >= 2 * paced);
            assert_eq!(looks.patience(true, paced, paced), 3 * looks.round_trip);
        }
    }
}
