//! Failures of factories, each kept once: an error without a destructor cannot own its source.

use std::error::Error;
use std::sync::{Mutex, PoisonError};

use super::{AcquireError, ErrorKind, Source};

/// How many failures a process keeps.
const MOST: usize = 1024;

/// The failures that are kept, with their texts. They are never dropped.
static KEPT: Mutex<Vec<(String, &'static Source)>> = Mutex::new(Vec::new());

impl AcquireError {
    /// Creates a [`Store`](ErrorKind::Store) error whose source has the type and the text of `failure`. An
    /// error of this crate is returned as it is.
    #[cold]
    pub(crate) fn of_failure<E: Error + Send + Sync + 'static>(failure: E) -> Self {
        let failure: Box<dyn Error + Send + Sync> = Box::new(failure);
        let failure = match failure.downcast::<Self>() {
            Ok(own) => return *own,
            Err(failure) => failure,
        };
        let text = failure.to_string();
        let mut kept = KEPT.lock().unwrap_or_else(PoisonError::into_inner);
        let same = kept
            .iter()
            .find(|(of, source)| source.is::<E>() && *of == text);
        match same {
            Some((_, source)) => Self::store(source),
            None if kept.len() == MOST => Self::new(ErrorKind::Store),
            None => {
                let source = Box::leak(Box::new(&*Box::leak(failure)));
                kept.push((text, source));
                Self::store(source)
            }
        }
    }
}
