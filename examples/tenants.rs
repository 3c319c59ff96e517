//! A loud tenant and a quiet one share eight slots, fairly and first-in first-out.
use futures::future::{join, join_all};
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tollgate::{Semaphore, fair::FairQueue};

/// Returns the 99th percentile, in milliseconds, of 200 requests beside this many of a tenant ten times as loud.
async fn p99(tenant: &'static str, loud: u64) -> u128 {
    let slots = FairQueue::new(Arc::new(Semaphore::new(8)));
    let request = async |tenant, at| {
        sleep(Duration::from_millis(at)).await;
        let start = Instant::now();
        let _slot = slots.class(tenant).acquire().await.unwrap();
        sleep(Duration::from_millis(10)).await;
        start.elapsed().as_millis()
    };
    let loud = join_all((0..loud).map(|number| request("loud", number)));
    let quiet = join_all((0..200).map(|number| request(tenant, 10 * number)));
    let (_, mut times) = join(loud, quiet).await;
    times.sort_unstable();
    times[198]
}

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let (alone, fair) = (p99("quiet", 0).await, p99("quiet", 2000).await);
    let fifo = p99("loud", 2000).await;
    assert!(2 * fair <= 3 * alone && fifo >= 10 * alone);
    println!("99th percentile: {alone} ms alone, {fair} ms fair, {fifo} ms in one queue");
}
