//! [`Pauses`]: says on stderr that a server has asked for a pause, which the adaptive rate keeps.
//!
//! The answers to other requests under way ask for the same pause, so it is said once.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::progress::Progress;

/// The longest pause that is kept. A server that asks for more gets a request after this time, which
/// it may refuse again: that file fails then, rather than that the program waits in silence.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The shortest pause that is said.
const SHORTEST_SAID: Duration = Duration::from_secs(5);

/// What has been said of pauses.
#[derive(Debug)]
pub(crate) struct Pauses {
    progress: Arc<Progress>,
    /// The end of the pause that was said last.
    until: Mutex<Option<Instant>>,
}

impl Pauses {
    pub(crate) fn new(progress: Arc<Progress>) -> Pauses {
        let until = Mutex::default();
        Pauses { progress, until }
    }

    /// A server has asked for a pause.
    pub(crate) fn asked(&self, now: Instant, asked: Duration) {
        let pause = asked.min(LONGEST_PAUSE);
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if pause < SHORTEST_SAID || until.is_some_and(|until| now < until) {
            return;
        }
        *until = Some(now + pause);
        drop(until);
        let (asked, pause) = (asked.as_secs(), pause.as_secs());
        self.progress.line(&format!(
            "the server asks for a pause of {asked} s: no request is sent for {pause} s"
        ));
    }
}
