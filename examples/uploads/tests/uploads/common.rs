//! Runs the built program against its own embedded server or against a server that the test controls.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Arc;

use clap::ValueEnum;
use serde_json::Value;
use tempfile::TempDir;
use tollgate::Semaphore;
use uploads::arrivals::Arrivals;
use uploads::gauge::Gauge;
use uploads::kind::ThrottleKind;
use uploads::server::{ACCESS_KEY, BUCKET, SECRET_KEY, Server};
use uploads::server::{Behaviour, Refusal};

/// The smallest part size, in MiB, that S3 accepts.
pub(crate) const PART_MIB: usize = 5;

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// Returns the report, which must be the only output on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error} in {}\n{}", self.stdout, self.stderr))
    }
}

/// Returns a command for the program, isolated from the environment of the test.
pub(crate) fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uploads"));
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("AWS_") {
            command.env_remove(name);
        }
    }
    command.env("NO_PROXY", "127.0.0.1");
    command
}

/// Runs the program to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    Running::start(command).end()
}

/// A running program. A failing test leaves no process behind.
#[derive(Debug)]
pub(crate) struct Running {
    child: Child,
    lines: BufReader<ChildStderr>,
    seen: String,
}

impl Running {
    pub(crate) fn start(command: &mut Command) -> Running {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap());
        Running {
            child,
            lines,
            seen: String::new(),
        }
    }

    /// Reads lines on stderr until `count` of them begin with `start`.
    pub(crate) fn wait_for_lines(&mut self, start: &str, count: usize) {
        while self.seen.lines().filter(|l| l.starts_with(start)).count() < count {
            let read = self.lines.read_line(&mut self.seen).unwrap();
            assert!(
                read > 0,
                "ended without {count} of {start:?}: {}",
                self.seen
            );
        }
    }

    /// Sends the signal of Ctrl-C.
    pub(crate) fn interrupt(&self) {
        let status = Command::new("kill")
            .args(["-INT", &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(status.success());
    }

    /// Waits for the end. Stdout fits into the pipe, so the order of reading does not matter.
    pub(crate) fn end(mut self) -> Ended {
        self.lines.read_to_string(&mut self.seen).unwrap();
        let mut stdout = String::new();
        if let Some(mut pipe) = self.child.stdout.take() {
            pipe.read_to_string(&mut stdout).unwrap();
        }
        Ended {
            code: self.child.wait().unwrap().code(),
            stdout,
            stderr: std::mem::take(&mut self.seen),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both calls fail if the program has already ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server in the test's process, to which the program uploads.
#[derive(Debug)]
pub(crate) struct TestServer {
    pub(crate) server: Server,
    pub(crate) gauge: Arc<Gauge>,
    /// Counts the requests of any kind in progress on the server.
    pub(crate) requests: Arc<Gauge>,
    /// The server's own log of the requests that change something.
    pub(crate) arrivals: Arc<Arrivals>,
    /// A semaphore from which each upload consumes one permit before the server continues it.
    pub(crate) gate: Arc<Semaphore>,
    root: TempDir,
}

impl TestServer {
    /// Starts a server that continues `open` uploads, holds the others, and refuses some.
    pub(crate) async fn start(open: usize, refusals: Vec<Refusal>) -> TestServer {
        TestServer::with(Behaviour {
            gate: Some(Arc::new(Semaphore::new(open))),
            refusals,
            ..Behaviour::default()
        })
        .await
    }

    /// Starts a server with this behaviour.
    pub(crate) async fn with(behaviour: Behaviour) -> TestServer {
        let root = tempfile::tempdir().unwrap();
        TestServer {
            gauge: Arc::clone(&behaviour.gauge),
            requests: Arc::clone(&behaviour.requests),
            arrivals: Arc::clone(&behaviour.arrivals),
            gate: behaviour
                .gate
                .clone()
                .unwrap_or_else(|| Arc::new(Semaphore::new(0))),
            server: Server::start(root.path(), behaviour).await.unwrap(),
            root,
        }
    }

    /// Releases all held uploads and holds none from then on.
    pub(crate) fn open(&self) {
        self.gate.add_permits(1_000_000);
    }

    /// Returns a command that uploads to this server.
    pub(crate) fn program(&self, bucket: &str) -> Command {
        let mut command = at(&self.server.endpoint(), bucket);
        command.args(["--part-size", &PART_MIB.to_string()]);
        command
    }

    /// Returns the key and the content of every object.
    pub(crate) fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        contents(&self.server.objects())
    }

    /// Returns the names of leftovers of multipart uploads.
    pub(crate) fn left_behind(&self) -> Vec<String> {
        fs::read_dir(self.root.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.starts_with(".upload") || name.starts_with(".tmp"))
            .collect()
    }
}

/// Returns a command that uploads to a server that accepts the embedded server's credentials.
pub(crate) fn at(endpoint: &str, bucket: &str) -> Command {
    let mut command = program();
    command
        .args(["--json", "--endpoint", endpoint, "--bucket", bucket])
        .env("AWS_ACCESS_KEY_ID", ACCESS_KEY)
        .env("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
        .env("AWS_REGION", "us-east-1");
    command
}

/// Returns the files of a directory at every depth: their names with `/`, and their contents.
pub(crate) fn contents(root: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                directories.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap();
                found.insert(name.replace('\\', "/"), fs::read(&path).unwrap());
            }
        }
    }
    found
}

/// Returns the objects of an embedded server that was told to store them in `store`.
pub(crate) fn stored(store: &Path) -> BTreeMap<String, Vec<u8>> {
    contents(&store.join(BUCKET))
}

/// Makes a directory with `count` small files of different lengths, the first one empty.
pub(crate) fn small_files(count: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for index in 0..count {
        let content = vec![index as u8; 37 * index];
        fs::write(directory.path().join(format!("file-{index:03}")), content).unwrap();
    }
    directory
}

/// Makes a directory with `count` files of length `len`.
pub(crate) fn equal_files(count: usize, len: usize) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    for index in 0..count {
        let content = vec![index as u8; len];
        fs::write(directory.path().join(format!("file-{index:03}")), content).unwrap();
    }
    directory
}

