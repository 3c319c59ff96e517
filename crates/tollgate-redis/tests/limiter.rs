//! A rate limiter on a real server.

mod support;

mod limiter {
    mod verbs;
}
