//! Semaphores in memory, in the paused time of tokio.

use std::time::Duration;

use tokio::time::{Instant, advance, sleep};
use tollgate::ErrorKind;
use tollgate_redis::{Keyed, Semaphore, Store};

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn acquire_while_another_process_holds_waits_for_its_release()
-> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory();
    let [one, other] = [(); 2].map(|()| Semaphore::new(&store, "leader", 1));
    let begin = Instant::now();
    let held = one.acquire().await?;
    assert_eq!(
        other.try_acquire().await.unwrap_err().kind(),
        ErrorKind::NoPermits
    );
    let fencing = held.fencing();
    let releases = tokio::spawn(async move {
        sleep(100 * SECOND).await;
        assert!(!held.is_lost());
        held.release().await
    });
    let next = other.acquire().await?;
    assert_eq!(begin.elapsed(), 100 * SECOND);
    assert!(next.fencing() > fencing);
    releases.await??;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_after_the_ttl_of_a_holder_that_stood_still_gets_the_permit()
-> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory();
    let [one, other] = [(); 2].map(|()| Semaphore::new(&store, "leader", 1).ttl(10 * SECOND));
    let held = one.acquire().await?;
    // The process stands still, so nothing renews the lease.
    advance(10 * SECOND).await;
    assert!(held.is_lost());
    let next = other.acquire().await?;
    assert!(next.fencing() > held.fencing());
    held.token().cancelled().await;
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_many_processes_is_in_order_and_within_the_permits()
-> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory();
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..6_u32 {
        let semaphore = Semaphore::new(&store, "pool", 2);
        tasks.push(tokio::spawn(async move {
            sleep(Duration::from_millis(u64::from(number))).await;
            let lease = semaphore.acquire().await.unwrap();
            let at = begin.elapsed();
            sleep(SECOND).await;
            lease.release().await.unwrap();
            (number, at.as_secs())
        }));
    }
    let mut times = Vec::new();
    for task in tasks {
        times.push(task.await?);
    }
    assert_eq!(times, [(0, 0), (1, 0), (2, 1), (3, 1), (4, 2), (5, 2)]);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_many_permits_and_available_count_them() -> Result<(), Box<dyn std::error::Error>>
{
    let semaphore = Semaphore::new(&Store::in_memory(), "pool", 5);
    let lease = semaphore.acquire_many(3).await?;
    assert_eq!(semaphore.available().await?, 2);
    assert!(semaphore.try_acquire_many(3).await.is_err());
    drop(lease);
    sleep(SECOND).await;
    assert_eq!(semaphore.available().await?, 5);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_keys_that_are_renewed_waits_for_each_release()
-> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory();
    let [holder, other] = [(); 2].map(|()| {
        let one = Semaphore::new(&store, "imports", 1).ttl(10 * SECOND);
        Keyed::new(one, 1_000)
    });
    let begin = Instant::now();
    let mut tasks = Vec::new();
    for number in 0..50_u32 {
        let key = number.to_string();
        let held = holder.key(&key).acquire().await?;
        let next = other.key(&key).acquire();
        // Up to ten ttls, so nobody gets a lease that is not renewed.
        let until = begin + (number + 1) * 2 * SECOND;
        tasks.push(tokio::spawn(async move {
            tokio::time::sleep_until(until).await;
            assert!(!held.is_lost());
            held.release().await
        }));
        tasks.push(tokio::spawn(async move {
            let lease = next.await.unwrap();
            assert_eq!(Instant::now(), until, "{number}");
            lease.release().await
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn acquire_of_keys_after_the_ttl_of_a_holder_that_stood_still_gets_each()
-> Result<(), Box<dyn std::error::Error>> {
    let store = Store::in_memory();
    let one = || Semaphore::new(&store, "imports", 1).ttl(10 * SECOND);
    let [holder, other] = [one, one].map(|one| Keyed::new(one(), 1_000));
    let keys: Vec<_> = (0..50).map(|number| number.to_string()).collect();
    let mut held = Vec::new();
    for key in &keys {
        held.push(holder.key(key).acquire().await?);
    }
    advance(10 * SECOND).await;
    for (key, lost) in keys.iter().zip(&held) {
        assert!(lost.is_lost());
        let next = other.key(key).acquire().await?;
        assert!(next.fencing() > lost.fencing());
        lost.token().cancelled().await;
    }
    Ok(())
}
