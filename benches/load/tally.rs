//! Counts the requests of each network that were admitted, and which networks were seen.
//!
//! Every counter is written when it is created, so the counts take the same memory before and after
//! a round.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use tollgate_tower::IpNet;

/// Set once a request of the network was seen; the other bits count those admitted.
const SEEN: u32 = 1 << 31;

pub(super) struct Tally {
    networks: Box<[AtomicU32]>,
    requests: AtomicU64,
}

/// The counts of a round.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Admitted {
    pub(super) in_all: u64,
    /// Of the network with the most.
    pub(super) most: u32,
    /// How many networks had more than they may.
    pub(super) above: u64,
}

impl Tally {
    pub(super) fn new(networks: u32) -> Self {
        Self {
            networks: (0..networks).map(|_| AtomicU32::new(0)).collect(),
            requests: AtomicU64::new(0),
        }
    }

    /// Counts a request, admitted or not.
    pub(super) fn saw(&self, network: IpNet) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        let counter = self.counter(network);
        // Most networks are seen again and again.
        if counter.load(Ordering::Relaxed) & SEEN == 0 {
            counter.fetch_or(SEEN, Ordering::Relaxed);
        }
    }

    /// Counts an admitted request.
    pub(super) fn admitted(&self, network: IpNet) {
        self.counter(network).fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// How many networks have made requests.
    pub(super) fn seen(&self) -> usize {
        let is_seen = |counter: &&AtomicU32| counter.load(Ordering::Relaxed) & SEEN != 0;
        self.networks.iter().filter(is_seen).count()
    }

    /// Takes the counts since the last call, where each network may have up to `allowed`.
    pub(super) fn take_admitted(&self, allowed: u64) -> Admitted {
        let mut sum = Admitted::default();
        for counter in &self.networks {
            let admitted = counter.fetch_and(SEEN, Ordering::Relaxed) & !SEEN;
            sum.in_all += u64::from(admitted);
            sum.most = sum.most.max(admitted);
            sum.above += u64::from(u64::from(admitted) > allowed);
        }
        sum
    }

    fn counter(&self, network: IpNet) -> &AtomicU32 {
        &self.networks[index_of(network)]
    }
}

/// A network has its number behind 2001:db8: as wrk writes it.
fn index_of(network: IpNet) -> usize {
    let IpAddr::V6(address) = network.addr() else {
        panic!("wrk sends addresses of IPv6, not {network}");
    };
    let [_, _, high, low, ..] = Ipv6Addr::segments(&address);
    usize::from(high) << 16 | usize::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn take_admitted_returns_the_counts_since_the_last_call() {
        let tally = Tally::new(100_000);
        let [one, other] = ["2001:db8::/64", "2001:db8:1:2::/64"].map(|net| net.parse().unwrap());
        assert_eq!(index_of(other), 65_538);
        for network in [one, one, other, other, other] {
            tally.saw(network);
        }
        for network in [one, other, other] {
            tally.admitted(network);
        }
        assert_eq!((tally.requests(), tally.seen()), (5, 2));
        let expected = Admitted {
            in_all: 3,
            most: 2,
            above: 1,
        };
        assert_eq!(tally.take_admitted(1), expected);
        assert_eq!(tally.take_admitted(1), Admitted::default());
        assert_eq!(tally.seen(), 2);
    }
}
