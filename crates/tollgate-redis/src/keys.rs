//! The keys on the server, and their derivation from names. No other code creates keys.
//!
//! | what | key |
//! |---|---|
//! | the rate limit `requests`, also in a set | `requests` |
//! | the key `42` of the limits `user` | `user/42` |
//! | the turns of the rate limit `requests` | `{requests}/%turns` |
//! | the semaphore `exports` | `{exports}/semaphore/leases`, and five others beside it |
//! | the key `42` of the semaphores `exports` | `{exports/42}/semaphore/leases`, and five others |
//! | the caller `192.0.2.7` of the detector `abuse` | `{abuse}/detector/192.0.2.7` |
//! | the [sentinel](Semaphore) | `tollgate:born` |
//!
//! 1. Two limits never share a key. The slashes of a key show its owner and the end of each name,
//!    because a slash in a name is percent-encoded, as in a URL, and so is the percent sign. Names
//!    that begin with `tollgate:` are encoded too, because the sentinel does.
//! 2. The tag in braces of a name is the tag of its keys, so names with a common tag have their keys
//!    in one slot of a cluster. Braces in the keys of a [keyed](keyed) limit are encoded, so that
//!    these limits are spread over all slots, even if a client chooses the keys. The same holds for semaphores.
//! 3. The turns of a rate limit are in the slot of its key.
//! 4. All keys of a semaphore, or of a detector, are in one slot: a name without a tag becomes one.
//! 5. The sentinel belongs to the data of the server, not to one semaphore. It distinguishes a key
//!    that is used for the first time from one whose data was lost. A server has one sentinel. A
//!    cluster has one in each slot, because a script sees only its own slot.

use std::borrow::Cow;
use std::sync::LazyLock;

use crate::script::{SLOTS, slot, tag};

/// The names of the crate itself.
const OURS: &str = "tollgate:";

/// The sentinel of a server.
const SENTINEL: &str = "tollgate:born";

/// Returns the key of the rate limit with a name.
pub(crate) fn rate(name: &str) -> String {
    match name.strip_prefix(OURS) {
        Some(rest) => format!("tollgate%3A{}", encoded(rest, "%/")),
        None => encoded(name, "%/").into_owned(),
    }
}

/// Returns the key of one of many rate limits, derived from the key of their model. The model may
/// itself be one of many: then one more slash is added, so that two limits never share a key.
pub(crate) fn keyed(rate: &str, name: &str) -> String {
    let end = if rate.contains('/') { "//" } else { "/" };
    format!("{rate}{end}{}", encoded(name, "%/{}"))
}

/// Returns the key of the turns of a rate limit, in the slot of that key. No name has a bare percent sign.
pub(crate) fn turns(rate: &str) -> String {
    match tag(rate) {
        // Differs from the one of a limit whose name is that tag.
        Some(tag) if tag.len() + 2 == rate.len() => format!("{rate}%/%turns"),
        Some(_) => format!("{rate}/%turns"),
        None if rate.is_empty() || rate.contains(['{', '}']) => {
            let number = NUMBERS[usize::from(slot(rate))];
            format!("{}/%turns{{{number}}}", encoded(rate, "{}"))
        }
        None => format!("{{{rate}}}/%turns"),
    }
}

/// Returns the prefix of the keys of a detector.
pub(crate) fn detector(name: &str) -> String {
    format!("{}/detector", tagged(name))
}

/// Returns the key of a caller, which follows the prefix of the keys of its detector.
pub(crate) fn caller(detector: &str, name: &str) -> String {
    format!("{detector}/{}", encoded(name, "%/"))
}

/// The keys of one semaphore, in the order of the script's arguments; the sixth is the sentinel.
#[derive(Clone, Debug)]
pub(crate) struct Semaphore([String; 7]);

impl Semaphore {
    pub(crate) fn new(name: &str, cluster: bool) -> Self {
        Self::tagged(&tagged(name), cluster)
    }

    /// Returns the keys of one of many semaphores, derived from those of their model, which may itself be one of many.
    pub(crate) fn of_key(&self, key: &str) -> Self {
        let [leases, .., sentinel, _] = &self.0;
        let name = leases.strip_suffix("/semaphore/leases").unwrap_or(leases);
        // The key is a part of the tag if that is not a part of the name.
        let whole = tag(name).filter(|tag| tag.len() + 2 == name.len());
        let name = match whole {
            Some(tag) => format!("{{{}}}", keyed(tag, key)),
            None => keyed(name, key),
        };
        Self::tagged(&name, sentinel != SENTINEL)
    }

    fn tagged(name: &str, cluster: bool) -> Self {
        let sentinel = if cluster {
            format!("{OURS}{{{}}}:born", NUMBERS[usize::from(slot(name))])
        } else {
            SENTINEL.to_owned()
        };
        let [leases, fences, tickets, ends, state, waits] =
            ["leases", "fences", "tickets", "ends", "state", "waits"]
                .map(|part| format!("{name}/semaphore/{part}"));
        Self([leases, fences, tickets, ends, state, sentinel, waits])
    }

    /// Returns the key of the leases.
    pub(crate) fn leases(&self) -> &str {
        &self.0[0]
    }

