//! Joins the fields of each window. Fields belong together if the rest of their names is the same, and elements of
//! lists if they have the same position in lists of the same length.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use super::names::{FieldName, Part, Scale};
use super::values::{Count, Element, Wait, elements, split};
use super::{Unit, Window};
use crate::work;

/// The windows while their fields are read, in the order of their first fields.
#[derive(Default)]
pub(super) struct Windows<'a> {
    groups: Vec<Group<'a>>,
    by_key: HashMap<String, usize>,
}

/// The values of a field, in all of its lines.
type Column<T> = Vec<T>;

/// The fields whose names differ only in the part. Several names may mean the same part.
struct Group<'a> {
    /// All windows share it, so that many windows do not copy a long name.
    name: Arc<str>,
    unit: Unit,
    /// The period of all windows, in seconds.
    period: Option<u64>,
    is_marked: bool,
    limits: Vec<Column<Element<'a>>>,
    remaining: Vec<Column<Element<'a>>>,
    used: Vec<Column<Element<'a>>>,
    /// Resets that are known to be durations. They need no clock, so they count before the others.
    durations: Vec<Column<Option<Wait>>>,
    resets: Vec<Column<Option<Wait>>>,
    /// Items of the draft.
    items: Vec<Element<'a>>,
    policies: Vec<Element<'a>>,
    /// Whether the server refuses requests, in a word.
    is_refusing: Option<bool>,
}

impl<'a> Windows<'a> {
    /// Adds the lines of a field.
    pub(super) fn add(
        &mut self,
        field: FieldName,
        lines: impl Iterator<Item = &'a [u8]>,
        now: SystemTime,
    ) {
        let groups = &mut self.groups;
        let index = *self.by_key.entry(field.key).or_insert_with(|| {
            groups.push(Group {
                name: field.name.into(),
                unit: field.unit,
                period: field.period,
                is_marked: field.is_marked,
                limits: Vec::new(),
                remaining: Vec::new(),
                used: Vec::new(),
                durations: Vec::new(),
                resets: Vec::new(),
                items: Vec::new(),
                policies: Vec::new(),
                is_refusing: None,
            });
            groups.len() - 1
        });
        let group = &mut groups[index];
        let mut lines = lines;
        match field.part {
            Part::Limit => group.limits.push(limits(lines)),
            Part::Remaining => group.remaining.push(lines.flat_map(elements).collect()),
            Part::Used => group.used.push(lines.flat_map(elements).collect()),
            Part::Policy => group.policies.extend(lines.flat_map(elements)),
            Part::Reset => {
                let wait = |text| Wait::parse(text, field.scale, now);
                // A date has a comma, too.
                let waits = lines.flat_map(|line| match wait(line) {
                    Some(wait) => vec![Some(wait)],
                    None => split(line, b',').into_iter().map(wait).collect(),
                });
                let resets = match field.scale {
                    Scale::Seconds | Scale::Millis => &mut group.durations,
                    Scale::Unknown | Scale::Point => &mut group.resets,
                };
                resets.push(waits.collect());
            }
            Part::Status => group.is_refusing = lines.next().and_then(is_refusing),
            Part::Name => {
                let name = lines.next().and_then(|name| str::from_utf8(name).ok());
                if let Some(name) = name {
                    group.name = name.into();
                }
            }
            Part::List => {
                let lines: Vec<_> = lines.collect();
                let items: Vec<_> = lines.iter().copied().flat_map(elements).collect();
                if items.iter().any(|item| item.count.is_some()) {
                    group.limits.push(limits(lines.into_iter()));
                } else {
                    group.items.extend(items);
                }
            }
            // Waits belong to no window.
            Part::Retry => {}
        }
    }

    /// Returns the windows, and the resets of those whose remaining part is unknown.
    pub(super) fn finish(self) -> (Vec<Window>, Vec<Duration>) {
        let (mut windows, mut lone_resets) = (Vec::new(), Vec::new());
        for group in self.groups {
            group.finish(&mut windows, &mut lone_resets);
        }
        (windows, lone_resets)
    }
}

/// Reads the elements of a limit. Early drafts list the policies, with their periods, after the limit.
fn limits<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Column<Element<'a>> {
    let of_line = |line| {
        let mut limits = elements(line);
        let first = limits.first();
        if first.is_some_and(|first| first.count.is_some() && first.period.is_none()) {
            limits.retain(|one| one.period.is_none());
        }
        limits
    };
    lines.flat_map(of_line).collect()
}

