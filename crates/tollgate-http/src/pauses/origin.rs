//! [`Origin`]: the pause of an origin, and who waits for its end. It is a value without a lock and without a clock:
//! each call that needs the time takes it.
//!
//! 1. Nothing passes before the end of the pause. Then an [`Opening`] gives passes to those who wait, in the order
//!    in which their calls began.
//! 2. A waiter is in `waiting` until it has a pass, or must decide anew. One that is in neither place when it is
//!    polled is treated like one that has just come. So nobody has to be told why it was woken.
//! 3. The origin is open, and forgotten, once a request that was sent after the pause has succeeded and nobody waits.

use std::collections::{BTreeMap, BTreeSet};
use std::mem;
use std::task::Waker;
use std::time::Duration;

use http::StatusCode;
use tollgate::time::Tick;

use super::alarm::Alarm;
use super::backoff::{Backoff, longer};
use super::opening::{ONE, Opening};

/// The number of a call: its place among all calls of a client, in the order in which they began.
pub(super) type Place = u64;

/// Who asked for a pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PausedBy {
    /// The server said how long to wait.
    Server,
    /// The server refused a request and said nothing else, so the length is a guess.
    Guess,
    /// The code of the client, with [`Pauses::pause`](super::Pauses::pause).
    Caller,
    /// Nobody: the origin is not paused, but there is no [room](super::WhenFull::Refuse) for its pause.
    Full,
}

/// A pause of an origin.
#[derive(Clone, Copy)]
pub(super) struct Pause {
    pub(super) until: Tick,
    /// Refusals of requests that were sent before this tick, just after the pause began, are no news.
    pub(super) known_until: Tick,
    /// Half of the requests that were in flight when it began, in tenths.
    threshold: u32,
    pub(super) status: StatusCode,
    /// The number of guesses since the last success.
    guesses: u8,
    pub(super) by: PausedBy,
}

/// An origin that is paused, or opens.
pub(super) enum Origin {
    /// Nobody waits and no request has passed since the pause.
    Quiet(Pause),
    Busy(Box<Busy>),
}

pub(super) struct Busy {
    pause: Pause,
    /// The calls that wait, and until when each can.
    waiting: BTreeMap<Place, (Waker, Tick)>,
    by_deadline: BTreeSet<(Tick, Place)>,
    /// `None` until the end of the pause.
    opening: Option<Opening>,
    /// When the origin has to be settled.
    pub(super) alarm: Option<Alarm>,
}

/// What follows from a change of an origin, after the lock is released.
#[derive(Default)]
pub(super) struct Settled {
    pub(super) woken: Vec<Waker>,
    /// When an alarm has to be set for.
    pub(super) alarm: Option<Tick>,
    pub(super) dropped: Option<Alarm>,
    /// Whether the origin can be forgotten.
    pub(super) is_open: bool,
}

/// What a call may do.
pub(super) enum Passage {
    Passes,
    Waits,
    /// It cannot wait so long: until this tick, or for an unknown time.
    Refused(Pause, Option<Tick>),
}

/// What pauses an origin.
pub(super) struct Refusal {
    /// The duration for which somebody asked.
    pub(super) asked: Option<Duration>,
    pub(super) by: PausedBy,
    pub(super) status: StatusCode,
    /// The part by which the pause is longer.
    pub(super) jitter: f64,
    /// The call that was refused, if it was one, and when its request was sent.
    pub(super) place: Option<Place>,
    pub(super) sent: Tick,
}

impl Origin {
    /// Creates an origin without a pause, for [`pause`](Self::pause).
    pub(super) fn unknown(known_until: Tick) -> Self {
        Self::Quiet(Pause {
            until: Tick::default(),
            known_until,
            threshold: ONE,
            status: StatusCode::SERVICE_UNAVAILABLE,
            guesses: 0,
            by: PausedBy::Guess,
        })
    }

    pub(super) fn pause_of(&self) -> &Pause {
        match self {
            Self::Quiet(pause) => pause,
            Self::Busy(busy) => &busy.pause,
        }
    }

    fn pause_mut(&mut self) -> &mut Pause {
        match self {
            Self::Quiet(pause) => pause,
            Self::Busy(busy) => &mut busy.pause,
        }
    }

    pub(super) fn is_paused(&self, now: Tick) -> bool {
        now < self.pause_of().until
    }

