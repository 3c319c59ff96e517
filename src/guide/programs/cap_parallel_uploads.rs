use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::sleep;
use tollgate::Semaphore;

/// Stands in for an upload that takes 100 ms.
async fn upload(_file: PathBuf) -> std::io::Result<()> {
    sleep(Duration::from_millis(100)).await;
    Ok(())
}

/// Uploads all files, as many at once as there are slots.
async fn upload_all(
    files: impl IntoIterator<Item = PathBuf>,
    slots: &Arc<Semaphore>,
) -> Result<(), Box<dyn Error>> {
    let mut uploads = JoinSet::new();
    for file in files {
        // Waits here, so no more tasks exist than slots.
        let permit = Arc::clone(slots).acquire_owned().await?;
        uploads.spawn(async move {
            let _permit = permit;
            upload(file).await
        });
        // The set keeps the result of each task until it is joined, so join those that have ended.
        while let Some(ended) = uploads.try_join_next() {
            ended??;
        }
    }
    while let Some(ended) = uploads.join_next().await {
        ended??;
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let slots = Arc::new(Semaphore::new(8));
    let files = std::env::args_os().skip(1).map(PathBuf::from);
    upload_all(files, &slots).await
}
