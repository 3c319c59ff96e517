//! A crawler: one request to a host at once, two seconds between two of them, 64 in total. `CRAWL_HOSTS` says how
//! many hosts there are.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use stats_alloc::Region;
use tokio::time::{Instant, sleep};
use tollgate::{Clock, Keyed, Semaphore, all};

use crate::support::paused_runtime;
use crate::support::random::Random;
use crate::{COUNTED, alone};

const PAUSE: Duration = Duration::from_secs(2);
const REQUESTS_PER_HOST: usize = 3;
/// Requests of so many hosts are mixed, so most of them wait for another request to their host.
const HOSTS_AT_A_TIME: usize = 200;
const WORKERS: usize = 1000;

/// What the crawler does, and what the hosts see of it.
struct Crawl {
    hosts: Arc<Keyed<u64, Semaphore>>,
    total: Semaphore,
    next: Cell<usize>,
    random: RefCell<Random>,
    /// When the last request to each host ended; a host that is busy has none.
    ends: Vec<Cell<Option<Instant>>>,
    busy: Cell<usize>,
    most_busy: Cell<usize>,
    most_keys: Cell<usize>,
    most_bytes: Cell<usize>,
}

impl Crawl {
    /// Returns the next host of the list, in which those of one block come in turn.
    fn next_host(&self) -> Option<usize> {
        let index = self.next.replace(self.next.get() + 1);
        let (block, place) = (
            index / (HOSTS_AT_A_TIME * REQUESTS_PER_HOST),
            index % HOSTS_AT_A_TIME,
        );
        let host = block * HOSTS_AT_A_TIME + place;
        (host < self.ends.len()).then_some(host)
    }

    async fn work(&self, region: &Region<'_, std::alloc::System>, before: Instant) {
        while let Some(host) = self.next_host() {
            let key = host as u64;
            let both = all((self.hosts.key(&key), &self.total));
            let (permit, _slot) = both.acquire().await.unwrap();
            let _permit = permit.release_after(PAUSE).clock(Clock::tokio());
            let ended = self.ends[host].take().expect("the host has no request now");
            assert!(
                ended == before || ended.elapsed() >= PAUSE,
                "{:?}",
                ended.elapsed()
            );

            self.busy.set(self.busy.get() + 1);
            self.most_busy
                .set(self.busy.get().max(self.most_busy.get()));
            let duration = self.random.borrow_mut().below(300);
            sleep(Duration::from_millis(duration.into())).await;
            self.busy.set(self.busy.get() - 1);
            self.ends[host].set(Some(Instant::now()));

            self.most_keys
                .set(self.hosts.len().max(self.most_keys.get()));
            let held = crate::held(region);
            self.most_bytes.set(held.max(self.most_bytes.get()));
        }
    }
}

/// The entry of a host goes away when its permit is released: a new host takes its place.
#[test]
fn release_after_of_each_host_spaces_its_requests_in_bounded_memory() {
    let _alone = alone();
    let count = std::env::var("CRAWL_HOSTS").ok();
    let count = count.map_or(1_000, |count| count.parse().unwrap());
    let runtime = paused_runtime();
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async {
        // So that no host waits for the first request.
        let before = Instant::now() - PAUSE;
        let crawl = Rc::new(Crawl {
            hosts: Arc::new(Keyed::semaphores(1)),
            total: Semaphore::new(64),
            next: Cell::new(0),
            random: RefCell::new(Random::new(1)),
            ends: vec![Cell::new(Some(before)); count],
            busy: Cell::new(0),
            most_busy: Cell::new(0),
            most_keys: Cell::new(0),
            most_bytes: Cell::new(0),
        });
        let region = Rc::new(Region::new(COUNTED));
        let workers: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (crawl, region) = (Rc::clone(&crawl), Rc::clone(&region));
                tokio::task::spawn_local(async move { crawl.work(&region, before).await })
            })
            .collect();
        for worker in workers {
            worker.await.unwrap();
        }
        assert!(crawl.ends.iter().all(|end| end.get().is_some()));
        assert_eq!(crawl.most_busy.get(), 64);
        // Of a million hosts too.
        assert!(crawl.most_keys.get() <= 20_000);
        assert!(crawl.most_bytes.get() <= 20 << 20);

        // All of them have rested.
        sleep(2 * PAUSE).await;
        crawl.hosts.shrink();
        assert!(crawl.hosts.is_empty());
    });
}
