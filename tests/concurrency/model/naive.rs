//! The model: as obvious as possible, and as slow.

use tollgate::{AcquireError, ErrorKind};

use crate::support::scenarios::Words;

/// The outcome of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Granted,
    Cancelled,
    TimedOut,
    Closed,
    QueueFull,
    NoPermits,
    ExceedsCapacity(usize),
}

impl Answer {
    pub(crate) fn of<P>(result: &Result<P, AcquireError>) -> Self {
        let Err(error) = result else {
            return Self::Granted;
        };
        match (error.kind(), error.capacity()) {
            (ErrorKind::Cancelled, None) => Self::Cancelled,
            (ErrorKind::TimedOut, None) => Self::TimedOut,
            (ErrorKind::Closed, None) => Self::Closed,
            (ErrorKind::QueueFull, None) => Self::QueueFull,
            (ErrorKind::NoPermits, None) => Self::NoPermits,
            (ErrorKind::ExceedsCapacity, Some(capacity)) => {
                Self::ExceedsCapacity(usize::try_from(capacity).expect("small in here"))
            }
            other => panic!("not an answer of a semaphore: {other:?}"),
        }
    }
}

/// A caller that has polled; its name is its position in the vector.
#[derive(Debug)]
pub(crate) struct Caller {
    pub(crate) cost: usize,
    pub(crate) answer: Option<Answer>,
    pub(crate) ends: Ends,
}

/// The other ends of a wait.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ends {
    /// One of these tokens; `a.b` is a child of `a`.
    pub(crate) tokens: Vec<String>,
    /// The shortest of these times, in milliseconds.
    pub(crate) within: Vec<u64>,
    /// A time is inside the tokens.
    pub(crate) is_time_inside: bool,
    /// The end of that time, from the first poll that waits.
    deadline: Option<u64>,
}

impl Ends {
    pub(crate) fn of(words: &mut Words<'_>) -> Self {
        let mut ends = Self::default();
        loop {
            if words.says("token") {
                ends.is_time_inside |= !ends.within.is_empty();
                ends.tokens.push(words.parse());
            } else if words.says("within") {
                ends.within.push(words.parse());
            } else {
                return ends;
            }
        }
    }
}

/// Whether a caller that waits for idleness has been woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    Nothing,
    /// For a moment nothing was held: the callers before were refused and the next one was not
    /// admitted yet. Whether the semaphore checks in that moment is its own choice.
    Perhaps,
    Woken,
}

/// A semaphore that is easy to read.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) limit: usize,
    /// The sum of permits and uncollected grants.
    pub(crate) held: usize,
    pub(crate) closed: bool,
    bound: usize,
    pub(crate) callers: Vec<Caller>,
    /// The names of the waiters, the first one first.
    pub(crate) queue: Vec<usize>,
    /// The callers that wait until nothing is held.
    pub(crate) idlers: Vec<(Idle, Ends)>,
    /// Cancelled tokens.
    pub(crate) cancelled: Vec<String>,
    /// In milliseconds.
    pub(crate) now: u64,
}

impl Model {
    pub(crate) fn new(limit: usize, bound: Option<usize>) -> Self {
        Self {
            limit,
            held: 0,
            closed: false,
            bound: bound.unwrap_or(usize::MAX),
            callers: Vec::new(),
            queue: Vec::new(),
            idlers: Vec::new(),
            cancelled: Vec::new(),
            now: 0,
        }
    }

    pub(crate) fn available(&self) -> usize {
        self.limit.saturating_sub(self.held)
    }

    /// Returns the reason why this cost can never be granted, however long the wait.
    fn hopeless(&self, cost: usize) -> Option<Answer> {
        if self.closed {
            Some(Answer::Closed)
        } else if self.limit > 0 && cost > self.limit {
            Some(Answer::ExceedsCapacity(self.limit))
        } else {
            None
        }
    }

    pub(crate) fn try_acquire(&mut self, cost: usize) -> Answer {
        if let Some(refusal) = self.hopeless(cost) {
            return refusal;
        }
        let fits = self.queue.is_empty() && self.held + cost <= self.limit;
        if cost == 0 || fits {
            self.held += cost;
            return Answer::Granted;
        }
        Answer::NoPermits
    }

