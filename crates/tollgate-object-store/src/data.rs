//! Defines the data of an object: [`Data`] is a body of known length, and [`Holding`] a stream with a permit.
//!
//! 1. The permit is released in the poll that yields the last byte, the end or a failure, and at once if
//!    there is nothing to read: a caller that knows the length need not poll for the end.
//! 2. The length only determines when the permit is released. Data longer than that are read to their end.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{self, BoxStream, Stream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use object_store::{Error, Result};
use tollgate::rate::Charge;
use tollgate::throttle::{RollbackGuard, Weighted};
use tollgate::{AcquireError, ErrorKind, RateLimiter, Throttle};

/// The data of an object, and their remaining length. Without the length, the adapter would request a
/// whole chunk from a limiter of bytes before it could see the end of the stream.
pub(crate) struct Data {
    stream: BoxStream<'static, Result<Bytes>>,
    left: u64,
}

impl Data {
    pub(crate) fn new(stream: BoxStream<'static, Result<Bytes>>, length: u64) -> Self {
        Self {
            stream,
            left: length,
        }
    }
}

impl Body for Data {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>>>> {
        let data = ready!(self.stream.poll_next_unpin(context));
        if let Some(Ok(data)) = &data {
            self.left = self.left.saturating_sub(data.len() as u64);
        }
        Poll::Ready(data.map(|data| data.map(Frame::data)))
    }

    fn size_hint(&self) -> SizeHint {
        let mut hint = SizeHint::new();
        hint.set_upper(self.left);
        hint
    }
}

/// The data of an object that holds a permit until they have been read. They end after a failure.
pub(crate) struct Holding<P> {
    /// The stream is dropped before the permit, which may count its connection.
    stream: BoxStream<'static, Result<Bytes>>,
    left: u64,
    held: Option<P>,
}

impl<P> Holding<P> {
    pub(crate) fn new(stream: BoxStream<'static, Result<Bytes>>, length: u64, permit: P) -> Self {
        Self {
            stream,
            left: length,
            held: (length > 0).then_some(permit),
        }
    }
}

/// The permit is not pinned.
impl<P> Unpin for Holding<P> {}

impl<P> Stream for Holding<P> {
    type Item = Result<Bytes>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Bytes>>> {
        let data = ready!(self.stream.poll_next_unpin(context));
        if let Some(Ok(data)) = &data {
            self.left = self.left.saturating_sub(data.len() as u64);
        } else {
            self.stream = stream::empty().boxed();
            self.left = 0;
        }
        if self.left == 0 {
            self.held = None;
        }
        Poll::Ready(data)
    }
}

// [`Charged`]: the charge for bytes whose number is known before they move, or after they have moved.
//
// 1. A body waits for its first bytes, up to a burst, in the queue of the limiter. In the poll that
//    grants them, the rest is charged too, which may overdraw the limiter, and the body continues. So a body
//    larger than the burst starts when a burst is available, and the bodies behind it wait until it is paid off.
// 2. A place in that queue needs no poll to be served, and the wait holds nothing else. So a
//    request that is not polled delays no other request.
// 3. The charges are rolled back on drop, the last first, unless they are [kept](Charged::keep).
// 4. Bytes that have [moved](Moved) before their wait are charged, however the wait ends.

/// The charge for a body.
pub(crate) struct Charged<'a> {
    rest: Option<RollbackGuard<&'a Arc<RateLimiter>>>,
    first: RollbackGuard<&'a Arc<RateLimiter>>,
}

impl<'a> Charged<'a> {
    /// Charges for `bytes` bytes if that needs no wait.
    pub(crate) fn at_once(limiter: &'a Arc<RateLimiter>, bytes: u64) -> Option<Self> {
        let first = bytes.min(limiter.max_units());
        let charge = Weighted::cost(limiter, first).enter_now()?;
        Some(Self::with_rest(limiter, charge, bytes - first))
    }

