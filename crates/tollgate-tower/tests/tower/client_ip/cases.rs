//! The cases of the specification, and what else proxies and clients write.

use tollgate_tower::{ClientIp, ClientIpHeader};

use super::{client_ip, name, request, trusting_tens};

/// The peer, the lines of the header, and the client that is found.
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
        // The peer is not trusted, so its header is not.
        ("9.9.9.9", &["1.2.3.4"], "9.9.9.9"),
        ("2001:db8::9", &["1.2.3.4"], "2001:db8::9"),
        // Nobody knows whether it is trusted.
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
        // There are fewer.
        (TEN, &["1.2.3.4"], TEN),
        (TEN, &["junk, 1.2.3.4"], TEN),
        (TEN, &["6.6.6.6, 1.2.3.4, junk"], TEN),
        (TEN, &[], TEN),
        // Without a peer, and with nothing.
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
        // Like a mapped address, but it is not one.
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
        // Separators and quotes in strings.
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
        // What a client wrote does not change how the proxy's element is read.
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
