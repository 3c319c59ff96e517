//! The worlds: a provider, what is asked of it, and who else does.

use std::fmt::{self, Display};
use std::time::Duration;

use http::StatusCode;
use oorandom::Rand64;
use tollgate::{Algorithm, Clock};
use tollgate_http::server_limits::Unit;
use tollgate_http::{ApiLimit, ApiLimits, Charged};

use crate::provider::{Charge, Counts};

const MINUTE: Duration = Duration::from_secs(60);

/// A call of a language model.
#[derive(Clone, Copy)]
pub(crate) struct Prompt {
    /// The length of the prompt, in characters.
    characters: u64,
    /// The tokens of the prompt.
    pub(crate) tokens: u64,
    pub(crate) max_tokens: u64,
    /// The tokens of the answer.
    pub(crate) answer: u64,
    /// Whether it fails with a 500.
    pub(crate) fails: bool,
}

impl Prompt {
    /// Returns the maximum of `max_tokens` and an estimate of the prompt.
    pub(crate) fn estimate(&self) -> u64 {
        self.max_tokens.max(self.characters / 4)
    }

    pub(crate) fn at_most(&self) -> u64 {
        self.tokens + self.max_tokens
    }

    pub(crate) fn used(&self) -> u64 {
        self.tokens + self.answer
    }
}

/// The kinds of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Mix {
    Usual,
    ShortPrompts,
    LongPrompts,
}

