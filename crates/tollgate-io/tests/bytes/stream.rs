//! A stream whose calls follow a script and are counted.

use std::collections::VecDeque;
use std::io::{self, IoSlice, SeekFrom};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncSeek, AsyncWrite, ReadBuf};

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Moves so many bytes, or as many as it is asked for if that is fewer.
    Moves(usize),
    NotReady,
    Fails,
    Panics,
    /// Says that so many bytes have moved, whatever it was asked for.
    Claims(usize),
    /// The end of what can be read; a write takes nothing.
    Ends,
}

/// Does its steps in order, and then moves all that it is asked for.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pub(super) steps: VecDeque<Step>,
    /// How many bytes each call asked for.
    pub(super) asked: Vec<usize>,
    /// How many bytes have moved.
    pub(super) moved: u64,
    /// The slices of the last vectored write.
    pub(super) slices: Vec<usize>,
    pub(super) flushed: u32,
    pub(super) shut_down: u32,
    pub(super) sought: u64,
}

impl Stream {
    pub(super) fn of(steps: impl IntoIterator<Item = Step>) -> Self {
        Self {
            steps: steps.into_iter().collect(),
            ..Self::default()
        }
    }

    pub(super) fn step(&mut self, asked: usize) -> Poll<io::Result<usize>> {
        self.asked.push(asked);
        let moved = match self.steps.pop_front() {
            None => asked,
            Some(Step::Moves(bytes)) => bytes.min(asked),
            Some(Step::Ends) => 0,
            Some(Step::NotReady) => return Poll::Pending,
            Some(Step::Fails) => return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            Some(Step::Panics) => panic!("the stream panics"),
            Some(Step::Claims(bytes)) => return Poll::Ready(Ok(bytes)),
        };
        self.moved += moved as u64;
        Poll::Ready(Ok(moved))
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let polled = self.step(buffer.remaining());
        polled.map_ok(|moved| buffer.put_slice(&vec![7; moved]))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.step(bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffers: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.slices = buffers.iter().map(|buffer| buffer.len()).collect();
        let asked = self.slices.iter().sum();
        self.step(asked)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.flushed += 1;
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut_down += 1;
        Poll::Ready(Ok(()))
    }
}

impl AsyncSeek for Stream {
    fn start_seek(mut self: Pin<&mut Self>, position: SeekFrom) -> io::Result<()> {
        if let SeekFrom::Start(position) = position {
            self.sought = position;
        }
        Ok(())
    }

    fn poll_complete(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<u64>> {
        Poll::Ready(Ok(self.sought))
    }
}
