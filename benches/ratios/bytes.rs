//! Reads and writes in memory at a limited bandwidth, beside bare ones and async-speed-limit's.

use tollgate_bench::bytes::{
    LARGE, SMALL, bare, never_binding, reads, speed_never_binding, speed_unlimited, unlimited,
    writes,
};
use tollgate_bench::harness::{Entry, Row};

use crate::ready::timed;

pub(crate) const ENTRIES: &[Entry] = &[
    ("bytes: read 64 KiB, unlimited", || {
        Row::of(timed("Throttled", reads(LARGE, unlimited)))
            .at_most(1.02, timed("bare", reads(LARGE, bare)))
            .beside(timed("async-speed-limit", reads(LARGE, speed_unlimited)))
    }),
    ("bytes: read 64 KiB, a limit that never binds", || {
        Row::of(timed("Throttled", reads(LARGE, never_binding)))
            .at_most(1.053, timed("bare", reads(LARGE, bare)))
            .beside(timed(
                "async-speed-limit",
                reads(LARGE, speed_never_binding),
            ))
    }),
    ("bytes: write 64 KiB, a limit that never binds", || {
        Row::of(timed("Throttled", writes(LARGE, never_binding)))
            .at_most(1.053, timed("bare", writes(LARGE, bare)))
            .beside(timed(
                "async-speed-limit",
                writes(LARGE, speed_never_binding),
            ))
    }),
    ("bytes: read 1 KiB, unlimited", || {
        Row::of(timed("Throttled", reads(SMALL, unlimited)))
            .beside(timed("bare", reads(SMALL, bare)))
            .beside(timed("async-speed-limit", reads(SMALL, speed_unlimited)))
    }),
    ("bytes: read 1 KiB, a limit that never binds", || {
        Row::of(timed("Throttled", reads(SMALL, never_binding)))
            .beside(timed("bare", reads(SMALL, bare)))
            .beside(timed(
                "async-speed-limit",
                reads(SMALL, speed_never_binding),
            ))
    }),
];