    /// Waits until `bytes` bytes may move.
    pub(crate) async fn wait(
        limiter: &'a Arc<RateLimiter>,
        bytes: u64,
    ) -> Result<Self, AcquireError> {
        let mut first = bytes.min(limiter.max_units());
        loop {
            // The future is taken out of its `Waiting`, so that the limiter sees a timeout around this function.
            match limiter.cost(first).enter().into_inner().await {
                // The quota was lowered meanwhile, and perhaps raised again. This loop ends, because each
                // round requests less than the one before.
                Err(error) if error.kind() == ErrorKind::ExceedsCapacity => {
                    let most = limiter.max_units();
                    let capacity = error.capacity().unwrap_or(most).min(most).max(1);
                    if capacity >= first {
                        return Err(error);
                    }
                    first = capacity;
                }
                entered => return Ok(Self::with_rest(limiter, entered?, bytes - first)),
            }
        }
    }

    fn with_rest(limiter: &'a Arc<RateLimiter>, first: Charge, rest: u64) -> Self {
        let first = RollbackGuard::new(limiter, first);
        let rest = (rest > 0).then(|| RollbackGuard::new(limiter, limiter.charge(rest)));
        Self { rest, first }
    }

    /// Keeps the charges, and returns them, the last first.
    pub(crate) fn keep(self) -> Kept {
        [
            self.rest.map(RollbackGuard::disarm),
            Some(self.first.disarm()),
        ]
    }
}

/// Bytes that have moved. They are charged on drop, unless a wait was charged for them.
pub(crate) struct Moved<'a> {
    limiter: Option<&'a RateLimiter>,
    bytes: u64,
}

impl<'a> Moved<'a> {
    pub(crate) fn new(limiter: &'a RateLimiter, bytes: u64) -> Self {
        let limiter = Some(limiter);
        Self { limiter, bytes }
    }

    /// Keeps the charge of a wait for these bytes.
    pub(crate) fn keep(mut self, charged: Charged<'_>) {
        charged.keep();
        self.limiter = None;
    }
}

impl Drop for Moved<'_> {
    fn drop(&mut self) {
        if let Some(limiter) = self.limiter {
            let _ = limiter.charge(self.bytes);
        }
    }
}

/// The charges of a request that was sent, the last first.
pub(crate) type Kept = [Option<Charge>; 2];

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures_util::FutureExt;

    use super::*;

    fn next(data: &mut Holding<Arc<()>>) -> Option<Result<Bytes>> {
        data.next().now_or_never().expect("an item")
    }

    #[test]
    fn data_longer_than_its_length_are_read_to_their_end() {
        let permit = Arc::new(());
        let chunks = ["one", "two", "three"].map(|chunk| Ok(Bytes::from_static(chunk.as_bytes())));
        let mut data = Holding::new(stream::iter(chunks).boxed(), 4, Arc::clone(&permit));
        for (chunk, holders) in [("one", 2), ("two", 1), ("three", 1)] {
            let got = next(&mut data).expect("data").expect("data");
            assert_eq!(
                (&got[..], Arc::strong_count(&permit)),
                (chunk.as_bytes(), holders)
            );
        }
        assert!(next(&mut data).is_none());
    }

    #[test]
    fn data_that_fail_or_are_shorter_return_the_permit_and_end() {
        let failure = Err(Error::NotImplemented {
            operation: "a".into(),
            implementer: "b".into(),
        });
        let permit = Arc::new(());
        let chunks = [failure, Ok(Bytes::from_static(b"data"))];
        let mut data = Holding::new(stream::iter(chunks).boxed(), 9, Arc::clone(&permit));
        assert!(next(&mut data).expect("a failure").is_err());
        assert_eq!(Arc::strong_count(&permit), 1);
        assert!(next(&mut data).is_none());
        let mut data = Holding::new(stream::empty().boxed(), 9, Arc::clone(&permit));
        assert!(next(&mut data).is_none());
        assert_eq!(Arc::strong_count(&permit), 1);
    }
}
