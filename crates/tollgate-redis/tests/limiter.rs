//! A rate limiter on a real server.

mod support;

mod limiter {
    mod ahead;
    mod several;
    mod verbs;
}
