#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/who_goes_first.rs");

use futures::future::join_all;
use tokio::time::Instant;

/// Two tenants send 100 requests each at once, and a person sends one a little later.
#[tokio::test(start_paused = true)]
async fn queue_serves_a_person_first_and_tenants_by_weight() {
    let queue = queue(Arc::new(Semaphore::new(4)));
    let begun = Instant::now();
    let timed = async |class, at| {
        sleep(Duration::from_millis(at)).await;
        request(&queue, class).await.unwrap();
        begun.elapsed().as_millis()
    };
    let (acme, hooli, person) = tokio::join!(
        join_all((0..100).map(|_| timed("acme", 0))),
        join_all((0..100).map(|_| timed("hooli", 0))),
        timed("interactive", 15),
    );
    // The person gets the first slot that comes back.
    assert_eq!(person, 30);
    // While both tenants wait, acme holds three slots and hooli one, minus the person's.
    let by_200_ms = |ends: Vec<u128>| ends.iter().filter(|&&end| end <= 200).count();
    assert_eq!((by_200_ms(acme), by_200_ms(hooli)), (60, 19));
}
