//! Local handles of a limiter. What they take ahead, let through and give back is compared with the
//! model in `rate_model`; here are waits, threads, and what a handle is beside that.

mod threads;
mod unused;
mod waits;
