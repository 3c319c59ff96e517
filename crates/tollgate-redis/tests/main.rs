//! Limits on a real server, which each test starts on a free port of loopback, and stops.

mod support;

/// The program of tollgate's guide, which cannot depend on this crate. It is compiled and not run,
/// because it names a server.
#[allow(dead_code)]
#[path = "../../../src/guide/programs/share_on_redis.rs"]
mod guide;

/// Faults that a limit must survive, each made for real: of the server, of the network before it, of
/// its clock, and of a cluster.
mod faults {
    mod check;
    mod clients;
    mod clock;
    #[cfg(feature = "cluster")]
    mod cluster;
    mod dropped;
    mod failover;
    mod help;
    mod memory;
    mod partition;
    mod restart;
    mod rights;
    mod scripts;
    #[cfg(feature = "cluster")]
    mod slots;
    mod slow;
    #[cfg(feature = "tls")]
    mod tls;
    mod types;
}

/// Semaphores.
mod lease {
    #[cfg(feature = "cluster")]
    mod cluster;
    mod faults;
    mod killed;
    mod look;
    mod model;
    mod recovery;
    mod shared;
    mod tickets;
    mod verbs;
}

/// Rate limiters.
mod limiter {
    mod detector;
    mod edges;
    mod fallback;
    mod keyed;
    mod known;
    mod limit_set;
    mod options;
    mod outside;
    mod prefetch;
    mod verbs;
}

/// One model, two engines: the scripts beside the limiters of tollgate, step by step, on the same
/// random cases, by a clock that the test sets.
mod scripts {
    mod agree;
    mod back;
    mod engine;
    mod exact;
    mod quick;
    mod refunds;
}
