//! Several throttles as one: all of them or none, in order, and everything given back.
//!
//! What holds for any number of parts and any nesting is checked for each shape that is in
//! `all/shapes.rs`, with parts that log what is done to them.

mod given_back;
mod model;
mod parts;
mod shapes;

/// The model of a semaphore, as the rows of semaphores have it.
#[allow(
    dead_code,
    reason = "a part of it is about waits for idleness and limits that move"
)]
#[path = "../../concurrency/model/naive.rs"]
mod semaphore;
