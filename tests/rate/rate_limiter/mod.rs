//! What the rate limiter promises, a sentence a test, on a clock that is moved by hand.
//!
//! One file for each part of the vocabulary, in `rate_limiter/`.

mod aside;
mod bounds;
mod cancelled;
mod carry;
mod charges;
mod close;
mod composed;
mod late;
mod observed;
mod order;
mod overdue;
mod oversize;
mod panicking;
mod quota;
mod refunds;
mod reservations;
mod scene;
mod wait;
mod wakers;
