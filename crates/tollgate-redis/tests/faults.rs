//! Faults that a limit must survive, each made for real: of a server that the test starts, of the
//! network before it, of its clock, and of a cluster.

mod support;

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
    mod scripts;
    #[cfg(feature = "cluster")]
    mod slots;
    mod slow;
    mod types;
}
