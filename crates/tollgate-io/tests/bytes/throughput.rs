//! The rate is reached, also by streams that move less than they asked for.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::time::Instant;
use tollgate::{Clock, Quota, RateLimiter};
use tollgate_io::ThrottleIoExt;

/// A source whose every read returns so many bytes.
struct Short(usize);

impl AsyncRead for Short {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let bytes = self.0.min(buffer.remaining());
        buffer.put_slice(&vec![7; bytes]);
        Poll::Ready(Ok(()))
    }
}

fn limiter_of(quota: Quota) -> RateLimiter {
    RateLimiter::new(quota).clock(Clock::tokio())
}

/// Returns how long it takes to read `total` bytes, `short` in each read.
async fn time_of(limiter: &RateLimiter, short: usize, total: usize) -> Duration {
    let mut reader = Short(short).throttled(limiter);
    let mut buffer = vec![0; 1 << 20];
    let start = Instant::now();
    let mut read = 0;
    while read < total {
        read += reader.read(&mut buffer).await.expect("it does not fail");
    }
    start.elapsed()
}

#[tokio::test(start_paused = true)]
async fn short_reads_reach_the_rate() {
    for rate in [1_000_000, 10_000_000, 100_000_000] {
        for short in [100, 512, 1460, 16 << 10, 1 << 20] {
            if rate / short as u64 > 100_000 {
                continue;
            }
            let limiter = limiter_of(Quota::bytes_per_second(rate));
            let time = time_of(&limiter, short, 2 * rate as usize).await;
            // 80 ms of the two seconds are the burst.
            let range = Duration::from_millis(1910)..Duration::from_millis(1940);
            assert!(range.contains(&time), "{short} of {rate}: {time:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn short_reads_with_a_burst_of_ten_milliseconds_reach_the_rate() {
    let quota = Quota::per_second(1_000_000).burst(10_000);
    let time = time_of(&limiter_of(quota), 512, 2_000_000).await;
    let range = Duration::from_millis(1980)..Duration::from_millis(2000);
    assert!(range.contains(&time), "{time:?}");
}

#[tokio::test(start_paused = true)]
async fn set_quota_to_a_tenth_holds_within_twenty_milliseconds() {
    let limiter = limiter_of(Quota::bytes_per_second(10_000_000));
    time_of(&limiter, 1 << 20, 1_000_000).await;
    limiter.set_quota(Quota::bytes_per_second(1_000_000));
    let time = time_of(&limiter, 1 << 20, 1_000_000).await;
    let range = Duration::from_millis(980)..Duration::from_millis(1020);
    assert!(range.contains(&time), "{time:?}");
}
