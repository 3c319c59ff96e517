//! Tells where the limit of a server was found.

use std::sync::Arc;

use tollgate::adaptive::AdaptiveRate;

/// The limit of a server, by the rate that looks for it.
#[derive(Debug)]
pub(crate) struct Found(Arc<AdaptiveRate>);

impl Found {
    pub(crate) fn new(rate: Arc<AdaptiveRate>) -> Found {
        Found(rate)
    }

    /// The rate at the end, which swings around the limit; `None` if nothing was refused.
    pub(crate) fn rate(&self) -> Option<f64> {
        let found = self.0.snapshot();
        (found.cuts > 0).then_some(found.rate)
    }
}