    /// Returns whether it may be forgotten to make room: its pause is over and nobody waits.
    pub(super) fn is_over(&self, now: Tick) -> bool {
        !self.is_paused(now) && self.waiting() == 0
    }

    pub(super) fn waiting(&self) -> usize {
        match self {
            Self::Quiet(_) => 0,
            Self::Busy(busy) => busy.waiting.len(),
        }
    }

    pub(super) fn opens(&self, now: Tick) -> bool {
        matches!(self, Self::Busy(_)) && !self.is_paused(now)
    }

    /// Returns what is kept for those who wait, or pass after the pause, which begins to open if it is over.
    fn busy(&mut self, now: Tick) -> &mut Busy {
        if let Self::Quiet(pause) = *self {
            *self = Self::Busy(Box::new(Busy {
                pause,
                waiting: BTreeMap::new(),
                by_deadline: BTreeSet::new(),
                opening: None,
                alarm: None,
            }));
        }
        let Self::Busy(busy) = self else {
            unreachable!("it was made busy");
        };
        busy.advance(now);
        busy
    }

    /// Lets a call pass, or refuses it, or takes this waker to wait until `deadline`. Also returns the waker of its last
    /// poll, to be dropped without the lock.
    pub(super) fn poll(
        &mut self,
        place: Place,
        deadline: Tick,
        waker: &mut Option<Waker>,
        now: Tick,
    ) -> (Passage, Option<Waker>) {
        let busy = self.busy(now);
        let former = busy.remove(place);
        let passage = busy.passage(place, deadline, now);
        if matches!(passage, Passage::Waits) {
            if let Some(waker) = waker.take() {
                busy.waiting.insert(place, (waker, deadline));
                busy.by_deadline.insert((deadline, place));
            }
        }
        (passage, former)
    }

    /// Decides whether a call is sent now. One that is sent waits no longer: also returns the waker of its last poll, if it
    /// waited, to be dropped without the lock.
    pub(super) fn send(&mut self, place: Place, now: Tick) -> (bool, Option<Waker>) {
        let busy = self.busy(now);
        // In a pause there is no opening.
        let Some(opening) = &mut busy.opening else {
            return (false, None);
        };
        if !opening.has(place) && !opening.has_room() {
            return (false, None);
        }
        opening.give(place, now);
        (true, busy.remove(place))
    }

    /// Counts the success of a request.
    pub(super) fn succeeded(&mut self, place: Place, sent: Tick, now: Tick) {
        let Self::Busy(busy) = self else {
            return;
        };
        busy.advance(now);
        if let Some(opening) = &mut busy.opening {
            opening.succeeded(place, sent);
            if opening.has_succeeded {
                busy.pause.guesses = 0;
            }
        }
    }

    /// Forgets a call that gets no answer, or waits no longer.
    pub(super) fn leave(&mut self, place: Place) -> Option<Waker> {
        let Self::Busy(busy) = self else {
            return None;
        };
        if let Some(opening) = &mut busy.opening {
            opening.take_back(place);
        }
        busy.remove(place)
    }

    /// Pauses, unless a refusal says nothing new: a request that was sent before the pause began was refused without a
    /// time, or the pause lasts longer. Returns whether it is a new end.
    pub(super) fn pause(
        &mut self,
        refusal: &Refusal,
        backoff: Backoff,
        in_flight: u32,
        now: Tick,
    ) -> bool {
        let mut opening = match self {
            Self::Busy(busy) => busy.opening.as_mut(),
            Self::Quiet(_) => None,
        };
        if let (Some(place), Some(opening)) = (refusal.place, &mut opening) {
            opening.take_back(place);
        }
        let window = opening.map_or(in_flight.saturating_mul(ONE), |opening| opening.window);
        let (is_paused, former) = (self.is_paused(now), *self.pause_of());
        let is_known = is_paused || refusal.sent < former.known_until;
        let (wait, guesses) = match refusal.asked {
            Some(asked) => (asked, former.guesses),
            None if is_known => return false,
            None => {
                let guesses = former.guesses;
                (backoff.nth(guesses.into()), guesses.saturating_add(1))
            }
        };
        if wait.is_zero() || now.saturating_add(wait) <= former.until {
            return false;
        }
        if let Self::Busy(busy) = self {
            busy.opening = None;
        }
        let pause = self.pause_mut();
        if !is_paused {
            pause.known_until = now.saturating_add(Duration::from_nanos(1));
            // Of one request, no half is known.
            if window > ONE + ONE / 2 {
                pause.threshold = (window / 2).max(ONE);
            }
        }
        pause.until = now.saturating_add(longer(wait, refusal.jitter));
        (pause.status, pause.guesses, pause.by) = (refusal.status, guesses, refusal.by);
        true
    }

