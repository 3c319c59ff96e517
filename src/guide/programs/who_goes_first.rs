use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tollgate::fair::{Class, FairQueue};
use tollgate::{AcquireError, Semaphore};

type Queue = FairQueue<Arc<Semaphore>, &'static str>;

/// People go first. Among the tenants, acme has three times the weight of each other one.
fn queue(slots: Arc<Semaphore>) -> Queue {
    FairQueue::new(slots).classes(|class: &&str| match *class {
        "interactive" => Class::new().priority(1),
        "acme" => Class::new().weight(3),
        _ => Class::new(),
    })
}

async fn request(queue: &Queue, class: &'static str) -> Result<(), AcquireError> {
    let _slot = queue.class(class).acquire().await?;
    sleep(Duration::from_millis(10)).await; // Stands in for the work.
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    let queue = queue(Arc::new(Semaphore::new(4)));
    tokio::try_join!(
        request(&queue, "acme"),
        request(&queue, "hooli"),
        request(&queue, "interactive"),
    )?;
    Ok(())
}
