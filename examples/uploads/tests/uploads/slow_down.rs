//! The embedded server counts every request, and refuses those above a rate after it has read them.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use super::common::{Running, TestServer, add_large, at, program, run, small_files};
use serde_json::json;
use tollgate::{Quota, RateLimiter};
use uploads::server::Behaviour;

/// Sends a request on a connection that stays open, and returns the head and the body of the answer.
fn ask(connection: &mut TcpStream, head: &str, body: &[u8]) -> (String, String) {
    let length = body.len();
    write!(
        connection,
        "{head} HTTP/1.1\r\nhost: s3\r\ncontent-length: {length}\r\n\r\n"
    )
    .unwrap();
    connection.write_all(body).unwrap();
    let mut answer = BufReader::new(connection);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(
            answer.read_line(&mut head).unwrap() > 0,
            "closed after {head:?}"
        );
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: "));
    let mut body = vec![0; length.map_or(0, |length| length.parse().unwrap())];
    answer.read_exact(&mut body).unwrap();
    (head, String::from_utf8(body).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_above_the_rate_are_read_to_their_end_and_refused() {
    let limit = RateLimiter::new(Quota::per_hour(1).burst(1));
    let server = TestServer::with(Behaviour {
        slow_down: Some(Arc::new(limit)),
        ..Behaviour::default()
    })
    .await;
    let address = server.server.endpoint().replace("http://", "");
    let asked = tokio::task::spawn_blocking(move || {
        let mut connection = TcpStream::connect(address).unwrap();
        let (head, _) = ask(&mut connection, "GET /", b"");
        assert!(
            head.starts_with("HTTP/1.1 403 "),
            "without a signature: {head}"
        );
        // This is more than the buffers of a connection hold.
        let large = vec![7; 16 * 1024 * 1024];
        for _ in 0..2 {
            let (head, body) = ask(&mut connection, "PUT /uploads/key", &large);
            assert!(head.starts_with("HTTP/1.1 503 "), "{head}");
            assert!(body.contains("<Code>SlowDown</Code>"), "{body}");
        }
    });
    asked.await.unwrap();
    server
        .requests
        .wait_for(|counts| counts.in_flight == 0)
        .await;
    let counts = server.requests.counts();
    assert_eq!((counts.begun, counts.peak), (3, 1));
    assert_eq!(server.gauge.counts().begun, 0, "none of them is an upload");
    assert_eq!(
        server.arrivals.all().len(),
        2,
        "refused ones have arrived too"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_is_counted_and_the_cap_holds_for_all() {
    let files = small_files(3);
    add_large(files.path());
    let server = TestServer::start(1_000, vec![]).await;
    let ended = run(server
        .program("uploads")
        .args(["--max-parallel", "2"])
        .arg(files.path()));
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    let counts = server.requests.counts();
    let (first, small, parts, around, read_back) = (1, 3, 3, 2, 4);
    assert_eq!(counts.begun, first + small + parts + around + read_back);
    assert_eq!((counts.peak, counts.in_flight), (2, 0));
}

#[test]
fn slow_down_refuses_and_everything_arrives() {
    let files = small_files(10);
    let ended = run(program()
        .args(["--json", "--slow-down", "50/s burst 2"])
        .arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        (&json["verified"], &json["failed"]),
        (&json!(10), &json!(0))
    );
    assert_eq!(json["slow_down"], "50/s burst 2");
    // Ten are uploaded and ten read back, and refused requests are sent again.
    let refused = json["throttled"].as_u64().unwrap();
    assert_eq!(json["requests_in_all"], 20 + refused);
    assert_eq!(
        (&json["adaptive"], &json["rate_found"]),
        (&json!(false), &json!(null))
    );
}

#[test]
fn adaptive_finds_at_most_the_rate_and_everything_arrives() {
    let files = small_files(10);
    let ended = run(program()
        .args(["--json", "--slow-down", "100/s burst 2", "--adaptive"])
        .arg(files.path()));
    let json = ended.json();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert_eq!(
        (&json["verified"], &json["adaptive"]),
        (&json!(10), &json!(true))
    );
    let refused = json["throttled"].as_u64().unwrap();
    let all = json["requests_in_all"].as_u64().unwrap();
    assert!(refused > 0 && all > 20 + refused, "{refused} of {all}");
    // On a machine that stalls, the found rate is lower.
    let found = &json["rate_found"];
    let rate = found.as_f64();
    assert!(
        rate.is_some_and(|rate| rate > 0.0 && rate <= 100.0),
        "{found}"
    );
}

#[test]
fn adaptive_says_which_pause_the_server_asks_for() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        // The first request checks whether the server answers.
        for _ in 0..2 {
            let (mut connection, _) = listener.accept().unwrap();
            // A part of the request has arrived.
            connection.read_exact(&mut [0]).unwrap();
            let answer = "HTTP/1.1 503 \r\nretry-after: 3600\r\ncontent-length: 0\r\n\r\n";
            connection.write_all(answer.as_bytes()).unwrap();
            // Wait until the client has closed the connection in any way.
            let _ = std::io::copy(&mut connection, &mut std::io::sink());
        }
    });
    let files = small_files(1);
    let mut running = Running::start(at(&endpoint, "uploads").arg("--adaptive").arg(files.path()));
    let said = "the server asks for a pause of 3600 s: no request is sent for 60 s";
    running.wait_for_lines(said, 1);
    drop(running);
    server.join().unwrap();
}
