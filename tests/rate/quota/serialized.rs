//! As a string, in a configuration.

use proptest::prelude::*;
use tollgate::Quota;

use super::edges::quotas;
use crate::support::cases::cases;

#[test]
fn a_quota_is_a_string() {
    let quota = Quota::per_second(100).burst(20);
    assert_eq!(serde_json::to_string(&quota).unwrap(), "\"100/s burst 20\"");
    let read: Quota = serde_json::from_str("\"100/s, burst 20\"").unwrap();
    assert_eq!(read, quota);
    // From a value, and with an escape in it, the text is handed over otherwise.
    assert_eq!(
        serde_json::from_value::<Quota>("100/s burst 20".into()).unwrap(),
        quota
    );
    let read: Quota = serde_json::from_str("\"100\\u002fs burst 20\"").unwrap();
    assert_eq!(read, quota);
    assert_eq!(
        serde_json::to_string(&Quota::UNLIMITED).unwrap(),
        "\"unlimited\""
    );
    let read: Quota = serde_json::from_str("\"unlimited\"").unwrap();
    assert_eq!(read, Quota::UNLIMITED);
}

#[test]
fn text_that_is_no_quota_is_named_in_the_error() {
    let error = |text| {
        serde_json::from_str::<Vec<Quota>>(text)
            .unwrap_err()
            .to_string()
    };
    let week = error("[\"100/s\", \"5/week\"]");
    let expected =
        "\"5/week\" is no quota: at byte 2: expected a unit of time (d, h, min, s, ms, us or ns)";
    assert!(week.starts_with(expected), "{week}");
    let number = error("[100]");
    assert!(
        number.contains("expected a quota such as \"100/s burst 20\""),
        "{number}"
    );
}

proptest! {
    #![proptest_config(cases(1000))]

    #[test]
    fn what_is_serialized_is_read(quota in quotas()) {
        let text = serde_json::to_string(&quota).unwrap();
        prop_assert_eq!(serde_json::from_str::<Quota>(&text).unwrap(), quota);
    }
}
