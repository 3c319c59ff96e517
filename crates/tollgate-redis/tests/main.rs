//! Tests limits on a real server, which each test starts on a free port of loopback, and stops.

mod support;

/// The program of tollgate's guide, which cannot depend on this crate. It is compiled and not run,
/// because it names a server.
#[allow(dead_code)]
#[path = "../../../src/guide/programs/share_on_redis.rs"]
mod guide;

/// Real faults that a limit must survive: of the server, of the network in front of it, of its
/// clock, and of a cluster.
mod faults {
    mod clock;
    #[cfg(feature = "cluster")]
    mod cluster;
    mod dropped;
    mod fork;
    mod help;
    mod messages;
    mod outages;
    mod passwords;
    mod rights;
    mod sentinels;
    mod server;
    mod shares;
    #[cfg(feature = "tls")]
    mod tls;
    mod waiting;
}

/// Stores without a server.
mod in_memory {
    mod leases;
    mod limits;
}

/// Semaphores.
mod lease {
    mod faults;
    mod keyed;
    mod line;
    mod model;
    mod places;
    mod pushes;
    mod shared;
    mod told;
    mod verbs;
    mod versions;
}

/// Rate limiters.
mod limiter {
    mod known;
    mod options;
    mod prefetch;
    mod sets;
    mod statistics;
    pub(crate) mod turns;
    mod verbs;
}

/// Compares the scripts with the limiters of tollgate, step by step, on the same random cases, with
/// a clock that the test sets.
mod scripts {
    mod agree;
    pub(crate) mod engine;
    mod refunds;
    mod reserved;
    mod values;
}
