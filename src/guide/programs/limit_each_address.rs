use std::net::IpAddr;

use tollgate::{Keyed, Quota, RateLimiter};

/// Allows ten requests per second from each address, and 20 at once after a pause.
static ADDRESSES: Keyed<IpAddr, RateLimiter> =
    Keyed::rate_limiters(Quota::per_second(10).burst(20));

fn is_admitted(peer: IpAddr) -> bool {
    ADDRESSES.key(&peer).try_acquire().is_ok()
}

fn main() {
    let peer = IpAddr::from([192, 0, 2, 1]);
    println!("{peer} is admitted: {}", is_admitted(peer));
}
