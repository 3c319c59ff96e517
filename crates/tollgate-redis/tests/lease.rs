//! Leases on a real server.

mod support;

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
