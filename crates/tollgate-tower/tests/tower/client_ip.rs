//! Tests how the client of a request is found, from the peer and from the headers of proxies.

use std::collections::HashSet;
use std::env;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use axum::extract::ConnectInfo;
use axum::http::{HeaderName, HeaderValue, Request};
use tollgate_tower::{ClientIp, ClientIpHeader};

use crate::support::random::Random;

/// Returns a `ClientIp` that finds the peer where axum stores it.
fn client_ip() -> ClientIp {
    ClientIp::peer(|extensions| Some(extensions.get::<ConnectInfo<SocketAddr>>()?.0))
}

/// Returns a `ClientIp` that trusts the networks in which the tests have their proxies.
fn trusting_tens() -> ClientIp {
    client_ip().trusting(["10.0.0.0/8".parse().unwrap(), "fd00::/8".parse().unwrap()])
}

/// Returns a request of a peer, if it has an address, with these lines of a header.
fn request<L>(
    peer: Option<IpAddr>,
    name: &HeaderName,
    lines: impl IntoIterator<Item = L>,
) -> Request<()>
where
    L: AsRef<[u8]>,
{
    let mut request = Request::new(());
    if let Some(peer) = peer {
        let peer = SocketAddr::new(peer, 4711);
        request.extensions_mut().insert(ConnectInfo(peer));
    }
    for line in lines {
        let line = HeaderValue::from_bytes(line.as_ref()).unwrap();
        request.headers_mut().append(name.clone(), line);
    }
    request
}

fn name(header: &ClientIpHeader) -> HeaderName {
    match header {
        ClientIpHeader::Forwarded => HeaderName::from_static("forwarded"),
        ClientIpHeader::Named(name) => name.clone(),
        _ => HeaderName::from_static("x-forwarded-for"),
    }
}

// Tests the cases of the specification, and other texts that proxies and clients write.

/// The peer, the lines of the header, and the expected client.
type Case<'a> = (&'a str, &'a [&'a str], &'a str);

