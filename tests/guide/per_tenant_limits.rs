#![expect(dead_code, reason = "`main` is for readers")]

include!("../../src/guide/programs/per_tenant_limits.rs");

use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn key_of_a_tenant_that_spent_its_burst_is_refused_alone() {
    let tenants = Tenants::new();
    tenants.set_plan("acme", PAID);
    tenants.limits.key("hooli").try_acquire_many(20).unwrap();
    let refused = tenants.limits.key("hooli").try_acquire().unwrap_err();
    assert_eq!(refused.retry_after(), Some(Duration::from_millis(100)));
    tenants.limits.key("acme").try_acquire_many(200).unwrap();
}

#[tokio::test(start_paused = true)]
async fn set_plan_of_a_tenant_in_debt_holds_at_once_and_forgives_nothing() {
    let tenants = Tenants::new();
    tenants.limits.key("hooli").try_acquire_many(20).unwrap();
    tenants.set_plan("hooli", PAID);
    tokio::time::advance(Duration::from_millis(100)).await;
    tenants.limits.key("hooli").try_acquire_many(10).unwrap();
    assert_eq!(tenants.limits.len(), 1);
}
