//! A rate limiter on a real server.

mod support;

mod limiter {
    mod ahead;
    mod detector;
    mod edges;
    mod fallback;
    mod keyed;
    mod known;
    mod options;
    mod outside;
    mod several;
    mod verbs;
}
