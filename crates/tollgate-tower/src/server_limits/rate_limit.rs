//! `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11: lists of structured
//! fields (RFC 9651).

use std::collections::HashSet;
use std::time::Duration;

use http::HeaderMap;

use super::Window;
use super::formats::integer;
use crate::quoted::RightSplit;

/// An item of a list: a policy, or what remains of it.
#[derive(Clone, Copy, Default)]
struct Item<'a> {
    /// With its quotes.
    name: &'a [u8],
    quota: Option<&'a [u8]>,
    unit: Option<&'a [u8]>,
    remaining: Option<&'a [u8]>,
    reset: Option<&'a [u8]>,
}

impl<'a> Item<'a> {
    fn new(text: &'a [u8]) -> Self {
        let mut item = Self::default();
        for part in RightSplit::new(text, b';').map(<[u8]>::trim_ascii) {
            // The first is the leftmost.
            item.name = part;
            let (value, key) = match part {
                [b'q', b'=', value @ ..] => (value, &mut item.quota),
                [b'q', b'u', b'=', value @ ..] => (value, &mut item.unit),
                [b'r', b'=', value @ ..] => (value, &mut item.remaining),
                [b't', b'=', value @ ..] => (value, &mut item.reset),
                _ => continue,
            };
            // The last of several parameters with one name counts.
            key.get_or_insert(value);
        }
        item
    }

    fn window(&self) -> Option<Window> {
        Some(Window {
            limit: None,
            remaining: integer(self.remaining?)?,
            reset_after: self.reset.and_then(integer).map(Duration::from_secs),
        })
    }
}

fn items<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = Item<'a>> {
    let lines = headers.get_all(name).into_iter();
    let items = lines.flat_map(|line| RightSplit::new(line.as_bytes(), b','));
    items.map(Item::new)
}

/// Returns the tightest limit of requests.
pub(super) fn window(headers: &HeaderMap) -> Option<Window> {
    let policies = || items(headers, "ratelimit-policy");
    let is_other = |policy: &Item<'_>| policy.unit.is_some_and(|unit| unit != b"\"requests\"");
    let others = policies().filter(is_other).map(|policy| policy.name);
    let others: HashSet<_> = others.collect();
    let limits = items(headers, "ratelimit").filter(|limit| !others.contains(limit.name));
    let windows = limits.filter_map(|limit| Some((limit.name, limit.window()?)));
    let (name, window) = windows.reduce(|one, other| match one.1.tighter(other.1) == one.1 {
        true => one,
        false => other,
    })?;
    let policy = policies().find(|policy| policy.name == name);
    let limit = policy.and_then(|policy| integer(policy.quota?));
    Some(Window { limit, ..window })
}
