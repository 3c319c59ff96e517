//! A connection in memory: two queues of bytes, without a bound.
//!
//! Who waits for bytes is woken by who writes them, and by nothing else, so the runtime knows at any
//! time whether something is pending. Dropping an end ends what the other reads, and fails what it
//! writes.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// One of the two ends.
pub(super) struct End {
    incoming: Arc<Mutex<Queue>>,
    outgoing: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    bytes: VecDeque<u8>,
    closed: bool,
    reader: Option<Waker>,
}

/// Both ends.
pub(super) fn pipe() -> (End, End) {
    let (there, back) = (Arc::default(), Arc::default());
    let end = |incoming: &Arc<_>, outgoing: &Arc<_>| End {
        incoming: Arc::clone(incoming),
        outgoing: Arc::clone(outgoing),
    };
    (end(&back, &there), end(&there, &back))
}

/// Does something to a queue, and wakes who reads it.
fn change<R>(queue: &Mutex<Queue>, change: impl FnOnce(&mut Queue) -> R) -> R {
    let (result, reader) = {
        let mut queue = queue.lock().unwrap();
        (change(&mut queue), queue.reader.take())
    };
    if let Some(reader) = reader {
        reader.wake();
    }
    result
}

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let mut queue = self.incoming.lock().unwrap();
        if queue.bytes.is_empty() && !queue.closed {
            queue.reader = Some(context.waker().clone());
            return Poll::Pending;
        }
        let count = queue.bytes.len().min(into.remaining());
        let bytes: Vec<_> = queue.bytes.drain(..count).collect();
        into.put_slice(&bytes);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(change(&self.outgoing, |queue| {
            if queue.closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            queue.bytes.extend(bytes);
            Ok(bytes.len())
        }))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        change(&self.outgoing, |queue| queue.closed = true);
        Poll::Ready(Ok(()))
    }
}

impl Drop for End {
    fn drop(&mut self) {
        change(&self.outgoing, |queue| queue.closed = true);
        change(&self.incoming, |queue| queue.closed = true);
    }
}
