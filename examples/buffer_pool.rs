//! A pool of buffers: a hundred requests reuse four buffers.

use std::sync::Arc;

use tokio::task::JoinSet;
use tollgate::{AcquireError, Pool};

async fn request(buffers: Arc<Pool<Vec<u8>>>, number: u8) -> Result<usize, AcquireError> {
    let mut buffer = buffers.acquire().await?;
    // The buffer still holds the data of the last request.
    buffer.clear();
    buffer.extend(0..number);
    tokio::task::yield_now().await;
    Ok(buffer.len())
}

#[tokio::main]
async fn main() -> Result<(), AcquireError> {
    // A buffer is created when it is first needed, and replaced if a request panics while it holds it.
    let buffers = Arc::new(Pool::with_factory(4, || Vec::with_capacity(256)));
    let mut requests = JoinSet::new();
    for number in 0..100 {
        requests.spawn(request(Arc::clone(&buffers), number));
    }
    let lengths: Result<Vec<_>, _> = requests.join_all().await.into_iter().collect();
    let bytes: usize = lengths?.iter().sum();
    println!("{bytes} bytes in {} buffers", buffers.snapshot().limit);
    Ok(())
}
