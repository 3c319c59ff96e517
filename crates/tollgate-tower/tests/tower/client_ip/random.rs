//! Random headers, 10,000,000 of them in `scripts/nightly`: nothing panics, and the answer is an address
//! that the header or the peer has.

use std::env;
use std::net::{IpAddr, Ipv4Addr};

use axum::http::Request;
use tollgate_tower::{ClientIp, ClientIpHeader};

use super::{client_ip, name, request, trusting_tens};
use crate::support::random::Random;

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// So many; the environment variable `HEADER_CASES` is heeded instead, if it is set.
fn number_of_cases() -> u64 {
    env::var("HEADER_CASES").map_or(20_000, |cases| cases.parse().expect("a number"))
}

/// What headers are made of, so that random ones are not all junk.
const PARTS: [&[u8]; 28] = [
    b"1.2.3.4",
    b"10.0.0.2",
    b"10.9.9.9",
    b"2001:db8::1",
    b"[2001:db8::1]",
    b"fd00::2",
    b"::ffff:1.2.3.4",
    b"::ffff:102:304",
    b"::",
    b"for=",
    b"For=",
    b"by=",
    b"\"",
    b"\\",
    b",",
    b", ",
    b";",
    b":",
    b":80",
    b"[",
    b"]",
    b" ",
    b"\t",
    b"%eth0",
    b"_x",
    b"unknown",
    b".",
    b"\xff",
];

/// A line: half of it parts, and half of it bytes that a header may have.
fn line(random: &mut Random) -> Vec<u8> {
    let mut line = Vec::new();
    for _ in 0..random.below(12) {
        if random.below(4) > 0 {
            line.extend(PARTS[random.below(28) as usize]);
        } else {
            let byte = random.below(256) as u8;
            line.push(if byte < b' ' || byte == 0x7f {
                b'7'
            } else {
                byte
            });
        }
    }
    line
}

/// Every address that a text between two delimiters is, in the most obvious way.
fn addresses(line: &[u8]) -> impl Iterator<Item = IpAddr> {
    let text = String::from_utf8_lossy(line).into_owned();
    let delimiters = |c: char| ",;=\"[] \t".contains(c);
    let pieces: Vec<_> = text.split(delimiters).map(str::to_owned).collect();
    pieces.into_iter().flat_map(|piece| {
        let without_port = piece
            .rsplit_once(':')
            .map(|(address, _)| address.to_owned());
        let candidates = [Some(piece), without_port];
        candidates.into_iter().flatten().filter_map(|candidate| {
            let address: IpAddr = candidate.parse().ok()?;
            Some(address.to_canonical())
        })
    })
}

#[test]
fn of_a_random_header_returns_an_address_that_is_there() {
    let headers = [ClientIpHeader::XForwardedFor, ClientIpHeader::Forwarded];
    let settings = |client_ip: ClientIp| {
        let client_ip = client_ip.prefixes(32, 128);
        headers
            .clone()
            .map(|header| (name(&header), client_ip.clone().header(header)))
    };
    let all = [
        client_ip().behind(1),
        client_ip().behind(2),
        trusting_tens(),
    ]
    .map(settings);
    let mut random = Random::new(7);
    let mut found_in_header = 0_u64;
    let cases = number_of_cases();
    for case in 0..cases {
        let lines: Vec<_> = (0..=random.below(3)).map(|_| line(&mut random)).collect();
        let peer = (case % 8 != 0).then_some(PEER);
        for (name, client_ip) in all.as_flattened() {
            let request: Request<()> = request(peer, name, &lines);
            let found = client_ip.of(&request);
            assert_eq!(found.prefix_len(), found.max_prefix_len());
            let found = found.addr();
            if found != peer.unwrap_or(Ipv4Addr::UNSPECIFIED.into()) {
                found_in_header += 1;
                let there = lines
                    .iter()
                    .any(|line| addresses(line).any(|one| one == found));
                assert!(there, "{found} of {name} {lines:?}");
            }
        }
    }
    // The cases are worth something.
    assert!(found_in_header > cases / 50, "only {found_in_header}");
}

/// Whatever a client sends, in lines of its own or in the line to which the proxy appends, the answer is
/// what the proxy wrote.
#[test]
fn of_a_random_header_returns_what_the_proxy_appended() {
    let cases = [
        (ClientIpHeader::XForwardedFor, "1.2.3.4:80"),
        (
            ClientIpHeader::Forwarded,
            "host=\"a, \\\"b\";for=\"[::ffff:1.2.3.4]:80\"",
        ),
    ];
    let cases = cases.map(|(header, element)| {
        let client_ip = client_ip().header(header.clone());
        let ours = client_ip.clone().trusting(["10.0.0.0/8".parse().unwrap()]);
        (name(&header), element, [client_ip.behind(1), ours])
    });
    let mut random = Random::new(11);
    for _ in 0..number_of_cases() {
        let mut lines: Vec<_> = (0..=random.below(2)).map(|_| line(&mut random)).collect();
        // The proxy appends to the last line, or adds one.
        let mut begun = Vec::new();
        if random.below(2) == 0 {
            begun.extend(lines.pop().unwrap_or_default());
            begun.extend(b", ");
        }
        for (name, element, client_ips) in &cases {
            let mut last = begun.clone();
            last.extend(element.as_bytes());
            let request = request(Some(PEER), name, lines.iter().chain([&last]));
            for client_ip in client_ips {
                let found = client_ip.of(&request).to_string();
                assert_eq!(found, "1.2.3.4/32", "{name} {lines:?} {last:?}");
            }
        }
    }
}
