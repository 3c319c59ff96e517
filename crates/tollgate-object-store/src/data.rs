//! [`Data`]: the data of an object as a body of known length.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_util::stream::{BoxStream, StreamExt};
use http_body::{Body, Frame, SizeHint};
use object_store::{Error, Result};

/// The data of an object, and how much of it is to come. Without the length, a limiter of bytes would be
/// asked for a whole chunk before the end of the stream could be seen.
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
