//! A batch job yields to interactive requests, and still finishes.
use std::{sync::Arc, time::Duration};
use tokio::time::{Instant, sleep};
use tollgate::fair::{Class, FairQueue};
use tollgate::{Clock, Semaphore};

#[tokio::main(flavor = "current_thread", start_paused = true)]
async fn main() {
    let slots = FairQueue::new(Arc::new(Semaphore::new(4)))
        .classes(|is_interactive| Class::new().priority(u8::from(*is_interactive)))
        .aging(Duration::from_secs(1))
        .clock(Clock::tokio());
    let work = async |is_interactive: bool| {
        let start = Instant::now();
        let _slot = slots.class(is_interactive).acquire().await.unwrap();
        sleep(Duration::from_millis(20)).await;
        start.elapsed().as_millis()
    };
    let batch = futures::future::join_all((0..200).map(|_| work(false)));
    let people = futures::future::join_all((0..50).map(async |request| {
        sleep(Duration::from_millis(7 * request)).await;
        work(true).await
    }));
    let (batch, people) = tokio::join!(batch, people);
    let (batch, people) = (batch.iter().max().unwrap(), people.iter().max().unwrap());
    assert!(*people <= 40 && *batch <= 1260);
    println!("people wait {people} ms at most, the batch takes {batch} ms");
}
