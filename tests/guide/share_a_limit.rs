#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/share_a_limit.rs");

use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn part_of_each_of_four_nodes_adds_up_to_the_quota() {
    let nodes = [(); 4].map(|()| part(4));
    assert_eq!(nodes[0].quota().to_string(), "50/4s burst 2");
    let mut admitted = 0;
    for _millisecond in 0..10_000 {
        for node in &nodes {
            while node.try_acquire().is_ok() {
                admitted += 1;
            }
        }
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    // The burst, and 50 for each second, minus the four of the very end.
    assert_eq!(admitted, 8 + 500 - 4);
}
