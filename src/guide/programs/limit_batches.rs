use std::time::Duration;

use futures::Stream;
use tokio_stream::StreamExt;
use tollgate::{AcquireError, Quota, RateLimiter};
use tollgate_io::stream::LimitStreamExt;

/// Sends up to 100 records together, or those that came in 100 ms, and no faster than the rate of batches.
async fn send_in_batches<R, W: Future<Output = ()>>(
    records: impl Stream<Item = R>,
    rate: &RateLimiter,
    send: impl FnMut(Vec<R>) -> W,
) -> Result<(), AcquireError> {
    let batches = records.chunks_timeout(100, Duration::from_millis(100));
    batches.for_each_limited(rate, send).await
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let rate = RateLimiter::new(Quota::per_second(5)); // Of batches.
    let records = futures::stream::iter(0..1000); // Stands in for the receiver of a channel.
    send_in_batches(records, &rate, async |batch| {
        println!("{} records", batch.len());
    })
    .await
}