    fn is_cancelled(&self, ends: &Ends) -> bool {
        let is_of = |token: &str, other: &str| {
            let rest = token.strip_prefix(other);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        let mut pairs = ends.tokens.iter().flat_map(|token| {
            let cancelled = self.cancelled.iter();
            cancelled.map(move |other| is_of(token, other))
        });
        pairs.any(|is_cancelled| is_cancelled)
    }

    /// Returns how an ungranted wait has ended, if it has.
    pub(crate) fn ended(&self, ends: &Ends) -> Option<Answer> {
        if self.is_cancelled(ends) {
            return Some(Answer::Cancelled);
        }
        let is_over = ends.deadline.is_some_and(|deadline| deadline <= self.now);
        is_over.then_some(Answer::TimedOut)
    }

    /// Returns the answer to a waiting caller that polls: a token precedes a grant, and a grant
    /// precedes a deadline.
    pub(crate) fn told(&self, name: usize) -> Option<Answer> {
        let caller = &self.callers[name];
        match self.ended(&caller.ends) {
            Some(Answer::Cancelled) => Some(Answer::Cancelled),
            ended => caller.answer.or(ended),
        }
    }

    /// Acquires, and returns the name of the caller; its answer says whether it waits.
    pub(crate) fn acquire(&mut self, cost: usize, mut ends: Ends) -> usize {
        let name = self.callers.len();
        let shortest = ends.within.iter().min();
        ends.deadline = shortest.map(|shortest| self.now.saturating_add(*shortest));
        let tried = if self.is_cancelled(&ends) {
            Answer::Cancelled
        } else {
            self.try_acquire(cost)
        };
        let answer = match tried {
            Answer::NoPermits if self.queue.len() < self.bound && shortest_is_zero(&ends) => {
                Some(Answer::TimedOut)
            }
            Answer::NoPermits if self.queue.len() < self.bound => {
                self.queue.push(name);
                None
            }
            Answer::NoPermits => Some(Answer::QueueFull),
            answer => Some(answer),
        };
        self.callers.push(Caller { cost, answer, ends });
        name
    }

    /// Removes a caller that has not collected its answer, or has none.
    pub(crate) fn drop_caller(&mut self, name: usize) {
        self.queue.retain(|other| *other != name);
        if self.callers[name].answer == Some(Answer::Granted) {
            self.held -= self.callers[name].cost;
        }
        self.serve();
    }

    pub(crate) fn release(&mut self, count: usize) {
        self.held -= count;
        self.serve();
    }

    pub(crate) fn forget(&mut self, count: usize) {
        self.held -= count;
        self.set_permits(self.limit.saturating_sub(count));
    }

    /// Forgets free permits, and returns their number.
    pub(crate) fn forget_free(&mut self, count: usize) -> usize {
        let free = count.min(self.available());
        self.set_permits(self.limit - free);
        free
    }

    pub(crate) fn set_permits(&mut self, limit: usize) {
        let lowered = limit < self.limit;
        self.limit = limit;
        if lowered {
            self.reject_impossible();
        } else {
            self.serve();
        }
    }

    pub(crate) fn reject_impossible(&mut self) {
        for name in std::mem::take(&mut self.queue) {
            let refusal = self.hopeless(self.callers[name].cost);
            match refusal {
                None => self.queue.push(name),
                Some(_) if self.held == 0 => self.wake_idlers(Idle::Perhaps),
                Some(_) => {}
            }
            self.callers[name].answer = refusal;
        }
        self.serve();
    }

    pub(crate) fn close(&mut self) {
        self.closed = true;
        self.serve();
    }

    pub(crate) fn wait_idle(&mut self, mut ends: Ends) {
        let shortest = ends.within.iter().min();
        ends.deadline = shortest.map(|shortest| self.now.saturating_add(*shortest));
        let idle = match self.held {
            0 => Idle::Woken,
            _ => Idle::Nothing,
        };
        self.idlers.push((idle, ends));
    }

    /// Answers the head of the queue as long as there is an answer. Callers that wait for idleness
    /// come after those that wait for permits.
    fn serve(&mut self) {
        while let Some(&name) = self.queue.first() {
            let cost = self.callers[name].cost;
            let answer = if self.closed {
                Answer::Closed
            } else if self.held + cost <= self.limit {
                Answer::Granted
            } else {
                break;
            };
            if answer == Answer::Granted {
                self.held += cost;
            } else if self.held == 0 {
                self.wake_idlers(Idle::Perhaps);
            }
            self.callers[name].answer = Some(answer);
            self.queue.remove(0);
        }
        if self.held == 0 {
            self.wake_idlers(Idle::Woken);
        }
    }

    fn wake_idlers(&mut self, what: Idle) {
        for (idler, _) in &mut self.idlers {
            if *idler != Idle::Woken {
                *idler = what;
            }
        }
    }
}

/// Returns whether the shortest time is zero: then the caller never waits.
fn shortest_is_zero(ends: &Ends) -> bool {
    ends.within.contains(&0)
}