    /// Ends a pause, as if it had been asked to end now.
    pub(super) fn resume(&mut self, now: Tick) {
        let pause = self.pause_mut();
        pause.until = pause.until.min(now);
    }

    /// Gives passes to those who wait, and wakes those who have to decide anew. Then gives up what nobody needs.
    pub(super) fn settle(&mut self, answer_timeout: Duration, now: Tick) -> Settled {
        let mut settled = Settled::default();
        let Self::Busy(busy) = self else {
            return settled;
        };
        busy.advance(now);
        busy.serve(answer_timeout, now, &mut settled.woken);
        let next = busy.next(answer_timeout);
        let is_late = |alarm: &mut Alarm| next.is_none_or(|next| next < alarm.due);
        settled.dropped = busy.alarm.take_if(is_late);
        settled.alarm = next.filter(|_| busy.alarm.is_none());
        if busy.waiting.is_empty() {
            match &busy.opening {
                Some(opening) => settled.is_open = opening.has_succeeded,
                None => *self = Self::Quiet(busy.pause),
            }
        }
        settled
    }

    /// Takes the alarm, to drop it without the lock.
    pub(super) fn take_alarm(&mut self) -> Option<Alarm> {
        match self {
            Self::Quiet(_) => None,
            Self::Busy(busy) => busy.alarm.take(),
        }
    }
}

impl Busy {
    /// Begins to open when the pause is over.
    fn advance(&mut self, now: Tick) {
        if self.opening.is_none() && self.pause.until <= now {
            self.opening = Some(Opening::new(self.pause.until, self.pause.threshold));
        }
    }

    /// Decides about a call that is not among those that wait.
    fn passage(&mut self, place: Place, deadline: Tick, now: Tick) -> Passage {
        let Some(opening) = &mut self.opening else {
            let until = self.pause.until;
            if until > deadline {
                return Passage::Refused(self.pause, Some(until));
            }
            return Passage::Waits;
        };
        let is_first = self.waiting.range(..place).next().is_none();
        if !opening.has(place) && opening.has_room() && is_first {
            opening.give(place, now);
        }
        if opening.has(place) {
            Passage::Passes
        } else if deadline <= now {
            Passage::Refused(self.pause, None)
        } else {
            Passage::Waits
        }
    }

    /// Takes a call out of those that wait.
    fn remove(&mut self, place: Place) -> Option<Waker> {
        let (waker, deadline) = self.waiting.remove(&place)?;
        self.by_deadline.remove(&(deadline, place));
        Some(waker)
    }

    /// Gives passes, and takes those who have to decide anew out of the queue: they have a pass, or can wait no longer.
    fn serve(&mut self, answer_timeout: Duration, now: Tick, woken: &mut Vec<Waker>) {
        if let Some(opening) = &mut self.opening {
            opening.expire(answer_timeout, now);
        }
        while let Some(opening) = self.opening.as_mut().filter(|it| it.has_room()) {
            let Some((&first, _)) = self.waiting.first_key_value() else {
                break;
            };
            opening.give(first, now);
            woken.extend(self.remove(first));
        }
        let can_wait = |deadline: Tick| match self.opening {
            Some(_) => deadline > now,
            None => deadline >= self.pause.until,
        };
        let late = self.by_deadline.iter().take_while(|it| !can_wait(it.0));
        let late: Vec<Place> = late.map(|(_, place)| *place).collect();
        woken.extend(late.into_iter().filter_map(|place| self.remove(place)));
    }

    /// Returns when the origin has to be settled next.
    fn next(&mut self, answer_timeout: Duration) -> Option<Tick> {
        let (deadline, _) = *self.by_deadline.first()?;
        let Some(opening) = &mut self.opening else {
            return Some(self.pause.until);
        };
        let expiry = opening.next_expiry(answer_timeout);
        Some(expiry.map_or(deadline, |expiry| expiry.min(deadline)))
    }
}

/// Keeps an origin in a map small.
const _: () = assert!(mem::size_of::<Origin>() <= 40);