/// Adds a file of two whole parts and a smaller one.
pub(crate) fn add_large(directory: &Path) -> PathBuf {
    let path = directory.join("large");
    let len = 2 * PART_MIB * 1024 * 1024 + 12_345;
    let mut content = Vec::new();
    for end in (1000..=len).step_by(1000).chain([len]) {
        content.resize(end, (end / 1000) as u8);
    }
    fs::write(&path, content).unwrap();
    path
}

/// The throttles of the program, in their order.
pub(crate) const THROTTLES: [&str; 6] = [
    "semaphore",
    "pool",
    "channel",
    "tokio",
    "async-lock",
    "condvar",
];

/// Generates a test for each pair of a function, which takes the name of a throttle, and a throttle.
macro_rules! with_each_throttle {
    (@ $module:ident $throttle:literal; $($(#[$attribute:meta])* $test:ident),+) => {
        mod $module {
            $(
                $(#[$attribute])*
                #[tokio::test(flavor = "multi_thread")]
                async fn $test() {
                    super::$test($throttle).await;
                }
            )+
        }
    };
    ($($tests:tt)+) => {
        with_each_throttle!(@ semaphore "semaphore"; $($tests)+);
        with_each_throttle!(@ pool "pool"; $($tests)+);
        with_each_throttle!(@ channel "channel"; $($tests)+);
        with_each_throttle!(@ tokio_semaphore "tokio"; $($tests)+);
        with_each_throttle!(@ async_lock "async-lock"; $($tests)+);
        with_each_throttle!(@ condvar "condvar"; $($tests)+);
    };
}

#[test]
fn every_throttle_is_tested() {
    let kinds = ThrottleKind::value_variants().iter();
    let names: Vec<_> = kinds.map(ToString::to_string).collect();
    assert_eq!(names, THROTTLES);
}
