//! Helps you choose a throttle, and shows how to do each task.
//!
//! tokio's semaphore, governor, an `AtomicU64` or a proxy is often enough: see [when not to use
//! tollgate](when_not_to_use).
//!
//! # Which type
//!
//! | You need | Use |
//! |---|---|
//! | at most N at once, in tasks or threads | [`Semaphore`](crate::Semaphore); in a thread, `acquire().wait()` |
//! | N items to share: buffers, connections | [`Pool<T>`](crate::Pool) |
//! | at most N at once with the simplest mechanism, tokens in a channel; roughly in order | `ChannelSemaphore` |
//! | somewhat more throughput among threads that queue, without fairness | [`CondvarSemaphore`](crate::CondvarSemaphore) |
//! | at most N per second, minute, hour or day, evenly or in bursts | [`RateLimiter`](crate::RateLimiter) |
//! | at most N bytes of memory in use | a [`Semaphore`](crate::Semaphore) whose permits are bytes, see [the page](limit_memory) |
//! | bytes per second | [`Quota::bytes_per_second`](crate::Quota::bytes_per_second), and [`acquire_many(bytes)`](crate::RateLimiter::acquire_many) with a burst of at least the largest call |
//! | another algorithm: token bucket, fixed or sliding window, sliding log, sub-intervals | [`RateLimiter::algorithm`](crate::RateLimiter::algorithm) |
//! | a bounded queue released at a fixed rate | [`LeakyBucket`](crate::LeakyBucket) |
//! | the same limit for each user, address or tenant | [`Keyed<K, RateLimiter>`](crate::Keyed), `Keyed<K, Semaphore>`, and `Keyed<K, Gate>` to pause one of them; at most 100,000 keys unless [`max_keys`](crate::Keyed::max_keys) says otherwise; not with a sliding window or log |
//! | millions of decisions per second from many threads | [`limiter.local(32)`](crate::RateLimiter::local) in each thread, with a burst of some hundreds |
//! | a concurrency limit that adapts to what the backend can handle | [`AdaptiveSemaphore`] of the crate `tollgate-adaptive` |
//! | a rate limit that adapts to a server whose limit you don't know | [`AdaptiveRate`] of the same crate |
//! | priorities, weights, even shares among tenants, newest first under overload | [`FairQueue`](crate::fair::FairQueue) in front of any of these |
//! | all callers blocked for a while, with one relaxed load per check | [`Gate`](crate::Gate); the crate [`tollgate-detector`] blocks heavy callers with it |
//! | a command that is started again and again, with one limit for all starts | the crate [`tollgate-file`] |
//! | a limit of one process that goes on after a restart | [`limiter.state()`](crate::RateLimiter::state) and [`restore`](crate::RateLimiter::restore); [`states`](crate::Keyed::states) of all keys |
//! | a quota that resets at midnight | [`window_ends_in`](crate::RateLimiter::window_ends_in), see [the page](reset_at_midnight) |
//! | limits that the processes of one machine share, without a server | the crate [`tollgate-file`] |
//! | the same limits across machines | the crate [`tollgate-redis`]; without a server, [`quota.split(nodes)`](crate::Quota::split) |
//!
//! # How to write it
//!
//! | To | Write |
//! |---|---|
//! | take several limits at once | [`all((&user, &team, &everyone))`](crate::all) |
//! | take more than one unit in a composition | `semaphore.cost(n)`, `limiter.cost(n)`; with an `Arc`, `cost_owned(n)`; with a weight for each call, [`all(..).weighted()`](crate::throttle::All::weighted), and [`per_call(throttle)`](crate::throttle::per_call) for a part that takes 1 whatever the weight |
//! | make a limit optional | `Option<T>`; `None` admits every caller |
//! | store any throttle in a struct | [`BoxThrottle::new(throttle)`](crate::throttle::BoxThrottle) |
//! | block a thread instead of awaiting | `.wait()` |
//! | change a limit while it is used | `set_permits`, `set_quota` |
//! | read limits from a configuration file, and again while they are used | a [`Quota`](crate::Quota) and an [`Algorithm`](crate::Algorithm) are texts for serde; `rate::deserialize`, with the feature `serde`, checks that they fit; the folder `examples/operate` has a program |
//! | pause | [`limiter.pause_for(..)`](crate::RateLimiter::pause_for) and [`resume`](crate::RateLimiter::resume); any throttle, [`gate.before(throttle)`](crate::Gate::before) and `gate.block_for(..)`; one user, chat or host, [`gates.key(&chat).before(throttle)`](crate::keyed::Key::before) and `pause_for(..)` of the key; a semaphore, `set_permits(0)` |
//! | shut down | `close()`, then `wait_idle()` |
//! | keep a semaphore of tokio or async-lock | use it as a [`Throttle`](crate::Throttle) |
//! | keep the limits of an API as its server counts them, such as tokens of a language model | [`tollgate_http::ApiLimits`]; for other servers, [`RateLimiter::hold`](crate::RateLimiter::hold) and [`follow`](crate::RateLimiter::follow) |
//! | limit a stream, or tick at a rate | `stream.for_each_limited(..)`, `stream.buffer_limited(..)`, `limiter.ticks()` of [`tollgate-io`] |
//! | limit the open connections of a server | `Listener` of [`tollgate-io`] |
//! | limit the bandwidth of readers, writers and HTTP bodies | `stream.throttled(&limiter)` of [`tollgate-io`] |
//! | limit an object store | [`tollgate-object-store`] |
//! | protect an HTTP service by client, by route and in total | [`tollgate_tower::ThrottleLayer`] |
//! | protect a service of any other framework, such as actix-web | [`tollgate_http::guide`] |
//! | use the client's address as a key, behind proxies | [`tollgate_http::ClientIp`] |
//! | read the limits that a server reports | [`tollgate_http::server_limits`] |
//! | report responses and errors to an adaptive limit | `ThrottleLayer::classify`, `overloaded_if` |
//! | wait as long as a server asks for | [`tollgate_tower::PausesLayer`], [`tollgate_reqwest::PausesMiddleware`]; for any client, [`tollgate_http::Pauses`] |
//! | limit a reqwest client, in total, by host and by route | [`tollgate_reqwest::ThrottleMiddleware`] |
//! | try a new limit before it refuses anybody | `Shadow` of [`tollgate-observe`] |
//! | see what is in use, count, measure and trace | `snapshot()`; `Observed` of [`tollgate-observe`] around any throttle |
//!
//! # Pages
//!
//! [Basics](basics) explains what all throttles have in common: waiting, errors, composition and features.
//! Every other page has the dependencies, one or two programs, and then the choices and the traps. Until the crates are
//! published, `path` is that of a checkout, and `cargo doc -p tollgate-tower --open`, for example, shows the page that
//! is in that crate. The tests of this crate include the programs and run them in paused time; [a
//! page](test_code_that_waits) shows how to do so with your own.
//!
//! Clients of rate-limited servers:
//!
//! 1. [Limit reqwest, or any client of an API](limit_an_api_client): requests per second, requests at once, and
//!    pauses when the server asks for one.
//! 2. [Limit an LLM client](limit_an_llm_client): requests and tokens per minute.
//! 3. [Crawl politely](crawl_politely): one request at a time to each host, and a pause between two of them.
//! 4. [Send webhooks](send_webhooks): a rate and slots for each receiver, and events that are sent again.
//! 5. [Cap parallel uploads](cap_parallel_uploads): at most N at once.
//!
//! Services:
//!
//! 6. [`tollgate_tower::guide`]: limit an HTTP service (axum, hyper, tonic), by address and in total;
//!    [`tollgate_http::guide`]: one of any other framework, such as actix-web.
//! 7. [Limit each tenant](per_tenant_limits): the same limit for each address, user or tenant.
//! 8. [Limit messages](limit_messages): a chat bot, a websocket, a Kafka consumer, batches.
//! 9. [Limit memory](limit_memory): a budget of bytes that all requests share.
//! 10. [Limit work that has a pool](limit_a_pool): rayon, sqlx.
//! 11. [`tollgate_io::guide`]: limit bandwidth, bytes per second of readers, writers and bodies.
//! 12. [Share a limit](share_a_limit): one quota for several processes or machines, also on Redis.
//!
//! Everywhere:
//!
//! 13. [A quota that resets at midnight](reset_at_midnight): windows of a time zone, and limits that go on
//!     after a restart.
//! 14. [Cancel and shut down](cancel_and_shut_down): end waits without losing a permit, and drain the running work.
//! 15. [Test code that waits](test_code_that_waits): exact times, without sleeping.
//! 16. [`tollgate_observe::guide`]: watch limits in production: permits in use, waiters, and permits that are held too
//!     long.
//! 17. [Decide who goes first](who_goes_first): priorities and fair shares.
//! 18. [`tollgate_adaptive::guide`]: find the right limit, with a limit that measures what a backend can handle.
//! 19. [Choose an algorithm](choose_an_algorithm): when to use another one than the default.
//!
//! [Coming from another crate](crate::migrate)? There is a table for each.
//! [What each throttle guarantees](crate::guarantees) is a table for reference.
//!
//! [`tollgate-detector`]: https://docs.rs/tollgate-detector/latest/tollgate_detector/
//! [`tollgate-io`]: https://docs.rs/tollgate-io/latest/tollgate_io/
//! [`tollgate-object-store`]: https://docs.rs/tollgate-object-store/latest/tollgate_object_store/
//! [`tollgate-observe`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/
//! [`tollgate-file`]: https://docs.rs/tollgate-file/latest/tollgate_file/
//! [`tollgate-redis`]: https://docs.rs/tollgate-redis/latest/tollgate_redis/
//! [`tollgate_http::ApiLimits`]: https://docs.rs/tollgate-http/latest/tollgate_http/struct.ApiLimits.html
//! [`tollgate_http::ClientIp`]: https://docs.rs/tollgate-http/latest/tollgate_http/struct.ClientIp.html
//! [`tollgate_http::Pauses`]: https://docs.rs/tollgate-http/latest/tollgate_http/struct.Pauses.html
//! [`tollgate_http::guide`]: https://docs.rs/tollgate-http/latest/tollgate_http/guide/index.html
//! [`tollgate_http::server_limits`]: https://docs.rs/tollgate-http/latest/tollgate_http/server_limits/index.html
//! [`tollgate_io::guide`]: https://docs.rs/tollgate-io/latest/tollgate_io/guide/index.html
//! [`tollgate_observe::guide`]: https://docs.rs/tollgate-observe/latest/tollgate_observe/guide/index.html
//! [`tollgate_reqwest::PausesMiddleware`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/struct.PausesMiddleware.html
//! [`tollgate_reqwest::ThrottleMiddleware`]: https://docs.rs/tollgate-reqwest/latest/tollgate_reqwest/struct.ThrottleMiddleware.html
//! [`tollgate_tower::PausesLayer`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/struct.PausesLayer.html
//! [`tollgate_tower::ThrottleLayer`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/struct.ThrottleLayer.html
//! [`tollgate_tower::guide`]: https://docs.rs/tollgate-tower/latest/tollgate_tower/guide/index.html
//! [`AdaptiveSemaphore`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveSemaphore.html
//! [`AdaptiveRate`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/struct.AdaptiveRate.html
//! [`tollgate_adaptive::guide`]: https://docs.rs/tollgate-adaptive/latest/tollgate_adaptive/guide/index.html

pub mod basics;
pub mod cancel_and_shut_down;
pub mod cap_parallel_uploads;
pub mod choose_an_algorithm;
pub mod crawl_politely;
pub mod limit_a_pool;
pub mod limit_an_api_client;
pub mod limit_an_llm_client;
pub mod limit_memory;
pub mod limit_messages;
pub mod per_tenant_limits;
pub mod reset_at_midnight;
pub mod send_webhooks;
pub mod share_a_limit;
pub mod test_code_that_waits;
pub mod when_not_to_use;
pub mod who_goes_first;
