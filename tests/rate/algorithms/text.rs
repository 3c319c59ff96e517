//! As text.

use tollgate::{Algorithm, Quota};

const ALL: [(Algorithm, &str); 7] = [
    (Algorithm::Gcra, "gcra"),
    (Algorithm::TokenBucket, "token-bucket"),
    (Algorithm::FixedWindow, "fixed-window"),
    (Algorithm::SlidingWindow, "sliding-window"),
    (Algorithm::SlidingLog, "sliding-log"),
    (Algorithm::SubInterval { parts: 1 }, "sub-interval/1"),
    (
        Algorithm::SubInterval { parts: u32::MAX },
        "sub-interval/4294967295",
    ),
];

#[test]
fn what_is_written_is_read() {
    for (algorithm, text) in ALL {
        assert_eq!(algorithm.to_string(), text);
        assert_eq!(text.parse(), Ok(algorithm));
        assert_eq!(format!("{algorithm:>40}"), format!("{text:>40}"));
    }
    assert_eq!(Algorithm::default(), Algorithm::Gcra);
}

#[test]
fn anything_else_is_no_algorithm() {
    let texts = [
        "",
        "GCRA",
        "sliding log",
        " gcra",
        "sub-interval",
        "sub-interval/",
        "sub-interval/+8",
        "sub-interval/-8",
        "sub-interval/8 ",
        "sub-interval/4294967296",
    ];
    for text in texts {
        let error = text.parse::<Algorithm>().unwrap_err().to_string();
        assert!(
            error.starts_with("unknown algorithm, expected gcra, "),
            "{text}: {error}"
        );
        assert!(
            error.ends_with(" or sub-interval/ and a number"),
            "{text}: {error}"
        );
    }
    let error = "leaky-bucket".parse::<Algorithm>().unwrap_err();
    let expected = "a leaky bucket is a type of its own, LeakyBucket, not an algorithm";
    assert_eq!(error.to_string(), expected);
    let error = "sub-interval/0".parse::<Algorithm>().unwrap_err();
    assert_eq!(error.to_string(), "a period cannot be cut into 0 parts");
}

#[test]
fn it_can_be_asked_whether_a_quota_fits() {
    const { assert!(Algorithm::SlidingLog.check(Quota::per_second(100)).is_ok()) };
    let ten = Quota::per_second(10);
    for (algorithm, _) in ALL {
        let fits = algorithm.check(ten.burst(2)).is_ok();
        assert_eq!(
            fits,
            matches!(algorithm, Algorithm::Gcra | Algorithm::TokenBucket)
        );
    }
}

#[cfg(feature = "serde")]
#[test]
fn it_is_a_string_in_a_configuration() {
    for (algorithm, text) in ALL {
        let written = serde_json::to_string(&algorithm).unwrap();
        assert_eq!(written, format!("\"{text}\""));
        assert_eq!(
            serde_json::from_str::<Algorithm>(&written).unwrap(),
            algorithm
        );
        let value = serde_json::Value::from(text);
        assert_eq!(
            serde_json::from_value::<Algorithm>(value).unwrap(),
            algorithm
        );
    }
    let error = serde_json::from_str::<Algorithm>("\"bucket\"").unwrap_err();
    let expected = "\"bucket\" is no algorithm: unknown algorithm, expected gcra";
    assert!(error.to_string().starts_with(expected), "{error}");
}
