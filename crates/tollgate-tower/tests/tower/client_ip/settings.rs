//! Prefixes, names of headers, and how much is read.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv6Addr};

use axum::http::HeaderName;
use tollgate_tower::{ClientIp, ClientIpHeader};

use super::{client_ip, request, trusting_tens};

const TEN: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

fn forwarded_for(client_ip: &ClientIp, list: &str) -> String {
    let name = HeaderName::from_static("x-forwarded-for");
    client_ip.of(&request(Some(TEN), &name, [list])).to_string()
}

#[test]
fn prefixes_mask_the_address_after_it_was_found() {
    let cases = [
        ((32, 64), "1.2.3.4", "1.2.3.4/32"),
        ((24, 64), "1.2.3.4", "1.2.3.0/24"),
        ((0, 64), "1.2.3.4", "0.0.0.0/0"),
        ((24, 64), "::ffff:1.2.3.4", "1.2.3.0/24"),
        ((32, 64), "2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ((32, 56), "2001:db8:1:2ff::", "2001:db8:1:200::/56"),
        ((32, 128), "2001:db8::1", "2001:db8::1/128"),
        ((32, 0), "2001:db8::1", "::/0"),
        ((16, 64), "junk", "10.0.0.0/16"),
    ];
    for ((v4, v6), list, expected) in cases {
        let client_ip = client_ip().behind(1).prefixes(v4, v6);
        assert_eq!(forwarded_for(&client_ip, list), expected, "{list}");
    }
    let nobody = client_ip().prefixes(8, 64).of(&request(
        None,
        &HeaderName::from_static("x-forwarded-for"),
        [""; 0],
    ));
    assert_eq!(nobody.to_string(), "0.0.0.0/8");
}

#[test]
fn addresses_of_one_64_are_one_key() {
    let client_ip = client_ip();
    let base = u128::from(Ipv6Addr::new(0x2001, 0xdb8, 1, 2, 0, 0, 0, 0));
    let name = HeaderName::from_static("x-forwarded-for");
    let keys: HashSet<_> = (0..1_u128 << 20)
        .map(|n| {
            let peer = Ipv6Addr::from(base | n << 44);
            client_ip.of(&request(Some(peer.into()), &name, [""; 0]))
        })
        .collect();
    assert_eq!(keys, HashSet::from(["2001:db8:1:2::/64".parse().unwrap()]));
}

/// The network of a peer, as `prefixes` says of such addresses.
fn of_peer(client_ip: &ClientIp, peer: Ipv6Addr) -> String {
    let name = HeaderName::from_static("x-forwarded-for");
    let request = request(Some(peer.into()), &name, [""; 0]);
    client_ip.of(&request).to_string()
}

#[test]
fn of_all_ipv4_addresses_behind_nat64_is_one_64() {
    let nat64 = |v4: [u8; 4]| {
        let [a, b, c, d] = v4.map(u16::from);
        Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, a << 8 | b, c << 8 | d)
    };
    // The first, the last, and those that differ in one bit from the first.
    let bits = (0..32).map(|bit| 1_u32 << bit);
    for v4 in bits.chain([0, u32::MAX]).map(u32::to_be_bytes) {
        assert_eq!(of_peer(&client_ip(), nat64(v4)), "64:ff9b::/64");
    }
    let single = client_ip().prefixes(32, 128);
    assert_eq!(
        of_peer(&single, nat64([1, 2, 3, 4])),
        "64:ff9b::102:304/128"
    );
}

#[test]
fn of_one_ipv4_address_with_6to4_is_65_536_64s() {
    let subnets =
        (0..=u16::MAX).map(|subnet| Ipv6Addr::new(0x2002, 0x102, 0x304, subnet, 0, 0, 0, 1));
    let found = |client_ip: &ClientIp| -> HashSet<_> {
        let subnets = subnets.clone();
        subnets.map(|peer| of_peer(client_ip, peer)).collect()
    };
    assert_eq!(found(&client_ip()).len(), 65_536);
    let by_48 = found(&client_ip().prefixes(32, 48));
    assert_eq!(by_48, HashSet::from(["2002:102:304::/48".to_owned()]));
}

#[test]
fn header_reads_only_the_one_that_was_named() {
    let real_ip = HeaderName::from_static("x-real-ip");
    let client_ip = client_ip().behind(1);
    let named = client_ip
        .clone()
        .header(ClientIpHeader::Named(real_ip.clone()));
    let request = request(Some(TEN), &real_ip, ["1.2.3.4"]);
    assert_eq!(named.of(&request).to_string(), "1.2.3.4/32");
    assert_eq!(client_ip.of(&request).to_string(), "10.0.0.1/32");
    let forwarded = client_ip.header(ClientIpHeader::Forwarded);
    assert_eq!(forwarded.of(&request).to_string(), "10.0.0.1/32");
}

#[test]
fn networks_in_ipv6_form_are_networks_of_ipv4() {
    let networks = ["::ffff:10.0.0.0/104", "::ffff:0:0/95"];
    let client_ip = client_ip().trusting(networks.map(|network| network.parse().unwrap()));
    let list = "6.6.6.6, 1.2.3.4, 10.0.0.2";
    assert_eq!(forwarded_for(&client_ip, list), "1.2.3.4/32");
    assert_eq!(forwarded_for(&trusting_tens(), list), "1.2.3.4/32");
}

#[test]
fn at_most_64_elements_are_read() {
    let list = |tens: usize| format!("6.6.6.6{}", ", 10.0.0.2".repeat(tens));
    assert_eq!(forwarded_for(&trusting_tens(), &list(63)), "6.6.6.6/32");
    assert_eq!(forwarded_for(&trusting_tens(), &list(64)), "10.0.0.2/32");
    let most = client_ip().behind(64);
    assert_eq!(forwarded_for(&most, &list(63)), "6.6.6.6/32");
    assert_eq!(forwarded_for(&most, &list(62)), "10.0.0.1/32");
    let long = ", ".repeat(100_000);
    assert_eq!(forwarded_for(&most, &long), "10.0.0.1/32");
}
