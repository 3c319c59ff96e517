//! The most obvious model of compositions: a count and a vector of waiters for each semaphore.

use tollgate::ErrorKind;

pub(super) const PARTS: usize = 4;

/// What an entry asks for: in this order, so many permits of that semaphore, or nothing.
pub(super) type Asks = [Option<(usize, u32)>; PARTS];

/// A semaphore.
pub(super) struct Count {
    pub(super) free: usize,
    pub(super) limit: usize,
    pub(super) closed: bool,
    /// Names, and what they ask for.
    pub(super) queue: Vec<(usize, usize)>,
    /// Names of those who were refused, and have not heard it yet.
    pub(super) refused: Vec<usize>,
}

/// Where somebody is on the way through its parts.
pub(super) struct Entry {
    name: usize,
    pub(super) asks: Asks,
    /// How many parts it has entered.
    entered: usize,
    /// Whether it has a place in the queue for the next one, or was granted what it waited for.
    asked: bool,
}

/// What happened.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    In,
    Waits,
    /// Why, by which part, and the most that it could ever let in if that is known.
    Refused(ErrorKind, usize, Option<u64>),
}

pub(super) struct Model {
    pub(super) counts: Vec<Count>,
    names: usize,
}

impl Count {
    /// `Ok(false)` if one has to wait.
    fn ask(&mut self, permits: usize) -> Result<bool, ErrorKind> {
        if self.closed {
            return Err(ErrorKind::Closed);
        }
        if permits > self.limit {
            return Err(ErrorKind::ExceedsCapacity);
        }
        let takes = permits == 0 || (self.queue.is_empty() && permits <= self.free);
        if takes {
            self.free -= permits;
        }
        Ok(takes)
    }

    pub(super) fn give(&mut self, permits: usize) {
        self.free += permits;
        while let Some(&(_, asked)) = self.queue.first() {
            if asked > self.free {
                break;
            }
            self.free -= asked;
            self.queue.remove(0);
        }
    }

    /// Takes somebody out, who asked for so many.
    fn leave(&mut self, name: usize, permits: usize) {
        if let Some(at) = self.queue.iter().position(|&(other, _)| other == name) {
            self.queue.remove(at);
            self.give(0);
        } else if let Some(at) = self.refused.iter().position(|&other| other == name) {
            self.refused.remove(at);
        } else {
            self.give(permits);
        }
    }
}

impl Model {
    pub(super) fn new(limits: &[usize]) -> Self {
        let count = |limit: &usize| Count {
            free: *limit,
            limit: *limit,
            closed: false,
            queue: Vec::new(),
            refused: Vec::new(),
        };
        let counts = limits.iter().map(count).collect();
        Self { counts, names: 0 }
    }

    pub(super) fn new_entry(&mut self, asks: Asks) -> Entry {
        self.names += 1;
        Entry {
            name: self.names,
            asks,
            entered: 0,
            asked: false,
        }
    }

    /// Gives back the first so many parts, the last first.
    pub(super) fn rollback(&mut self, asks: &Asks, parts: usize) {
        for (semaphore, permits) in asks[..parts].iter().rev().flatten() {
            self.counts[*semaphore].give(*permits as usize);
        }
    }

    pub(super) fn try_enter(&mut self, asks: &Asks) -> Answer {
        for (part, ask) in asks.iter().enumerate() {
            let Some((semaphore, permits)) = *ask else {
                continue;
            };
            let refused = match self.counts[semaphore].ask(permits as usize) {
                Ok(true) => continue,
                Ok(false) => ErrorKind::NoPermits,
                Err(kind) => kind,
            };
            self.rollback(asks, part);
            return self.refused(refused, part, semaphore);
        }
        Answer::In
    }

    pub(super) fn poll(&mut self, entry: &mut Entry) -> Answer {
        while entry.entered < PARTS {
            let Some((semaphore, permits)) = entry.asks[entry.entered] else {
                entry.entered += 1;
                continue;
            };
            let count = &mut self.counts[semaphore];
            let refused = if !entry.asked {
                match count.ask(permits as usize) {
                    Ok(true) => None,
                    Ok(false) => {
                        count.queue.push((entry.name, permits as usize));
                        entry.asked = true;
                        return Answer::Waits;
                    }
                    Err(kind) => Some(kind),
                }
            } else if count.queue.iter().any(|&(name, _)| name == entry.name) {
                return Answer::Waits;
            } else if let Some(at) = count.refused.iter().position(|&name| name == entry.name) {
                count.refused.remove(at);
                Some(ErrorKind::Closed)
            } else {
                None
            };
            if let Some(kind) = refused {
                self.rollback(&entry.asks, entry.entered);
                return self.refused(kind, entry.entered, semaphore);
            }
            entry.asked = false;
            entry.entered += 1;
        }
        Answer::In
    }

    fn refused(&self, kind: ErrorKind, part: usize, semaphore: usize) -> Answer {
        let exceeds = kind == ErrorKind::ExceedsCapacity;
        let capacity = exceeds.then_some(self.counts[semaphore].limit as u64);
        Answer::Refused(kind, part, capacity)
    }

    /// Whether what it waited for was granted or refused, and it has not looked yet.
    pub(super) fn is_answered(&self, entry: &Entry) -> bool {
        let queue = |(semaphore, _): (usize, u32)| &self.counts[semaphore].queue;
        let waits_in = entry.asks[entry.entered].map(queue);
        let is_in = |queue: &Vec<(usize, usize)>| queue.iter().any(|(name, _)| *name == entry.name);
        entry.asked && !waits_in.is_some_and(is_in)
    }

    pub(super) fn give_up(&mut self, entry: &Entry) {
        if let (true, Some((semaphore, permits))) = (entry.asked, entry.asks[entry.entered]) {
            self.counts[semaphore].leave(entry.name, permits as usize);
        }
        self.rollback(&entry.asks, entry.entered);
    }

    pub(super) fn close(&mut self, semaphore: usize) {
        let count = &mut self.counts[semaphore];
        count.closed = true;
        let queue = std::mem::take(&mut count.queue);
        count
            .refused
            .extend(queue.into_iter().map(|(name, _)| name));
    }
}
