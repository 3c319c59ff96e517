//! How much is asked for, and for how long nothing happens, in relation to the quota.

use super::LAST_TICK;

/// The size of a quota.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scale {
    /// What goes at once at most.
    pub(crate) most: u64,
    /// So many come back in a period.
    pub(crate) count: u64,
    /// In nanoseconds.
    pub(crate) period: u64,
}

impl Scale {
    /// The same, or, if there is no limit, that of a hundred a second: what is asked for can be paid off
    /// after the limit is set.
    pub(crate) fn finite(self) -> Self {
        if self.most < u64::MAX {
            return self;
        }
        Self {
            most: 100,
            count: 100,
            period: 1_000_000_000,
        }
    }

    /// About how long so many tokens take.
    fn nanos_of(self, tokens: u64) -> u64 {
        share(self.period, tokens, self.count)
    }
}

/// So many `of` parts of it, rounded down.
fn share(whole: u64, parts: u64, of: u64) -> u64 {
    let share = u128::from(whole) * u128::from(parts) / u128::from(of);
    u64::try_from(share).unwrap_or(u64::MAX)
}

/// How much to ask for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cost {
    Few(u64),
    /// In 64ths of the most.
    Part(u64),
    AllBut(u64),
    TooMuchBy(u64),
    /// So many times the most, and one.
    Times(u64),
    Endless,
}

impl Cost {
    pub(crate) fn of(self, scale: Scale) -> u64 {
        let most = scale.most;
        match self {
            Self::Few(few) => few,
            Self::Part(part) => share(most, part, 64),
            Self::AllBut(few) => most.saturating_sub(few),
            Self::TooMuchBy(few) => most.saturating_add(few),
            Self::Times(times) => most.saturating_mul(times).saturating_add(1),
            Self::Endless => u64::MAX,
        }
    }
}

/// For how long nothing happens.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Pause {
    Nanos(u64),
    /// In 16ths of the time of a token, and some nanoseconds more.
    Token(u64, u64),
    /// In 16ths of the time in which the most comes back, and some nanoseconds more.
    Part(u64, u64),
    /// So many times that time.
    Times(u64),
    /// Until so long before the end of time, or past it.
    NearTheEnd(u64),
}

impl Pause {
    pub(crate) fn of(self, scale: Scale, now: u64) -> u64 {
        let part = |tokens, parts| share(scale.nanos_of(tokens), parts, 16);
        match self {
            Self::Nanos(nanos) => nanos,
            Self::Token(parts, more) => part(1, parts).saturating_add(more),
            Self::Part(parts, more) => part(scale.most, parts).saturating_add(more),
            Self::Times(times) => scale.nanos_of(scale.most).saturating_mul(times),
            Self::NearTheEnd(before) => (LAST_TICK + 10).saturating_sub(now.saturating_add(before)),
        }
    }
}
