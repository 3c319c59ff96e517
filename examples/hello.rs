//! Downloads ten files, three at once.

use std::time::Duration;

#[tokio::main]
async fn main() {
    let slots = tollgate::Semaphore::new(3);
    let downloads = (1..=10).map(async |n| {
        let _slot = slots.acquire().await.unwrap();
        println!("downloading file {n}");
        tokio::time::sleep(Duration::from_secs(1)).await;
    });
    futures::future::join_all(downloads).await;
}
