//! `refund_if`: only some answers count.

use std::sync::Arc;

use tollgate::{Clock, Keyed, Quota, RateLimiter, Semaphore, Throttle, all};
use tollgate_tower::{RateLimitHeaders, ThrottleLayer};

use super::{ask, field, statuses};
use crate::support::assert_at_rest;
use crate::support::scripted::Log;

#[test]
fn refund_if_counts_only_what_it_does_not_refund() {
    let limiter = RateLimiter::new(Quota::per_hour(1).burst(2)).clock(Clock::manual());
    let limiter = Arc::new(limiter);
    let layer = ThrottleLayer::new(Arc::clone(&limiter))
        .refusing()
        .refund_if(|head| head.status != 401);
    assert_eq!(statuses(&layer, &["/200", "/500", "/200"]), [200, 500, 200]);
    assert_eq!(limiter.snapshot().available, 2);
    assert_eq!(
        statuses(&layer, &["/401", "/200", "/401", "/200"]),
        [401, 200, 401, 429]
    );
}

#[test]
fn refund_if_refunds_a_key_and_every_part() {
    let quota = Quota::per_hour(1).burst(10);
    let users = Arc::new(Keyed::<u8, _>::rate_limiters(quota));
    let everyone = Arc::new(RateLimiter::new(quota));
    let layer = ThrottleLayer::by({
        let (users, everyone) = (Arc::clone(&users), Arc::clone(&everyone));
        move |_| {
            all((
                Arc::clone(&users).key_owned(7).cost(3),
                Arc::clone(&everyone),
            ))
        }
    })
    .refusing()
    .refund_if(|head| head.status.is_success());
    assert_eq!(statuses(&layer, &["/200", "/401"]), [200, 401]);
    assert_eq!(
        (
            users.key(&7).snapshot().available,
            everyone.snapshot().available
        ),
        (7, 9)
    );
}

#[test]
fn refund_if_rolls_back_once_before_the_body_is_read() {
    let log = Log::default();
    let layer = ThrottleLayer::new(log.part("t")).refund_if(|head| head.status == 200);
    let answer = ask(&layer, "/200");
    assert_eq!(log.take(), ["enter t", "in t0", "undo t0"]);
    drop(answer);
    assert!(log.take().is_empty());
    let answer = ask(&layer, "/500");
    assert_eq!(log.take(), ["enter t", "in t1"]);
    drop(answer);
    assert_eq!(log.take(), ["drop t1"]);
}

#[test]
fn refund_if_fields_tell_what_is_left_after_it() {
    let limiter = RateLimiter::new(Quota::per_hour(60).burst(5)).clock(Clock::manual());
    let layer = ThrottleLayer::new(Arc::new(limiter))
        .refusing()
        .headers(RateLimitHeaders::Draft11)
        .refund_if(|head| head.status != 401);
    assert_eq!(
        field(&ask(&layer, "/401"), "ratelimit"),
        r#""default";r=4;t=60"#
    );
    assert_eq!(
        field(&ask(&layer, "/200"), "ratelimit"),
        r#""default";r=4;t=60"#
    );
}

#[test]
fn refund_if_panics_and_nothing_is_lost() {
    let slots = Arc::new(Semaphore::new(1));
    let layer = ThrottleLayer::new(Arc::clone(&slots)).refund_if(|_| panic!("on purpose"));
    let asked = crate::support::foreign::panic_message(|| ask(&layer, "/200"));
    assert_eq!(asked.as_deref(), Some("on purpose"));
    assert_at_rest(&slots, 1);
    drop(slots.enter());
}
