//! `RateLimit` and `RateLimit-Policy` of draft-ietf-httpapi-ratelimit-headers-11: lists of structured
//! fields (RFC 9651). Draft 07 has the same name for another list.

use std::collections::HashMap;
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

/// Returns the window of a line of draft 07, such as `limit=100, remaining=50, reset=30`.
fn draft_07(line: &[u8]) -> Option<Window> {
    let number = |name: &[u8]| {
        let mut parts = RightSplit::new(line, b',').map(<[u8]>::trim_ascii);
        parts.find_map(|part| integer(part.strip_prefix(name)?))
    };
    Some(Window {
        limit: number(b"limit="),
        remaining: number(b"remaining=")?,
        reset_after: number(b"reset=").map(Duration::from_secs),
    })
}

/// Returns the tightest limit of requests, and the tightest one of everything else.
pub(super) fn windows(headers: &HeaderMap) -> (Option<Window>, Option<Window>) {
    let policies = items(headers, "ratelimit-policy").map(|policy| (policy.name, policy));
    let policies: HashMap<_, _> = policies.collect();
    let (mut requests, mut others) = (None, None);
    for item in items(headers, "ratelimit") {
        let Some(window) = item.window() else {
            continue;
        };
        let policy = policies.get(item.name);
        let unit = policy.and_then(|policy| policy.unit);
        match unit.is_some_and(|unit| unit != b"\"requests\"") {
            true => window.tighten(&mut others),
            false => {
                let limit = policy.and_then(|policy| integer(policy.quota?));
                Window { limit, ..window }.tighten(&mut requests);
            }
        }
    }
    let lines = headers.get_all("ratelimit").into_iter();
    let draft_07 = lines.filter_map(|line| draft_07(line.as_bytes()));
    draft_07.for_each(|window| window.tighten(&mut requests));
    (requests, others)
}
