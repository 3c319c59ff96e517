use futures::Stream;
use tollgate::{AcquireError, Quota, RateLimiter, Semaphore, all};
use tollgate_io::stream::LimitStreamExt;

/// Handles records, as many at once as there are slots, and no faster than the rate.
async fn consume<R, W: Future<Output = ()>>(
    records: impl Stream<Item = R>,
    (slots, rate): (&Semaphore, &RateLimiter),
    handle: impl FnMut(R) -> W,
) -> Result<(), AcquireError> {
    let limits = all((slots, rate));
    records.for_each_limited(limits, handle).await
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    // 16 records at once, and 100 in a second.
    let (slots, rate) = (Semaphore::new(16), RateLimiter::new(Quota::per_second(100)));
    let records = futures::stream::iter(0..1000); // Stands in for `consumer.stream()`.
    consume(records, (&slots, &rate), async |record| {
        println!("{record}");
    })
    .await
}