/// Reads whether a server refuses requests.
fn is_refusing(status: &[u8]) -> Option<bool> {
    match status {
        b"rejected" | b"rate_limited" => Some(true),
        _ => status.starts_with(b"allowed").then_some(false),
    }
}

/// Returns the value at a position in the first of the columns of this length that has one there.
fn pick<T, U>(columns: &[&Column<T>], index: usize, read: impl Fn(&T) -> Option<U>) -> Option<U> {
    columns.iter().find_map(|column| {
        work::add(1);
        read(&column[index])
    })
}

/// Returns the columns of this length. Those of another length belong to other windows.
fn of_length<'a, T: 'a>(
    columns: impl Iterator<Item = &'a Column<T>>,
    length: usize,
) -> Vec<&'a Column<T>> {
    columns.filter(|column| column.len() == length).collect()
}

impl Group<'_> {
    fn finish(self, windows: &mut Vec<Window>, lone_resets: &mut Vec<Duration>) {
        let before = windows.len();
        self.add_items(windows);
        self.add_columns(windows);
        // Of several resets, it is unknown which is meant.
        let mut resets = self.durations.iter().chain(&self.resets).flatten();
        let (Some(Some(wait)), None) = (resets.next(), resets.next()) else {
            return;
        };
        if windows.len() > before || !self.is_marked {
            return;
        }
        let reset_after = wait.within(self.period);
        match self.is_refusing {
            Some(true) => windows.push(self.window(None, None, 0, reset_after)),
            Some(false) => {}
            None => lone_resets.extend(reset_after),
        }
    }

    fn window(
        &self,
        name: Option<&str>,
        limit: Option<u64>,
        remaining: u64,
        reset_after: Option<Duration>,
    ) -> Window {
        Window {
            name: name.map_or_else(|| Arc::clone(&self.name), Arc::from),
            unit: self.unit,
            limit,
            remaining,
            reset_after,
        }
    }

    /// Adds the items of the draft.
    fn add_items(&self, windows: &mut Vec<Window>) {
        let mut policies = HashMap::new();
        for policy in &self.policies {
            // Of two policies with one name, it is unknown which an item means.
            policies
                .entry(policy.name)
                .and_modify(|known| *known = None)
                .or_insert(Some(policy));
        }
        for item in &self.items {
            let Some(remaining) = item.remaining else {
                continue;
            };
            let named = item
                .name
                .and_then(|_| policies.get(&item.name).copied().flatten());
            let limit = item.limit.or(named.and_then(|policy| policy.limit));
            let unit = named.and_then(|policy| policy.unit).unwrap_or(self.unit);
            let window = self.window(item.name, limit, remaining, item.reset_after);
            windows.push(Window { unit, ..window });
        }
    }

    /// Adds the windows whose parts are fields of their own.
    fn add_columns(&self, windows: &mut Vec<Window>) {
        let columns = [&self.remaining, &self.used, &self.limits];
        let columns = columns.map(|columns| columns.first());
        // The names of the fields, or a limit beside what remains, tell that it is one.
        let (base, is_remaining, is_told) = match columns {
            [Some(remaining), _, limits] => (remaining, true, self.is_marked || limits.is_some()),
            [None, Some(used), _] => (used, false, self.is_marked),
            // A limit may say how much is used, as in `32/40`.
            [None, None, Some(limits)] => (limits, false, false),
            [None, None, None] => return,
        };
        let length = base.len();
        let limits = of_length(self.limits.iter(), length);
        let resets = of_length(self.durations.iter().chain(&self.resets), length);
        for (index, element) in base.iter().enumerate() {
            let Some(Count { count, of, .. }) = element.count else {
                continue;
            };
            if of.is_none() && !is_told {
                continue;
            }
            let limit =
                of.or_else(|| pick(&limits, index, |limit| limit.count.map(|limit| limit.count)));
            let remaining = match (is_remaining, limit) {
                (true, _) => count,
                (false, Some(limit)) => limit.saturating_sub(count),
                (false, None) => continue,
            };
            let policy = self
                .policies
                .get(index)
                .filter(|_| self.policies.len() == length);
            let period = element
                .period
                .or(policy.and_then(|policy| policy.period))
                .or(self.period);
            let reset_after = pick(&resets, index, |wait| {
                wait.and_then(|wait| wait.within(period))
            });
            windows.push(self.window(element.name, limit, remaining, reset_after));
        }
    }
}
