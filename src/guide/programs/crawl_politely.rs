use std::sync::Arc;
use std::time::Duration;

use reqwest::Url;
use tokio::task::JoinSet;
use tollgate::{AcquireError, Keyed, Semaphore, all};

/// Limits requests to one at a time per host, two seconds apart, and to 64 for all hosts together.
struct Limits {
    hosts: Arc<Keyed<String, Semaphore>>,
    total: Arc<Semaphore>,
}

impl Limits {
    fn new() -> Self {
        let hosts = Keyed::semaphores(1).max_keys(1_000_000);
        let (hosts, total) = (Arc::new(hosts), Arc::new(Semaphore::new(64)));
        Self { hosts, total }
    }

    /// Waits until the host of `url` may be visited, and then runs `visit`.
    async fn polite<T>(
        &self,
        url: &Url,
        visit: impl Future<Output = T>,
    ) -> Result<T, AcquireError> {
        let host = Arc::clone(&self.hosts).key_owned(url.authority().to_owned());
        // The host comes first: a visit that waits for its host takes nothing from the others.
        let limits = all((host, Arc::clone(&self.total)));
        let (host, _one_of_all) = limits.acquire().await?;
        let _host = host.release_after(Duration::from_secs(2)); // After the end of the visit.
        Ok(visit.await)
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let limits = Arc::new(Limits::new());
    let client = reqwest::Client::new();
    let mut visits = JoinSet::new();
    for url in std::env::args().skip(1) {
        let (url, limits, client) = (Url::parse(&url)?, Arc::clone(&limits), client.clone());
        visits.spawn(async move {
            // The body is a part of the visit.
            let page = async { client.get(url.clone()).send().await?.text().await };
            limits.polite(&url, page).await
        });
    }
    while let Some(page) = visits.join_next().await {
        match page?? {
            Ok(page) => println!("{} bytes", page.len()), // Spawn a visit for each new link.
            Err(error) => eprintln!("{error}"),
        }
    }
    Ok(())
}
