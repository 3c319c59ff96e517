//! `--redis`: several processes capped together, by what the server that they upload to counts.

mod common;

use std::fs;

use common::{Running, TestServer, small_files};
use redis_on_loopback::Server;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn three_processes_have_one_cap() {
    let redis = Server::start();
    let server = TestServer::start(0, vec![]).await;
    let mut fleet: Vec<_> = (0..3)
        .map(|process| {
            // Each has keys of its own.
            let files = small_files(12);
            let directory = files.path().join(format!("process-{process}"));
            fs::create_dir(&directory).unwrap();
            for index in 0..12 {
                let name = format!("file-{index:03}");
                fs::rename(files.path().join(&name), directory.join(name)).unwrap();
            }
            let mut command = server.program("uploads");
            command
                .args(["--max-parallel", "4", "--redis", &redis.address()])
                .arg(files.path());
            (Running::start(&mut command), files)
        })
        .collect();
    // All that may be under way are, and none more comes, since those do not end.
    server.gauge.wait_for(|counts| counts.in_flight == 4).await;
    server.open();
    for (process, files) in fleet.drain(..) {
        let ended = process.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        let json = ended.json();
        assert_eq!(json["verified"], json!(12));
        assert_eq!(json["throttle"], json!("redis"));
        drop(files);
    }
    // Each of them may have had four; together they had four.
    assert_eq!(server.gauge.counts().peak, 4);
    assert_eq!(server.objects().len(), 36);
}
