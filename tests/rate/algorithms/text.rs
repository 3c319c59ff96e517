//! As text.

use tollgate::{Algorithm, Quota};

/// Texts that stay as they are, because configurations have them.
const TEXTS: [(Algorithm, &str); 7] = [
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
    for (algorithm, text) in TEXTS {
        assert_eq!(algorithm.to_string(), text);
        assert_eq!(text.parse(), Ok(algorithm));
        assert_eq!(format!("{algorithm:>40}"), format!("{text:>40}"));
    }
    assert_eq!(Algorithm::default(), Algorithm::Gcra);
}

#[test]
fn parse_of_each_name_returns_the_algorithm() {
    let unknown = "".parse::<Algorithm>().unwrap_err().to_string();
    for algorithm in Algorithm::all() {
        let text = algorithm.to_string();
        assert_eq!(text.parse(), Ok(*algorithm));
        let name = text.split('/').next().unwrap_or_default();
        assert!(unknown.contains(name), "{unknown}");
    }
}

/// The variants, as they are written.
#[test]
fn all_has_each_variant_once() {
    let source = include_str!("../../../src/algorithm/choice.rs");
    let body = source.split("pub enum Algorithm {").nth(1).unwrap();
    let body = body.split("\n}").next().unwrap();
    let written = body.lines().filter_map(|line| {
        let name = line.strip_prefix("    ")?.trim_end_matches([',', '{', ' ']);
        let is_name =
            name.starts_with(char::is_uppercase) && name.chars().all(char::is_alphanumeric);
        is_name.then_some(name)
    });
    let listed = Algorithm::all().iter().map(variant);
    assert_eq!(listed.collect::<Vec<_>>(), written.collect::<Vec<_>>());
}

fn variant(algorithm: &Algorithm) -> String {
    let debug = format!("{algorithm:?}");
    debug.split(' ').next().unwrap_or_default().to_owned()
}

/// Each has a row in the table of `Algorithm`, and is named by the page that helps to choose.
#[test]
fn all_are_described() {
    let table = include_str!("../../../src/algorithm/choice.rs");
    let page = include_str!("../../../src/guide/choose_an_algorithm.rs");
    for algorithm in Algorithm::all() {
        let name = variant(algorithm);
        let row = format!("/// | [`{name}`](Self::{name}) |");
        assert!(table.contains(&row), "src/algorithm/choice.rs has no {row}");
        let link = format!("(crate::Algorithm::{name})");
        assert!(page.contains(&link), "choose_an_algorithm.rs has no {link}");
    }
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
            error.contains(" sub-interval/ and a number"),
            "{text}: {error}"
        );
        for algorithm in Algorithm::all() {
            let name = algorithm.to_string();
            let name = name.trim_end_matches(|it: char| it.is_ascii_digit());
            assert!(error.contains(name), "{name}: {error}");
        }
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
    for (algorithm, _) in TEXTS {
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
    for (algorithm, text) in TEXTS {
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
