//! [`Origin`]: the pause of an origin, and who waits for its end. It is a value without a lock and without a clock:
//! each call that needs the time takes it.
//!
//! 1. Nothing passes before the end of the pause. Then an [`Opening`] gives passes to those who wait, in the order
//!    in which their calls began.
//! 2. A waiter is in `waiting` until it has a pass, or must decide anew. One that is in neither place when it is
//!    polled is treated like one that has just come. So nobody has to be told why it was woken.
//! 3. The origin is open, and forgotten, once a request that was sent after the pause has succeeded and nobody waits.

use std::collections::BTreeMap;
use std::mem;
use std::task::Waker;
use std::time::Duration;

use http::StatusCode;
use tollgate::time::Tick;

use super::opening::{ONE, Opening};

/// The place of a call among all calls of a client: the tick at which it began, and its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) began: Tick,
    pub(super) number: u64,
}

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
    waiting: BTreeMap<Place, Waker>,
    /// `None` until the end of the pause.
    opening: Option<Opening>,
    /// When the origin has to be looked at.
    pub(super) alarm: Option<super::alarm::Alarm>,
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
    pub(super) length: Length,
    pub(super) by: PausedBy,
    pub(super) status: StatusCode,
    /// The call that was refused, if it was one, and when its request was sent.
    pub(super) place: Option<Place>,
    pub(super) sent: Tick,
}

/// The length of a new pause.
#[derive(Clone, Copy)]
pub(super) enum Length {
    /// The duration, and a jitter.
    Asked(Duration, Duration),
    /// The first guess, which is doubled up to the last, and a part of it that is added, in percent.
    Guessed {
        first: Duration,
        last: Duration,
        percent: f64,
    },
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

    pub(super) fn busy(&mut self) -> &mut Busy {
        if let Self::Quiet(pause) = *self {
            *self = Self::Busy(Box::new(Busy {
                pause,
                waiting: BTreeMap::new(),
                opening: None,
                alarm: None,
            }));
        }
        match self {
            Self::Busy(busy) => busy,
            Self::Quiet(_) => unreachable!("it was made busy"),
        }
    }

    /// Lets a call pass, or wait until `deadline` with this waker, or refuses it. Returns the waker of the last poll in
    /// place of this one.
    pub(super) fn poll(
        &mut self,
        place: Place,
        deadline: Tick,
        waker: &mut Option<Waker>,
        now: Tick,
    ) -> Passage {
        let busy = self.busy();
        busy.advance(now);
        let pause = busy.pause;
        if let Some(opening) = &mut busy.opening {
            let is_first = busy
                .waiting
                .first_key_value()
                .is_none_or(|(first, _)| *first >= place);
            if !opening.has(place) && opening.has_room() && is_first {
                opening.give(place, now);
            }
            if opening.has(place) {
                *waker = busy.waiting.remove(&place);
                return Passage::Passes;
            }
        }
        let until = busy.opening.is_none().then_some(pause.until);
        if until.map_or(deadline <= now, |until| until > deadline) {
            *waker = busy.waiting.remove(&place);
            return Passage::Refused(pause, until);
        }
        if let Some(new) = waker.take() {
            *waker = busy.waiting.insert(place, new);
        }
        Passage::Waits
    }

    /// Decides whether a call that passed is sent now.
    pub(super) fn send(&mut self, place: Place, now: Tick) -> bool {
        let busy = self.busy();
        busy.advance(now);
        // In a pause there is none.
        let Some(opening) = busy.opening.as_mut() else {
            return false;
        };
        let passes = opening.has(place) || opening.has_room();
        if passes {
            opening.give(place, now);
        }
        passes
    }

