//! The conventions that have a field for each number.

use std::time::SystemTime;

use http::HeaderMap;

use super::{ServerLimits, Window, formats};

/// What a convention counts.
#[derive(Clone, Copy)]
enum Counted {
    Requests,
    Tokens,
}

use Counted::{Requests, Tokens};

/// The fields of a window: the limit, what remains, and the reset. Of several resets, the first that
/// can be read counts.
type Fields = (Counted, &'static str, &'static str, &'static [&'static str]);

#[rustfmt::skip]
const CONVENTIONS: &[Fields] = &[
    // draft-ietf-httpapi-ratelimit-headers-06 and before, where the reset is in seconds; and GitLab
    // (User and IP rate limits, Response headers), where it is in seconds since 1970.
    (Requests, "ratelimit-limit", "ratelimit-remaining", &["ratelimit-reset"]),
    // GitHub (Rate limits for the REST API): seconds since 1970. Discord (Rate Limits): the same with
    // a fraction, and the seconds left with a fraction, which need no clock. Reddit (Data API Wiki):
    // what remains with a fraction, and the seconds left.
    (Requests, "x-ratelimit-limit", "x-ratelimit-remaining", &["x-ratelimit-reset-after", "x-ratelimit-reset"]),
    // OpenAI (Rate limits, Rate limits in headers) and Groq (Rate Limits): durations with units.
    // Azure OpenAI (Manage quota): what remains, without a limit or a reset.
    (Requests, "x-ratelimit-limit-requests", "x-ratelimit-remaining-requests", &["x-ratelimit-reset-requests"]),
    (Tokens, "x-ratelimit-limit-tokens", "x-ratelimit-remaining-tokens", &["x-ratelimit-reset-tokens"]),
    // Anthropic (Rate limits, Response headers): dates of RFC 3339.
    (Requests, "anthropic-ratelimit-requests-limit", "anthropic-ratelimit-requests-remaining", &["anthropic-ratelimit-requests-reset"]),
    (Tokens, "anthropic-ratelimit-tokens-limit", "anthropic-ratelimit-tokens-remaining", &["anthropic-ratelimit-tokens-reset"]),
    (Tokens, "anthropic-ratelimit-input-tokens-limit", "anthropic-ratelimit-input-tokens-remaining", &["anthropic-ratelimit-input-tokens-reset"]),
    (Tokens, "anthropic-ratelimit-output-tokens-limit", "anthropic-ratelimit-output-tokens-remaining", &["anthropic-ratelimit-output-tokens-reset"]),
    // Stripe (Rate limits) names the limiter in `Stripe-Rate-Limited-Reason`, and AWS (Usage Plans and
    // Rate Limits in the SP-API) the rate in `x-amzn-RateLimit-Limit`. Neither says what remains.
];

/// Adds the windows of all conventions. The lines of the fields with one number belong together.
pub(super) fn add_to(
    mut limits: ServerLimits,
    headers: &HeaderMap,
    now: SystemTime,
) -> ServerLimits {
    let lines = |name| {
        let lines = headers.get_all(name).into_iter();
        lines.map(|line| line.as_bytes().trim_ascii())
    };
    for (counted, limit, remaining, resets) in CONVENTIONS {
        if !headers.contains_key(*remaining) {
            continue;
        }
        let mut quotas = lines(*limit).map(formats::count);
        let until = |text| formats::until(text, now);
        let resets = resets.iter().map(|name| lines(*name).map(until));
        let mut resets: Vec<_> = resets.collect();
        for remaining in lines(*remaining) {
            let limit = quotas.next().flatten();
            let reset_after = resets.iter_mut().map(|lines| lines.next().flatten());
            let reset_after = reset_after.fold(None, Option::or);
            let Some(remaining) = formats::remaining(remaining) else {
                continue;
            };
            let window = Window {
                limit,
                remaining,
                reset_after,
            };
            window.tighten(match counted {
                Requests => &mut limits.requests,
                Tokens => &mut limits.tokens,
            });
        }
    }
    limits
}
