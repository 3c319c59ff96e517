//! A rate limiter on a real server.

mod support;

mod limiter {
    mod ahead;
    mod detector;
    mod edges;
    mod fallback;
    mod options;
    mod several;
    mod verbs;
}
