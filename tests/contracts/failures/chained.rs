//! What a chain of throttles does to those who are not its caller.

use std::sync::Arc;
use std::time::Duration;

use tollgate::{ErrorKind, Semaphore, all};

use crate::support::{Waiter, assert_at_rest, kind};

/// A chain leaks what it took before the refusal; a noisy tenant holds the shared scope.
///
/// Seen in BaseIntelligence/bounty-challenge#4191, throttle-net TN2-002.
#[test]
fn chain_leaks_what_it_took_and_noisy_tenant_holds_the_shared_scope() {
    // As reported: the first has room for five, the second for one.
    let (five, one) = (Semaphore::new(5), Semaphore::new(1));
    let chain = all((&five, &one));
    let permits = chain.try_acquire().unwrap();
    for _ in 0..100 {
        assert_eq!(kind(chain.try_acquire()), ErrorKind::NoPermits);
        assert_eq!(five.available_permits(), 4);
    }
    // The same for those who wait, and give up, or are out of time.
    for _ in 0..100 {
        drop(Waiter::parked(chain.acquire()));
        let refused = chain.acquire().timeout(Duration::ZERO).wait();
        assert_eq!(kind(refused), ErrorKind::TimedOut);
        assert_eq!(five.available_permits(), 4);
    }
    one.close();
    assert_eq!(kind(chain.acquire().wait()), ErrorKind::Closed);
    drop(permits);
    assert_at_rest(&five, 5);
    assert_at_rest(&one, 1);

    // One tenant has many requests, and takes no more of what all share than it may have itself.
    let (noisy, quiet) = (Arc::new(Semaphore::new(2)), Arc::new(Semaphore::new(2)));
    let shared = Arc::new(Semaphore::new(4));
    let request =
        |tenant: &Arc<Semaphore>| all((Arc::clone(tenant), Arc::clone(&shared))).acquire();
    let mut flood: Vec<_> = (0..100).map(|_| Waiter::new(request(&noisy))).collect();
    let let_in: Vec<_> = flood
        .iter_mut()
        .filter_map(|waiter| match waiter.poll() {
            std::task::Poll::Ready(permits) => Some(permits.unwrap()),
            std::task::Poll::Pending => None,
        })
        .collect();
    assert_eq!(let_in.len(), 2);
    assert_eq!(
        (
            shared.available_permits(),
            shared.snapshot().waiting,
            noisy.snapshot().waiting
        ),
        (2, 0, 98)
    );
    let of_quiet = [
        Waiter::new(request(&quiet)).granted(),
        Waiter::new(request(&quiet)).granted(),
    ];
    // A flood of tries is no different.
    for _ in 0..100 {
        assert_eq!(
            kind(all((&*noisy, &*shared)).try_acquire()),
            ErrorKind::NoPermits
        );
    }
    drop(of_quiet);
    assert_eq!(shared.available_permits(), 2);
    drop((flood, let_in));
    for (semaphore, permits) in [(&noisy, 2), (&quiet, 2), (&shared, 4)] {
        assert_at_rest(semaphore, permits);
    }
}
