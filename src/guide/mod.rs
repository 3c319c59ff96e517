//! Shows how to do each of sixteen tasks, with a program to start from.
//!
//! Every page has the dependencies, one program or two, and then the choices and the traps. Until the crates are
//! published, `path` is that of a checkout. The tests of this crate include the programs and run them in paused
//! time; [how to do so](test_code_that_waits) with your own has a page too.
//!
//! Clients of what others limit:
//!
//! 1. [Limit reqwest, or any client of an API](limit_an_api_client): requests a second and at once, and pauses
//!    when the server asks for one.
//! 2. [Limit an LLM client](limit_an_llm_client): requests and tokens a minute.
//! 3. [Crawl politely](crawl_politely): one request at once to each host, and some time in between.
//! 4. [Cap parallel uploads](cap_parallel_uploads): at most so many at once.
//!
//! Services:
//!
//! 5. `tollgate_tower::guide`: limit an HTTP service (axum, hyper, tonic), by address and in total.
//! 6. [Limit each tenant](per_tenant_limits): the same limit for each address, user or tenant.
//! 7. [Limit messages](limit_messages): a websocket, a Kafka consumer.
//! 8. [Limit work that has a pool](limit_a_pool): rayon, sqlx.
//! 9. `tollgate_io::guide`: limit bandwidth, bytes per second of readers, writers and bodies.
//! 10. [Share a limit](share_a_limit): one quota for several processes or machines, also on Redis.
//!
//! Everywhere:
//!
//! 11. [Cancel and shut down](cancel_and_shut_down): end waits without losing a permit, and drain what runs.
//! 12. [Test code that waits](test_code_that_waits): exact times, and no sleeping.
//! 13. `tollgate_observe::guide`: watch it in production, what is in use, who waits, who holds a permit too
//!     long.
//! 14. [Decide who goes first](who_goes_first): priorities and fair shares.
//! 15. [Find the right limit](find_the_right_limit): a limit that measures what a backend can bear.
//! 16. [Choose an algorithm](choose_an_algorithm): which one, if not the default.
//!
//! [Coming from another crate](crate::migrate)? There is a table for each.
//! [What each throttle guarantees](crate::guarantees) is a table for reference.

pub mod cancel_and_shut_down;
pub mod cap_parallel_uploads;
pub mod choose_an_algorithm;
pub mod crawl_politely;
pub mod find_the_right_limit;
pub mod limit_a_pool;
pub mod limit_an_api_client;
pub mod limit_an_llm_client;
pub mod limit_messages;
pub mod per_tenant_limits;
pub mod share_a_limit;
pub mod test_code_that_waits;
pub mod who_goes_first;