    /// Counts the success of a request.
    pub(super) fn succeeded(&mut self, place: Place, sent: Tick, now: Tick) {
        if let Self::Busy(busy) = self {
            busy.advance(now);
            if let Some(opening) = &mut busy.opening {
                opening.succeeded(place, sent);
                if opening.has_succeeded {
                    busy.pause.guesses = 0;
                }
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
        busy.waiting.remove(&place)
    }

    /// Pauses, unless a refusal says nothing new: a request that was sent before the pause began was refused without a
    /// time, or the pause lasts longer. Returns whether it is a new end.
    pub(super) fn pause(&mut self, refusal: &Refusal, in_flight: u32, now: Tick) -> bool {
        let Refusal { sent, by, .. } = *refusal;
        if let (Some(place), Self::Busy(busy)) = (refusal.place, &mut *self) {
            if let Some(opening) = &mut busy.opening {
                opening.take_back(place);
            }
        }
        let is_paused = self.is_paused(now);
        let former = *self.pause_of();
        let (wait, jitter) = match refusal.length {
            Length::Asked(wait, jitter) => (wait, jitter),
            Length::Guessed { .. } if is_paused || sent < former.known_until => return false,
            Length::Guessed {
                first,
                last,
                percent,
            } => {
                let doubled = first.saturating_mul(1 << former.guesses.min(31));
                let wait = doubled.min(last);
                (wait, wait.mul_f64(percent / 100.0))
            }
        };
        if wait.is_zero() || now.saturating_add(wait) <= former.until {
            return false;
        }
        let guesses = match by {
            PausedBy::Guess => former.guesses.saturating_add(1),
            _ => former.guesses,
        };
        let current = match self {
            Self::Busy(busy) => busy.opening.take().map(|opening| opening.window),
            Self::Quiet(_) => None,
        };
        let current = current.unwrap_or(in_flight.saturating_mul(ONE));
        let pause = self.pause_mut();
        if !is_paused {
            pause.known_until = now.saturating_add(Duration::from_nanos(1));
            if current > ONE + ONE / 2 {
                pause.threshold = (current / 2).max(ONE);
            }
        }
        pause.until = now.saturating_add(wait).saturating_add(jitter);
        (pause.status, pause.guesses, pause.by) = (refusal.status, guesses, by);
        true
    }

    /// Ends a pause, as if it had been asked to end now.
    pub(super) fn resume(&mut self, now: Tick) {
        let pause = self.pause_mut();
        pause.until = pause.until.min(now);
    }

    /// Gives passes to those who wait, and takes those who have to decide anew out of the queue. Returns their wakers.
    /// A call may wait for `max_wait` since it began, and a request keeps a pass for `answer_timeout`.
    pub(super) fn settle(
        &mut self,
        max_wait: Duration,
        answer_timeout: Duration,
        now: Tick,
    ) -> Vec<Waker> {
        let mut woken = Vec::new();
        let Self::Busy(busy) = self else {
            return woken;
        };
        busy.advance(now);
        let Busy {
            pause,
            waiting,
            opening,
            ..
        } = &mut **busy;
        let Some(opening) = opening else {
            // Those behind the first that can wait can wait as well, because they came later.
            let can_wait = |place: &Place| place.began.saturating_add(max_wait) >= pause.until;
            while let Some(first) = waiting.first_entry().filter(|it| !can_wait(it.key())) {
                woken.push(first.remove());
            }
            return woken;
        };
        opening.expire(answer_timeout, now);
        while let Some(first) = waiting.first_entry() {
            let place = *first.key();
            if opening.has_room() {
                opening.give(place, now);
            } else if place.began.saturating_add(max_wait) > now {
                break;
            }
            woken.push(first.remove());
        }
        woken
    }

    /// Returns whether the origin can be forgotten.
    pub(super) fn is_open(&self) -> bool {
        match self {
            Self::Quiet(_) => false,
            Self::Busy(busy) => {
                let has_succeeded = busy.opening.as_ref().is_some_and(|it| it.has_succeeded);
                has_succeeded && busy.waiting.is_empty()
            }
        }
    }

    /// Returns when the origin has to be [settled](Self::settle) next.
    pub(super) fn next(&mut self, max_wait: Duration, answer_timeout: Duration) -> Option<Tick> {
        let Self::Busy(busy) = self else {
            return None;
        };
        let (first, _) = busy.waiting.first_key_value()?;
        match &mut busy.opening {
            None => Some(busy.pause.until),
            Some(opening) => {
                let deadline = first.began.saturating_add(max_wait);
                let expiry = opening.next_expiry(answer_timeout);
                Some(expiry.map_or(deadline, |expiry| expiry.min(deadline)))
            }
        }
    }

    /// Gives up what a paused origin needs for those who wait, if nobody does. Returns the alarm, to be dropped without
    /// the lock.
    pub(super) fn rest(&mut self) -> Option<super::alarm::Alarm> {
        let Self::Busy(busy) = self else {
            return None;
        };
        if busy.opening.is_some() || !busy.waiting.is_empty() {
            return None;
        }
        let (pause, alarm) = (busy.pause, busy.alarm.take());
        *self = Self::Quiet(pause);
        alarm
    }

    /// Takes the alarm, to drop it without the lock.
    pub(super) fn take_alarm(&mut self) -> Option<super::alarm::Alarm> {
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
}

/// Keeps an origin in a map small.
const _: () = assert!(mem::size_of::<Origin>() <= 40);
