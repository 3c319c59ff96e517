//! What a gate promises, on a clock that is moved by hand.

mod composed;
mod endings;
mod shut;
mod threads;
mod waits;