impl Mix {
    pub(crate) fn prompt(self, random: &mut Rand64) -> Prompt {
        let (tokens, max_tokens) = match self {
            Self::Usual => (50..1_500, 250..1_000),
            Self::ShortPrompts => (50..500, 1_000..2_000),
            Self::LongPrompts => (2_000..10_000, 100..250),
        };
        let tokens = random.rand_range(tokens);
        let max_tokens = random.rand_range(max_tokens);
        Prompt {
            // 3.5 to 5 for each token.
            characters: tokens * random.rand_range(35..50) / 10,
            tokens,
            max_tokens,
            answer: random.rand_range(max_tokens / 10..max_tokens + 1),
            fails: random.rand_float() < 0.05,
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) struct World {
    /// The requests and the tokens of a minute.
    pub(crate) per_minute: (u64, u64),
    /// How tokens are counted; [`Charge::Output`] stands for input and output apart.
    pub(crate) tokens: Charge,
    pub(crate) counts: Counts,
    pub(crate) mix: Mix,
    /// Whether the provider reports its count.
    pub(crate) fields: bool,
    /// Whether another user takes 30 % steadily.
    pub(crate) other: bool,
    pub(crate) counts_failed: bool,
}

impl World {
    /// Returns all worlds.
    pub(crate) fn all() -> Vec<Self> {
        let mut providers = Vec::new();
        for per_minute in [(500, 90_000), (60, 1_000_000), (3_000, 400_000)] {
            for tokens in [
                Charge::Maximum,
                Charge::AtMost,
                Charge::Corrected,
                Charge::UsedAtEnd,
                Charge::UsedAtArrival,
            ] {
                for counts in [Counts::Bucket, Counts::Window] {
                    providers.push((per_minute, tokens, counts, Mix::Usual));
                }
            }
        }
        for mix in [Mix::ShortPrompts, Mix::LongPrompts] {
            providers.push(((1_000, 450_000), Charge::Output, Counts::Bucket, mix));
        }
        let mut worlds = Vec::new();
        for (per_minute, tokens, counts, mix) in providers {
            for counts_failed in [true, false] {
                for other in [false, true] {
                    for fields in [true, false] {
                        worlds.push(Self {
                            per_minute,
                            tokens,
                            counts,
                            mix,
                            fields,
                            other,
                            counts_failed,
                        });
                    }
                }
            }
        }
        worlds
    }

    pub(crate) fn differs_in_fields_only(&self, other: &Self) -> bool {
        let fields = true;
        Self { fields, ..*self } == Self { fields, ..*other }
    }

    /// Returns whether input and output are counted apart.
    pub(crate) fn is_split(&self) -> bool {
        self.tokens == Charge::Output
    }

    /// The limits of the provider.
    pub(crate) fn limits(&self) -> Vec<(Unit, Charge, u64)> {
        let (requests, tokens) = self.per_minute;
        let mut limits = vec![(Unit::Requests, Charge::Once, requests)];
        if self.is_split() {
            limits.push((Unit::InputTokens, Charge::Input, tokens));
            limits.push((Unit::OutputTokens, Charge::Output, tokens / 5));
        } else {
            limits.push((Unit::Tokens, self.tokens, tokens));
        }
        limits
    }

    /// Returns the tokens for which the client counts one. A log has a place for each unit.
    pub(crate) fn tokens_per_unit(&self) -> u64 {
        let is_log = self.counts == Counts::Window && !self.fields;
        if is_log { 20 } else { 1 }
    }

    /// Returns what a user writes who knows how the provider counts, and whether others use the limits.
    pub(crate) fn api_limits(&self) -> ApiLimits<Prompt> {
        let limits = self.limits().into_iter().map(|(unit, charge, per_minute)| {
            let each = match unit {
                Unit::Requests => 1,
                _ => self.tokens_per_unit(),
            };
            let limit = ApiLimit::new(unit, per_minute / each, MINUTE).clock(Clock::tokio());
            let limit = match self.counts {
                Counts::Bucket => limit,
                Counts::Window if self.fields => limit.algorithm(Algorithm::FixedWindow),
                // Nobody knows when a window begins.
                Counts::Window => limit.algorithm(Algorithm::SlidingLog),
            };
            let units = |cost: fn(&Prompt) -> u64| move |it: &Prompt| cost(it).div_ceil(each);
            // In a window, spacing only helps others who can be refused.
            let is_spaced = self.other && self.counts == Counts::Bucket;
            let limit = if is_spaced { limit.spaced() } else { limit };
            let limit = match charge {
                Charge::Once => limit,
                Charge::Maximum => limit.cost(units(Prompt::estimate)),
                Charge::AtMost => limit.cost(units(Prompt::at_most)),
                Charge::Input => limit.cost(units(|prompt| prompt.tokens)),
                Charge::Output => limit.hold(units(|prompt| prompt.max_tokens)),
                Charge::Corrected | Charge::UsedAtEnd | Charge::UsedAtArrival => {
                    limit.hold(units(Prompt::at_most))
                }
            };
            let is_usage = matches!(
                charge,
                Charge::UsedAtEnd | Charge::UsedAtArrival | Charge::Output
            );
            if self.counts_failed && !is_usage {
                limit
            } else {
                limit.charged(uncounted)
            }
        });
        ApiLimits::new(limits)
    }
}

/// A failed call costs nothing.
fn uncounted(_estimate: u64, status: StatusCode, _headers: &http::HeaderMap) -> Charged {
    if status.is_success() {
        Charged::Used
    } else {
        Charged::Exactly(0)
    }
}

impl Display for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tokens = match (self.tokens, self.mix) {
            (Charge::Maximum, _) => "the maximum",
            (Charge::AtMost, _) => "at most",
            (Charge::Corrected, _) => "corrected",
            (Charge::UsedAtEnd, _) => "used at the end",
            (Charge::UsedAtArrival, _) => "used on arrival",
            (_, Mix::LongPrompts) => "split, long prompts",
            _ => "split, long answers",
        };
        let counts = match self.counts {
            Counts::Bucket => "bucket",
            Counts::Window => "window",
        };
        let (requests, per_minute) = self.per_minute;
        let fields = if self.fields { "fields" } else { "no fields" };
        let other = if self.other { "beside 30 %" } else { "alone" };
        let not = if self.counts_failed { "" } else { "not " };
        write!(
            f,
            "{tokens}, {counts}, {requests} & {per_minute}, {fields}, {other}, failed {not}counted"
        )
    }
}
