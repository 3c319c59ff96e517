//! Leases on a real server.

mod support;

mod lease {
    mod faults;
    mod killed;
    mod look;
    mod model;
    mod recovery;
    mod shared;
    mod verbs;
}
