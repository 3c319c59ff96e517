#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/crawl_politely.rs");

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use futures::future::try_join_all;
use tokio::time::{Instant, sleep};

/// Each visit takes 300 ms.
#[tokio::test(start_paused = true)]
async fn polite_visits_of_a_host_begin_two_seconds_after_the_end_of_another() {
    let (limits, begun) = (Limits::new(), Instant::now());
    let begins = RefCell::new(HashMap::<_, Vec<_>>::new());
    let visits = (0..30).map(async |page| {
        let url = Url::parse(&format!("http://host-{}/{page}", page % 3)).unwrap();
        let visit = async {
            let host = url.authority().to_owned();
            let at = begun.elapsed();
            begins.borrow_mut().entry(host).or_default().push(at);
            sleep(Duration::from_millis(300)).await;
        };
        limits.polite(&url, visit).await
    });
    try_join_all(visits).await.unwrap();
    let times: Vec<_> = (0..10)
        .map(|visit| Duration::from_millis(visit * 2300))
        .collect();
    let begins = begins.into_inner();
    assert_eq!(begins.len(), 3);
    assert!(begins.values().all(|begins| *begins == times), "{begins:?}");
}

#[tokio::test(start_paused = true)]
async fn polite_visits_of_many_hosts_are_64_at_once() {
    let (limits, begun) = (Limits::new(), Instant::now());
    let (running, most) = (Cell::new(0), Cell::new(0));
    let visits = (0..640).map(async |host| {
        let url = Url::parse(&format!("http://host-{host}/")).unwrap();
        let visit = async {
            running.set(running.get() + 1);
            most.set(most.get().max(running.get()));
            sleep(Duration::from_millis(300)).await;
            running.set(running.get() - 1);
        };
        limits.polite(&url, visit).await
    });
    try_join_all(visits).await.unwrap();
    assert_eq!(most.get(), 64);
    // The two seconds of a host take no slot of the total.
    assert_eq!(begun.elapsed(), Duration::from_millis(10 * 300));
}