    pub(crate) fn all(&self) -> [&str; 7] {
        self.0.each_ref().map(String::as_str)
    }
}

/// Returns the name with a tag: if it has none, all of it becomes the tag, and a name that consists
/// of only a tag gets a percent sign, so that the two differ.
fn tagged(name: &str) -> String {
    match tag(name) {
        Some(tag) if tag.len() + 2 == name.len() => format!("{}%", encoded(name, "%/")),
        Some(_) => encoded(name, "%/").into_owned(),
        // Empty braces are no tag.
        None if name.is_empty() => "{%}".to_owned(),
        None => format!("{{{}}}", encoded(name, "%/{}")),
    }
}

/// Percent-encodes these characters, which are ASCII.
fn encoded<'a>(name: &'a str, special: &str) -> Cow<'a, str> {
    if !name.contains(|it| special.contains(it)) {
        return Cow::Borrowed(name);
    }
    let mut encoded = String::with_capacity(name.len() + 8);
    for it in name.chars() {
        if special.contains(it) {
            encoded.push_str(&format!("%{:02X}", u32::from(it)));
        } else {
            encoded.push(it);
        }
    }
    Cow::Owned(encoded)
}

/// For each slot, the smallest number whose text hashes to it.
static NUMBERS: LazyLock<Vec<u32>> = LazyLock::new(|| {
    let mut numbers = vec![0; usize::from(SLOTS)];
    // Smaller numbers overwrite larger ones. This many numbers fill all slots.
    for number in (0..109_758_u32).rev() {
        numbers[usize::from(slot(&number.to_string()))] = number;
    }
    numbers
});

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// The owner of a key.
    #[derive(Clone, Debug, PartialEq, Eq)]
    enum Owner {
        Rate(String),
        Keyed(String, Vec<String>),
        Turns(Box<Owner>),
        Caller(String, String),
        Semaphore(String),
        KeyedSemaphore(String, Vec<String>),
        Sentinel,
    }

    impl Owner {
        fn keys(&self, cluster: bool) -> Vec<String> {
            match self {
                Self::Rate(name) => vec![rate(name)],
                Self::Keyed(name, keys) => {
                    vec![keys.iter().fold(rate(name), |rate, key| keyed(&rate, key))]
                }
                Self::Turns(rate) => rate.keys(cluster).iter().map(|rate| turns(rate)).collect(),
                Self::Caller(name, key) => vec![caller(&detector(name), key)],
                Self::Semaphore(name) => Self::KeyedSemaphore(name.clone(), vec![]).keys(cluster),
                Self::KeyedSemaphore(name, keys) => {
                    let model = Semaphore::new(name, cluster);
                    let one = keys.iter().fold(model, |model, key| model.of_key(key));
                    let mut keys = one.0.to_vec();
                    keys.remove(5);
                    keys
                }
                Self::Sentinel => vec![Semaphore::new("any", cluster).0[5].clone()],
            }
        }

        /// Parses a key in the most obvious way. If this returns every owner, no two owners share a
        /// key.
        fn of(key: &str) -> Self {
            if let Some((rate, number)) = key.rsplit_once("/%turns") {
                let whole = rate.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
                let rate = match (number.is_empty(), rate.strip_suffix("}%"), whole) {
                    (false, ..) => rate.replace("%7B", "{").replace("%7D", "}"),
                    (_, Some(tag), _) => format!("{tag}}}"),
                    (_, _, Some(whole)) if !whole.contains(['{', '}']) => whole.to_owned(),
                    _ => rate.to_owned(),
                };
                return Self::Turns(Box::new(Self::of(&rate)));
            }
            let parts: Vec<_> = key.split('/').collect();
            match parts[..] {
                [name] if name.starts_with(OURS) => Self::Sentinel,
                [name] => Self::Rate(decoded(name)),
                [name, "detector", key] => Self::Caller(untagged(name), decoded(key)),
                [name, "semaphore", _] => Self::Semaphore(untagged(name)),
                [.., "semaphore", part] => {
                    let name = key.strip_suffix(&format!("/semaphore/{part}")).unwrap();
                    let inside = name.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
                    let inside = inside.filter(|it| !it.contains('}'));
                    let (name, keys) = inside.unwrap_or(name).split_once('/').unwrap();
                    let name = inside.map_or(name.to_owned(), |_| format!("{{{name}}}"));
                    let name = untagged(&name);
                    Self::KeyedSemaphore(name, keys.split("//").map(decoded).collect())
                }
                [name, ref keys @ ..] => {
                    assert_eq!(keys.len() % 2, 1, "{key}");
                    Self::Keyed(
                        decoded(name),
                        keys.iter().step_by(2).map(|key| decoded(key)).collect(),
                    )
                }
                [] => unreachable!("a text has a part"),
            }
        }
    }

    fn untagged(name: &str) -> String {
        let inside = name.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
        match (name.strip_suffix('%'), inside) {
            (Some(tag), _) => decoded(tag),
            (_, Some("%")) => String::new(),
            (_, Some(inside)) if !inside.contains('}') => decoded(inside),
            _ => decoded(name),
        }
    }

    fn decoded(text: &str) -> String {
        let mut parts = text.split('%');
        let mut decoded = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (code, rest) = part.split_at(2);
            decoded.push(u8::from_str_radix(code, 16).unwrap().into());
            decoded.push_str(rest);
        }
        decoded
    }

    /// Names that contain characters with a special meaning.
    fn name() -> impl Strategy<Value = String> {
        const WORDS: &[&str] = &[
            "a",
            "é",
            "%",
            "2F",
            "/",
            ":",
            "{",
            "}",
            "{}",
            "{t}",
            "tollgate:",
            "born",
            "semaphore",
            "detector",
            "state",
        ];
        let words = vec(proptest::sample::select(WORDS), 0..7);
        words.prop_map(|words| words.concat())
    }

    fn owner() -> impl Strategy<Value = Owner> {
        prop_oneof![
            name().prop_map(Owner::Rate),
            name().prop_map(|name| Owner::Turns(Box::new(Owner::Rate(name)))),
            (name(), vec(name(), 1..4))
                .prop_map(|(name, keys)| Owner::Turns(Box::new(Owner::Keyed(name, keys)))),
            (name(), vec(name(), 1..4)).prop_map(|(name, keys)| Owner::Keyed(name, keys)),
            (name(), name()).prop_map(|(name, key)| Owner::Caller(name, key)),
            name().prop_map(Owner::Semaphore),
            (name(), vec(name(), 1..4)).prop_map(|(name, keys)| Owner::KeyedSemaphore(name, keys)),
            Just(Owner::Sentinel),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn keys_of_distinct_limits_are_distinct(owner in owner(), cluster: bool) {
            let keys = owner.keys(cluster);
            for (index, key) in keys.iter().enumerate() {
                prop_assert_eq!(&Owner::of(key), &owner, "{}", key);
                prop_assert!(!keys[..index].contains(key), "{}", key);
            }
        }

        #[test]
        fn keys_of_a_name_with_a_tag_are_in_its_slot(start in "[^{}]*", tag in "[^{}/%]+", end in name()) {
            let (tag, name) = (format!("{{{tag}}}"), format!("{start}{{{tag}}}{end}"));
            let owners = [
                Owner::Rate(name.clone()),
                Owner::Keyed(name.clone(), vec![end.clone()]),
                Owner::Caller(name.clone(), end.clone()),
                Owner::KeyedSemaphore(name.clone(), vec![end]),
                Owner::Semaphore(name),
            ];
            for key in owners.iter().flat_map(|owner| owner.keys(true)) {
                prop_assert_eq!(slot(&key), slot(&tag), "{}", key);
            }
        }

        #[test]
        fn turns_of_any_rate_limit_are_in_its_slot(name in name(), keys in vec(name(), 0..3)) {
            let key = keys.iter().fold(rate(&name), |rate, key| keyed(&rate, key));
            prop_assert_eq!(slot(&turns(&key)), slot(&key), "{}", key);
        }

        #[test]
        fn keys_of_one_semaphore_or_detector_are_in_one_slot(name in name(), callers in [name(), name()]) {
            let semaphore = Semaphore::new(&name, true);
            for one in [&semaphore, &semaphore.of_key(&callers[0])] {
                prop_assert!(one.all().map(slot).iter().all(|it| *it == slot(one.leases())));
            }
            let detector = detector(&name);
            let [one, other] = callers.map(|name| slot(&caller(&detector, &name)));
            prop_assert_eq!(one, other);
        }
    }

    #[test]
    fn keys_of_ordinary_names_are_readable() {
        assert_eq!(rate("requests:42"), "requests:42");
        assert_eq!(
            keyed(&rate("{acme}:user"), "2001:db8::1"),
            "{acme}:user/2001:db8::1"
        );
        assert_eq!(
            caller(&detector("abuse"), "192.0.2.7"),
            "{abuse}/detector/192.0.2.7"
        );
        let keys = Semaphore::new("exports", false);
        assert_eq!(keys.leases(), "{exports}/semaphore/leases");
        assert_eq!(keys.all()[5], "tollgate:born");
        let keys = keys.of_key("42");
        assert_eq!(keys.leases(), "{exports/42}/semaphore/leases");
        assert_eq!(keys.all()[5], "tollgate:born");
        let keys = Semaphore::new("{acme}:exports", true);
        assert_eq!(keys.all()[4], "{acme}:exports/semaphore/state");
        let keys = keys.of_key("42");
        assert_eq!(keys.all()[4], "{acme}:exports/42/semaphore/state");
    }

    #[test]
    fn keys_of_similar_names_differ() {
        let [api, admin] = ["api", "api:admin"].map(rate);
        assert_ne!(keyed(&api, "admin:7"), keyed(&admin, "7"));
        assert_ne!(keyed(&admin, "7"), rate("api:admin:7"));
        let [plain, tagged] = ["col", "{col}"].map(|name| Semaphore::new(name, false));
        assert!(plain.0[..5].iter().all(|key| !tagged.0.contains(key)));
        assert_ne!(rate("tollgate:born"), "tollgate:born");
    }
}
