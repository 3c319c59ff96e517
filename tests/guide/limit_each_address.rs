#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/limit_each_address.rs");

use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn is_admitted_of_an_address_that_spent_its_burst_is_false() {
    let (busy, other) = ([192, 0, 2, 1].into(), [192, 0, 2, 2].into());
    assert!((0..20).all(|_| is_admitted(busy)));
    assert!(!is_admitted(busy));
    assert!(is_admitted(other));
    tokio::time::advance(Duration::from_millis(100)).await;
    assert!(is_admitted(busy));
    assert!(!is_admitted(busy));
}