#[track_caller]
fn assert_cases(client_ip: ClientIp, header: ClientIpHeader, cases: &[Case<'_>]) {
    let client_ip = client_ip.prefixes(32, 128).header(header.clone());
    for (peer, lines, expected) in cases {
        let request = request(peer.parse().ok(), &name(&header), *lines);
        let found = client_ip.of(&request);
        assert_eq!(found.addr().to_string(), *expected, "{peer} {lines:?}");
        assert_eq!(found.prefix_len(), found.max_prefix_len());
    }
}

const TEN: &str = "10.0.0.1";
const NO_ADDRESS: &str = "-";

#[test]
fn trusting_walks_from_the_right_while_the_proxies_are_trusted() {
    let cases: &[Case<'_>] = &[
        (TEN, &["6.6.6.6, 1.2.3.4"], "1.2.3.4"),
        (TEN, &["6.6.6.6", "1.2.3.4"], "1.2.3.4"),
        (TEN, &["6.6.6.6, 1.2.3.4", "10.9.9.9"], "1.2.3.4"),
        (TEN, &["6.6.6.6, 1.2.3.4, 10.9.9.9", "fd00::7"], "1.2.3.4"),
        (TEN, &["1.2.3.4, junk"], TEN),
        (TEN, &["1.2.3.4, junk, 10.0.0.2"], "10.0.0.2"),
        (TEN, &["10.0.0.3, 10.0.0.2"], "10.0.0.3"),
        (TEN, &["::ffff:102:304"], "1.2.3.4"),
        (TEN, &["1.2.3.4, ::ffff:10.0.0.2"], "1.2.3.4"),
        ("::ffff:10.0.0.1", &["1.2.3.4"], "1.2.3.4"),
        ("fd00::1", &["2001:db8::1"], "2001:db8::1"),
        (TEN, &[], TEN),
        // The peer is not trusted, so its header is not either.
        ("9.9.9.9", &["1.2.3.4"], "9.9.9.9"),
        ("2001:db8::9", &["1.2.3.4"], "2001:db8::9"),
        // It is unknown whether this peer is trusted.
        (NO_ADDRESS, &["1.2.3.4"], "0.0.0.0"),
    ];
    assert_cases(trusting_tens(), ClientIpHeader::XForwardedFor, cases);
}

#[test]
fn behind_counts_from_the_right() {
    let cases: &[Case<'_>] = &[
        (TEN, &["6.6.6.6, 1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        (TEN, &["6.6.6.6", "1.2.3.4", "10.0.0.2"], "1.2.3.4"),
        (TEN, &["1.2.3.4, 5.6.7.8"], "1.2.3.4"),
        ("9.9.9.9", &["1.2.3.4, 5.6.7.8"], "1.2.3.4"),
        (TEN, &["junk, 1.2.3.4, 5.6.7.8"], "1.2.3.4"),
        // There are fewer elements than proxies.
        (TEN, &["1.2.3.4"], TEN),
        (TEN, &["junk, 1.2.3.4"], TEN),
        (TEN, &["6.6.6.6, 1.2.3.4, junk"], TEN),
        (TEN, &[], TEN),
        // The peer has no address, or nothing is known.
        (NO_ADDRESS, &["6.6.6.6, 1.2.3.4, 10.0.0.2"], "1.2.3.4"),
        (NO_ADDRESS, &["1.2.3.4"], "0.0.0.0"),
    ];
    assert_cases(client_ip().behind(2), ClientIpHeader::XForwardedFor, cases);
    for header in [ClientIpHeader::XForwardedFor, ClientIpHeader::Forwarded] {
        let cases: &[Case<'_>] = &[
            (TEN, &["1.2.3.4"], TEN),
            ("::ffff:9.9.9.9", &["for=1.2.3.4"], "9.9.9.9"),
            (NO_ADDRESS, &["1.2.3.4"], "0.0.0.0"),
        ];
        assert_cases(client_ip(), header.clone(), cases);
        assert_cases(trusting_tens().behind(0), header, cases);
    }
}

#[test]
fn elements_are_addresses_with_or_without_a_port() {
    let cases: &[Case<'_>] = &[
        (TEN, &["1.2.3.4"], "1.2.3.4"),
        (TEN, &["1.2.3.4:80"], "1.2.3.4"),
        (TEN, &["1.2.3.4:65535"], "1.2.3.4"),
        (TEN, &["1.2.3.4:_p.o-r_t"], "1.2.3.4"),
        (TEN, &["2001:db8::1"], "2001:db8::1"),
        (TEN, &["2001:DB8:0:0::1"], "2001:db8::1"),
        (TEN, &["[2001:db8::1]"], "2001:db8::1"),
        (TEN, &["[2001:db8::1]:80"], "2001:db8::1"),
        (TEN, &["::"], "::"),
        (TEN, &["::ffff:1.2.3.4"], "1.2.3.4"),
        (TEN, &["[::ffff:102:304]:80"], "1.2.3.4"),
        // This resembles a mapped address, but is not one.
        (TEN, &["::1.2.3.4"], "::102:304"),
        (TEN, &["6.6.6.6,\t 1.2.3.4 \t"], "1.2.3.4"),
        (TEN, &["6.6.6.6,1.2.3.4"], "1.2.3.4"),
        (TEN, &["\"6.6.6.6, 1.2.3.4"], "1.2.3.4"),
    ];
    assert_cases(client_ip().behind(1), ClientIpHeader::XForwardedFor, cases);
    assert_cases(trusting_tens(), ClientIpHeader::XForwardedFor, cases);
}

#[test]
fn anything_else_is_no_address() {
    let others = [
        "",
        " ",
        ",",
        "1.2.3.4,",
        "1.2.3.4, ,",
        "unknown",
        "_hidden",
        "-",
        "localhost",
        "unix:",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.256",
        "01.2.3.4",
        "0x1.2.3.4",
        "1.2.3.4/32",
        "1 .2.3.4",
        "1.2.3.4 5.6.7.8",
        "1.2.3.4:",
        "1.2.3.4:+1",
        "1.2.3.4:65536",
        "1.2.3.4:_",
        "1.2.3.4:_a b",
        "1.2.3.4:80:80",
        ":80",
        "[1.2.3.4]",
        "[1.2.3.4]:80",
        "[::1",
        "::1]",
        "[]",
        "[::1]80",
        "[::1]:",
        "[[::1]]",
        "[::1]:80]",
        "fe80::1%eth0",
        "[fe80::1%1]:80",
        "fe80::1%25eth0",
        ":::",
        "1::2::3",
        "::ffff:1.2.3.256",
        "\"1.2.3.4\"",
        "'1.2.3.4'",
        "\"1.2.3.4",
        "1.2.3.4\"",
        "for=1.2.3.4",
        "\u{ff11}.2.3.4",
        "\u{e9}",
        "1.2.3.4\u{a0}",
        "1.2.3.4;",
    ];
    for other in others {
        for client_ip in [client_ip().behind(1), trusting_tens()] {
            let cases: &[Case<'_>] = &[(TEN, &[other], TEN), (TEN, &["6.6.6.6", other], TEN)];
            assert_cases(client_ip, ClientIpHeader::XForwardedFor, cases);
        }
    }
}

#[test]
fn forwarded_is_read_as_rfc_7239_has_it() {
    let cases: &[Case<'_>] = &[
        (TEN, &["for=6.6.6.6, for=1.2.3.4"], "1.2.3.4"),
        (TEN, &["for=6.6.6.6", "for=1.2.3.4"], "1.2.3.4"),
        (TEN, &["For=1.2.3.4;proto=https;by=10.0.0.2"], "1.2.3.4"),
        (TEN, &["proto=https; by=10.0.0.2; FOR=1.2.3.4"], "1.2.3.4"),
        (TEN, &["for=\"1.2.3.4\""], "1.2.3.4"),
        (TEN, &["for=\"1.2.3.4:80\""], "1.2.3.4"),
        (
            TEN,
            &["for=\"[2001:db8:cafe::17]:4711\""],
            "2001:db8:cafe::17",
        ),
        (
            TEN,
            &["for=\"[2001:db8:cafe::17]:_a\""],
            "2001:db8:cafe::17",
        ),
        (TEN, &["for=[2001:db8::1]"], "2001:db8::1"),
        (TEN, &["for=\"[::ffff:1.2.3.4]\";proto=http"], "1.2.3.4"),
        // Separators and quotes occur in strings.
        (TEN, &["for=1.2.3.4;host=\"a, for=6.6.6.6; b\""], "1.2.3.4"),
        (
            TEN,
            &["host=\"\\\", for=6.6.6.6;\\\\\";for=1.2.3.4"],
            "1.2.3.4",
        ),
        (
            TEN,
            &["for=6.6.6.6, host=\"a\\\"b\";for=1.2.3.4"],
            "1.2.3.4",
        ),
        // Text that a client wrote does not change how the proxy's element is read.
        (TEN, &["for=\"6.6.6.6, for=1.2.3.4"], "1.2.3.4"),
        (TEN, &["for=6.6.6.6;host=\"\\, for=1.2.3.4"], "1.2.3.4"),
        (TEN, &["\"\"\", for=\"[2001:db8::1]\""], "2001:db8::1"),
    ];
    assert_cases(client_ip().behind(1), ClientIpHeader::Forwarded, cases);
    assert_cases(trusting_tens(), ClientIpHeader::Forwarded, cases);

    let others = [
        "",
        ";",
        "1.2.3.4",
        "by=1.2.3.4",
        "for",
        "for=",
        "for =1.2.3.4",
        "xfor=1.2.3.4",
        "for=unknown",
        "for=\"_hidden\"",
        "for=\"\"",
        "for=\"",
        "for=\"1.2.3.4",
        "for=1.2.3.4\"",
        "for=\"1\\.2.3.4\"",
        "for=\"\"1.2.3.4\"\"",
        "for=1.2.3.4;for=5.6.7.8",
        "for=1.2.3.4;For=1.2.3.4",
        "for=\"fe80::1%eth0\"",
        "for=1.2.3.4,",
    ];
    for other in others {
        for client_ip in [client_ip().behind(1), trusting_tens()] {
            let cases: &[Case<'_>] = &[(TEN, &[other], TEN), (TEN, &["for=6.6.6.6", other], TEN)];
            assert_cases(client_ip, ClientIpHeader::Forwarded, cases);
        }
    }
}

// Tests prefixes, names of headers, and the number of elements read.

const TEN_ADDRESS: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

fn forwarded_for(client_ip: &ClientIp, list: &str) -> String {
    let name = HeaderName::from_static("x-forwarded-for");
    client_ip
        .of(&request(Some(TEN_ADDRESS), &name, [list]))
        .to_string()
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

/// Returns the network of a peer, with the given prefixes.
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
    // The addresses are the first, the last, and those that differ in one bit from the first.
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
    let request = request(Some(TEN_ADDRESS), &real_ip, ["1.2.3.4"]);
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

// Tests random headers, 10,000,000 of them in `scripts/nightly`: nothing panics, and the result is an address
// of the header or of the peer.

const PEER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

/// Returns the number of cases; the environment variable `HEADER_CASES` overrides the default.
fn number_of_cases() -> u64 {
    env::var("HEADER_CASES").map_or(20_000, |cases| cases.parse().expect("a number"))
}

/// Parts of headers, so that random ones are not all junk.
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

/// Returns a line: half of it parts, and half of it bytes that a header may contain.
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

/// Returns every text between two delimiters that is an address, using the most obvious method.
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
    // The test is meaningful only if enough cases find an address.
    assert!(found_in_header > cases / 50, "only {found_in_header}");
}

/// Whatever a client sends, in lines of its own or in the line to which the proxy appends, the result is
/// the address that the proxy wrote.
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
