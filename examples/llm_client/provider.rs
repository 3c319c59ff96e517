//! A provider that counts requests and tokens, in the most obvious way.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use http::{Response, StatusCode};
use tokio::time::{Instant, sleep};

/// The way in which tokens are counted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Counts {
    /// In a bucket, which refunds the unused part of the estimate of a call.
    Estimates,
    /// In a bucket, from which a call takes the tokens that it uses.
    Used,
    /// In a log: the estimates of the calls of the last minute, or the tokens that they have used, once these
    /// are known.
    InAnyMinute,
}

#[derive(Clone, Copy)]
pub(crate) struct Prompt {
    tokens: u64,
    max_tokens: u64,
    answer: u64,
}

impl Prompt {
    pub(crate) fn at_most(&self) -> u64 {
        self.tokens + self.max_tokens
    }

    fn used(&self) -> u64 {
        self.tokens + self.answer
    }
}

#[derive(Clone, Copy, Default)]
pub(crate) struct Totals {
    pub(crate) answered: f64,
    pub(crate) refused: f64,
    pub(crate) tokens: f64,
}

/// The charges that count towards a limit, with the time of each.
struct Count {
    limit: f64,
    /// Whether the limit counts the charges of the last minute; otherwise it is a bucket.
    in_any_minute: bool,
    level: f64,
    log: VecDeque<(Instant, f64)>,
    at: Instant,
}

impl Count {
    fn new(limit: u64, in_any_minute: bool) -> Self {
        Self {
            limit: limit as f64,
            in_any_minute,
            level: 0.0,
            log: VecDeque::new(),
            at: Instant::now(),
        }
    }

    fn settle(&mut self) {
        let now = Instant::now();
        if self.in_any_minute {
            while self
                .log
                .front()
                .is_some_and(|(at, _)| now - *at >= Duration::from_secs(60))
            {
                self.level -= self.log.pop_front().expect("it has a front").1;
            }
        } else {
            let paid = self.limit * (now - self.at).as_secs_f64() / 60.0;
            self.level = (self.level - paid).max(0.0);
            self.at = now;
        }
    }

    fn fits(&mut self, cost: f64) -> bool {
        self.settle();
        self.level + cost <= self.limit + 1e-6
    }

    fn add(&mut self, cost: f64) {
        self.level += cost;
        if self.in_any_minute {
            self.log.push_back((Instant::now(), cost));
        }
    }

    /// Refunds the unused part of a call that arrived at that time.
    fn give_back(&mut self, arrived: Instant, excess: f64) {
        self.settle();
        if !self.in_any_minute {
            self.level = (self.level - excess).max(0.0);
        } else if let Some((_, cost)) = self.log.iter_mut().find(|(at, _)| *at == arrived) {
            *cost -= excess;
            self.level -= excess;
        }
    }

    fn remaining(&self) -> u64 {
        (self.limit - self.level).max(0.0) as u64
    }

    /// Returns the time until no charge counts, in the format of OpenAI.
    fn reset(&self) -> String {
        let seconds = if self.in_any_minute {
            60.0
        } else {
            60.0 * self.level / self.limit
        };
        format!("{seconds:.3}s")
    }
}

struct State {
    random: u64,
    requests: Count,
    tokens: Count,
    totals: Totals,
}

impl State {
    fn between(&mut self, least: u64, most: u64) -> u64 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        least + (self.random >> 33) % (most - least + 1)
    }
}

pub(crate) struct Provider {
    counts: Counts,
    state: Mutex<State>,
}

impl Provider {
    pub(crate) fn new(counts: Counts, requests: u64, tokens: u64) -> Self {
        let in_any_minute = matches!(counts, Counts::InAnyMinute);
        let state = State {
            random: 7,
            requests: Count::new(requests, in_any_minute),
            tokens: Count::new(tokens, in_any_minute),
            totals: Totals::default(),
        };
        Self {
            counts,
            state: Mutex::new(state),
        }
    }

    pub(crate) fn totals(&self) -> Totals {
        self.state.lock().expect("nothing panics").totals
    }

    pub(crate) fn prompt(&self) -> Prompt {
        let mut state = self.state.lock().expect("nothing panics");
        let max_tokens = 1_000;
        Prompt {
            tokens: state.between(50, 500),
            max_tokens,
            answer: state.between(max_tokens / 10, max_tokens),
        }
    }

    /// Responds with the number of tokens that were used. A call takes 20 ms to reach the provider, and 10 ms
    /// for each token of the response.
    pub(crate) async fn call(&self, prompt: Prompt) -> Response<u64> {
        let way = self.state.lock().expect("nothing panics").between(10, 30);
        sleep(Duration::from_millis(way)).await;
        let arrived = Instant::now();
        let (answer, admitted) = self.arrive(prompt);
        if admitted {
            sleep(Duration::from_millis(10 * prompt.answer)).await;
            let mut state = self.state.lock().expect("nothing panics");
            state.totals.tokens += prompt.used() as f64;
            if !matches!(self.counts, Counts::Used) {
                let excess = prompt.at_most() - prompt.used();
                state.tokens.give_back(arrived, excess as f64);
            }
        }
        sleep(Duration::from_millis(20)).await;
        answer
    }

    /// Waits until a call would be admitted, as a client could that knew the state of the provider.
    pub(crate) async fn room(&self, prompt: Prompt) {
        while !self.has_room(prompt) {
            sleep(Duration::from_millis(50)).await;
        }
    }

    fn has_room(&self, prompt: Prompt) -> bool {
        let mut state = self.state.lock().expect("nothing panics");
        state.requests.fits(1.0) & state.tokens.fits(self.cost(prompt))
    }

    fn cost(&self, prompt: Prompt) -> f64 {
        let cost = match self.counts {
            Counts::Estimates | Counts::InAnyMinute => prompt.at_most(),
            Counts::Used => prompt.used(),
        };
        cost as f64
    }

    fn arrive(&self, prompt: Prompt) -> (Response<u64>, bool) {
        let mut state = self.state.lock().expect("nothing panics");
        let cost = self.cost(prompt);
        let admitted = state.requests.fits(1.0) & state.tokens.fits(cost);
        if admitted {
            state.requests.add(1.0);
            state.tokens.add(cost);
            state.totals.answered += 1.0;
        } else {
            state.totals.refused += 1.0;
        }
        let (requests, tokens) = (&state.requests, &state.tokens);
        let answer = Response::builder()
            .status(if admitted {
                StatusCode::OK
            } else {
                StatusCode::TOO_MANY_REQUESTS
            })
            .header("x-ratelimit-limit-requests", requests.limit as u64)
            .header("x-ratelimit-remaining-requests", requests.remaining())
            .header("x-ratelimit-reset-requests", requests.reset())
            .header("x-ratelimit-limit-tokens", tokens.limit as u64)
            .header("x-ratelimit-remaining-tokens", tokens.remaining())
            .header("x-ratelimit-reset-tokens", tokens.reset());
        let answer = if admitted {
            answer
        } else {
            answer.header("retry-after", 1)
        };
        let used = if admitted { prompt.used() } else { 0 };
        (answer.body(used).expect("the fields are valid"), admitted)
    }
}
