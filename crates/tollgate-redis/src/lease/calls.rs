//! What a semaphore asks the server.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::state::{Asked, Shared};
use crate::error::StoreError;
use crate::script::{Arguments, LEASE, numbers};

/// A script counts up to there.
pub(super) const MOST: u64 = 1 << 52;

/// The reply to `acquire`.
pub(super) struct Granted {
    /// How long no newcomer is admitted yet, since data was lost.
    pub(super) grace: Duration,
    /// For each waiter, the fencing number of the lease, or 0; and the number of the ticket, or 0.
    pub(super) places: Vec<[u64; 2]>,
}

impl Shared {
    async fn ask(
        &self,
        what: &'static str,
        rest: impl FnOnce(Arguments) -> Arguments,
    ) -> Result<Vec<u64>, StoreError> {
        let options = &self.limit.options;
        let grace = options.grace.unwrap_or(options.ttl);
        let times = [options.ttl, grace, self.ticket_ttl()].map(micros);
        let permits = self.state().own.permits();
        let arguments = Arguments::new(what).number(permits).numbers(times);
        let keys = self.limit.keys.all();
        let value = self.store.call(&LEASE, &keys, &rest(arguments)).await?;
        numbers(&value)
    }

    pub(super) async fn acquire(&self, asked: &[Asked]) -> Result<Granted, StoreError> {
        let reply = self
            .ask("acquire", |arguments| {
                asked.iter().fold(arguments, |arguments, one| {
                    let numbers = [u64::from(one.n), one.ticket, u64::from(one.stays)];
                    arguments.text(&one.id).numbers(numbers)
                })
            })
            .await?;
        let [_, grace, _, places @ ..] = reply.as_slice() else {
            return Err(StoreError::Script);
        };
        let (places, []) = places.as_chunks::<2>() else {
            return Err(StoreError::Script);
        };
        if places.len() != asked.len() {
            return Err(StoreError::Script);
        }
        Ok(Granted {
            grace: Duration::from_micros(*grace),
            places: places.to_vec(),
        })
    }

    /// Returns whether the lease is still held.
    pub(super) async fn renew(&self, id: &str, n: u32, fencing: u64) -> Result<bool, StoreError> {
        let numbers = [u64::from(n), fencing];
        let rest = |arguments: Arguments| arguments.text(id).numbers(numbers);
        match self.ask("renew", rest).await?[..] {
            [_, verdict] => Ok(verdict > 0),
            _ => Err(StoreError::Script),
        }
    }

    /// Gives back leases and tickets.
    pub(super) async fn release(&self, all: &[(String, u32)]) -> Result<(), StoreError> {
        self.ask("release", |arguments| {
            all.iter().fold(arguments, |arguments, (id, n)| {
                arguments.text(id).number(u64::from(*n))
            })
        })
        .await?;
        self.on_room();
        Ok(())
    }

    /// Gives back leases and tickets that expire after `ttl`, in the background. It is tried again
    /// until then, unless it fails for a reason that stays.
    pub(super) fn release_later(self: &Arc<Self>, all: Vec<(String, u32)>, ttl: Duration) {
        if all.is_empty() {
            return;
        }
        let (this, expiry) = (Arc::clone(self), Instant::now() + ttl);
        self.store.spawn(async move {
            while let Err(error) = this.release(&all).await {
                let now = Instant::now();
                let is_hopeless = error == StoreError::NoRuntime || error.is_half_done();
                if is_hopeless || now >= expiry {
                    return;
                }
                tokio::time::sleep(this.pause().min(expiry - now)).await;
            }
        });
    }

    /// How many permits are free.
    pub(super) async fn available(&self) -> Result<u64, StoreError> {
        match self.ask("look", |arguments| arguments).await?[..] {
            [_, _, free, _, _] => Ok(free),
            _ => Err(StoreError::Script),
        }
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(MOST).min(MOST)
}
