use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite, BufReader, BufWriter};
use tollgate::fair::{ClassHandle, FairQueue, Share};
use tollgate::{Quota, RateLimiter};
use tollgate_io::{ThrottleIoExt, Throttled};

/// The share of a client, whose name is a number.
type Client = ClassHandle<Arc<RateLimiter>, u32>;

/// A bandwidth that clients share equally by bytes.
struct Bandwidth {
    clients: FairQueue<Arc<RateLimiter>, u32>,
    buffer: usize,
}

impl Bandwidth {
    fn new(bytes_per_second: u64) -> Self {
        let total = RateLimiter::new(Quota::bytes_per_second(bytes_per_second));
        let clients = FairQueue::new(Arc::new(total)).share(Share::ByCost);
        // The bytes of 1 ms, and at least 1 KiB.
        let buffer = (bytes_per_second / 1000).max(1024) as usize;
        Self { clients, buffer }
    }

    /// Limits a reader. All streams of a client have one share together.
    fn reader<R: AsyncRead>(&self, client: u32, reader: R) -> BufReader<Throttled<R, Client>> {
        BufReader::with_capacity(self.buffer, reader.throttled(self.clients.class(client)))
    }

    /// Limits a writer. Flush it at the end.
    fn writer<W: AsyncWrite>(&self, client: u32, writer: W) -> BufWriter<Throttled<W, Client>> {
        BufWriter::with_capacity(self.buffer, writer.throttled(self.clients.class(client)))
    }
}
