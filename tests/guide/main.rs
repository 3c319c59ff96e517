//! The programs of the guide, each included from the file that its page shows, in paused time. The feature `test-util`
//! gives their limits tokio's clock, so the programs name none.

#![expect(dead_code, reason = "`main` is for readers")]

mod clients;
mod servers;

use std::cell::Cell;

/// A counter of busy callers.
#[derive(Default)]
struct Busy {
    now: Cell<u64>,
    most: Cell<u64>,
}

impl Busy {
    /// Counts this work while it runs.
    async fn during(&self, work: impl Future<Output = ()>) {
        self.now.set(self.now.get() + 1);
        self.most.set(self.most.get().max(self.now.get()));
        work.await;
        self.now.set(self.now.get() - 1);
    }

    /// Returns the greatest number that were busy at once.
    fn most(&self) -> u64 {
        self.most.get()
    }
}
