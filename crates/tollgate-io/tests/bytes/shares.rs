//! Tests how streams share a limiter: by call where they use it directly, and by byte with the program of the
//! guide. The time is paused, and timers fire once a millisecond, so a limiter of more than 1 MB/s often admits
//! several calls at once.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, repeat, sink};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

include!("../../src/guide/programs/share_by_bytes.rs");

const KIB: usize = 1 << 10;

/// The sizes of reads and writes, from single bytes to 64 KiB.
const SIZES: [usize; 5] = [1, 7, KIB, 4 * KIB, 64 * KIB];

const SECOND: Duration = Duration::from_secs(1);

/// The number of bytes that a stream has moved.
type Moved = Arc<AtomicU64>;

async fn read(mut reader: impl AsyncRead + Unpin, size: usize, moved: Moved) {
    let mut buffer = vec![0; size];
    loop {
        let bytes = reader.read(&mut buffer).await.expect("it does not fail");
        moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

async fn write(mut writer: impl AsyncWrite + Unpin, size: usize, moved: Moved) {
    let bytes = vec![7; size];
    loop {
        let bytes = writer.write(&bytes).await.expect("it does not fail");
        moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}

/// Streams in tasks of their own, which end with this value.
#[derive(Default)]
struct Streams {
    moved: Vec<Moved>,
    tasks: JoinSet<()>,
}

impl Streams {
    fn add<F: Future<Output = ()> + Send + 'static>(&mut self, stream: impl FnOnce(Moved) -> F) {
        let moved = Moved::default();
        self.tasks.spawn(stream(Arc::clone(&moved)));
        self.moved.push(moved);
    }

    /// Returns the number of bytes that each stream moves in the next `time`.
    async fn moved_in(&self, time: Duration) -> Vec<u64> {
        let moved = || self.moved.iter().map(|moved| moved.load(Ordering::Relaxed));
        let before: Vec<_> = moved().collect();
        sleep(time).await;
        let pairs = moved().zip(before);
        pairs.map(|(now, before)| now - before).collect()
    }
}

/// Returns Jain's index: 1 if all parts are equal, and `1/n` if one of `n` has everything.
fn jain(parts: &[u64]) -> f64 {
    let sum: f64 = parts.iter().map(|part| *part as f64).sum();
    let squares: f64 = parts.iter().map(|part| (*part as f64).powi(2)).sum();
    sum * sum / (parts.len() as f64 * squares)
}

/// Checks that the parts are equal and that the limit is used: `time` of it, and at most a burst more.
#[track_caller]
fn assert_shared(parts: &[u64], rate: u64, time: Duration) {
    let index = jain(parts);
    assert!(index >= 0.95, "{index:.3} at {rate}/s: {parts:?}");
    let (sum, expected) = (parts.iter().sum::<u64>(), rate * time.as_secs());
    let burst = Quota::bytes_per_second(rate).max_burst();
    // What the buffers hold was charged, and not read yet.
    let held = parts.len() as u64 * (rate / 100).max(1024);
    let range = expected.saturating_sub(held)..=expected + burst + held;
    assert!(range.contains(&sum), "{sum} of {range:?} at {rate}/s");
}

/// Returns rates, and the sizes of the streams that share each of them.
fn cases() -> Vec<(u64, Vec<usize>)> {
    let mixed: Vec<_> = SIZES.into_iter().cycle().take(32).collect();
    vec![
        (200_000, vec![64 * KIB, 1]),
        (200_000, SIZES.to_vec()),
        (200_000, mixed.clone()),
        (1_000_000, vec![KIB, 64 * KIB]),
        (1_000_000, SIZES.to_vec()),
        (1_000_000, mixed),
        (20_000_000, vec![KIB, 4 * KIB, 64 * KIB]),
    ]
}

/// Reads of 1 KiB get what the guide says, beside reads of 64 KiB.
#[tokio::test(start_paused = true)]
async fn read_of_a_shared_limiter_shares_by_call() {
    for (rate, expected) in [(5_000_000, 2.0), (20_000_000, 1.5)] {
        let limiter = Arc::new(RateLimiter::new(Quota::bytes_per_second(rate)));
        let mut streams = Streams::default();
        for size in [64 * KIB, KIB] {
            let reader = repeat(7).throttled(Arc::clone(&limiter));
            streams.add(|moved| read(reader, size, moved));
        }
        streams.moved_in(SECOND).await;
        let parts = streams.moved_in(10 * SECOND).await;
        let percent = 100.0 * parts[1] as f64 / parts.iter().sum::<u64>() as f64;
        assert_eq!((percent * 10.0).round() / 10.0, expected, "{parts:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn read_of_clients_with_different_sizes_shares_by_bytes() {
    for (rate, sizes) in cases() {
        let bandwidth = Bandwidth::new(rate);
        let mut streams = Streams::default();
        for (client, size) in (0..).zip(sizes) {
            let reader = bandwidth.reader(client, repeat(7));
            streams.add(|moved| read(reader, size, moved));
        }
        let parts = streams.moved_in(3 * SECOND).await;
        assert_shared(&parts, rate, 3 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn write_of_clients_with_different_sizes_shares_by_bytes() {
    for (rate, sizes) in cases() {
        let bandwidth = Bandwidth::new(rate);
        let mut streams = Streams::default();
        for (client, size) in (0..).zip(sizes) {
            let writer = bandwidth.writer(client, sink());
            streams.add(|moved| write(writer, size, moved));
        }
        let parts = streams.moved_in(3 * SECOND).await;
        assert_shared(&parts, rate, 3 * SECOND);
    }
}

/// Whoever pauses loses what the others use meanwhile, and gets an equal share again afterwards. The read that is
/// dropped in its wait leaves one chunk.
#[tokio::test(start_paused = true)]
async fn read_after_a_pause_shares_by_bytes() {
    let rate = 200_000;
    for pauses in [1, KIB, 64 * KIB] {
        let bandwidth = Bandwidth::new(rate);
        let mut streams = Streams::default();
        let mut reader = bandwidth.reader(0, repeat(7));
        streams.add(|moved| async move {
            for _ in 0..2 {
                let reads = read(&mut reader, pauses, Arc::clone(&moved));
                timeout(2 * SECOND, reads).await.expect_err("it ended");
                sleep(2 * SECOND).await;
            }
        });
        for (client, size) in (1..).zip(SIZES) {
            let reader = bandwidth.reader(client, repeat(7));
            streams.add(|moved| read(reader, size, moved));
        }
        assert_shared(&streams.moved_in(2 * SECOND).await, rate, 2 * SECOND);
        let parts = streams.moved_in(2 * SECOND).await;
        assert_eq!(parts[0], 0);
        assert_shared(&parts[1..], rate, 2 * SECOND);
        assert_shared(&streams.moved_in(2 * SECOND).await, rate, 2 * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn read_of_a_client_with_several_streams_has_one_share() {
    let bandwidth = Bandwidth::new(1_000_000);
    let mut streams = Streams::default();
    for (client, size) in [(1, 64 * KIB), (2, 1), (2, KIB), (2, 64 * KIB)] {
        let reader = bandwidth.reader(client, repeat(7));
        streams.add(|moved| read(reader, size, moved));
    }
    let parts = streams.moved_in(3 * SECOND).await;
    assert_shared(&[parts[0], parts[1..].iter().sum()], 1_000_000, 3 * SECOND);
}

/// The same bandwidth for a reader and a writer of two clients.
#[tokio::test(start_paused = true)]
async fn read_and_write_of_two_clients_share_by_bytes() {
    let bandwidth = Bandwidth::new(1_000_000);
    let mut streams = Streams::default();
    let (reader, writer) = (bandwidth.reader(1, repeat(7)), bandwidth.writer(2, sink()));
    streams.add(|moved| read(reader, 1, moved));
    streams.add(|moved| write(writer, 64 * KIB, moved));
    let parts = streams.moved_in(3 * SECOND).await;
    assert_shared(&parts, 1_000_000, 3 * SECOND);
}
