//! A server of one's own, on a free port of loopback, which ends with the program that started it; and a
//! [network](proxy) of one's own to it.
//!
//! It panics where something goes wrong: it is for tests and measurements.

pub mod proxy;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_redis::Store;

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Of its command line, beyond the port and that it keeps no files.
    pub arguments: Vec<String>,
    /// Variables beyond those of this process.
    pub environment: Vec<(String, String)>,
}

/// A running server.
#[derive(Debug)]
pub struct Server {
    child: Option<Process>,
    setup: Setup,
    folder: TempDir,
    port: u16,
}

impl Server {
    /// With nothing special.
    pub fn start() -> Self {
        Self::start_with(Setup::default())
    }

    /// With these arguments.
    pub fn with(arguments: &[&str]) -> Self {
        Self::start_with(Setup {
            arguments: arguments.iter().map(ToString::to_string).collect(),
            ..Setup::default()
        })
    }

    /// With this setup.
    pub fn start_with(setup: Setup) -> Self {
        let folder = tempfile::tempdir().unwrap();
        // Another process may take the port before the server does.
        for _ in 0..10 {
            let port = free_port();
            if let Some(child) = launch(&setup, &folder, port) {
                return Self {
                    child: Some(child),
                    setup,
                    folder,
                    port,
                };
            }
        }
        panic!("redis-server does not start on any of ten free ports");
    }

    /// On a port that was chosen. None if it is taken.
    pub fn start_on(port: u16, setup: Setup) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let child = launch(&setup, &folder, port)?;
        Some(Self {
            child: Some(child),
            setup,
            folder,
            port,
        })
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// As clients have it.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// With a deadline that no machine is too slow for. Only inside a runtime.
    pub fn store(&self) -> Store {
        let store = Store::new(&self.address()).unwrap();
        store.deadline(Duration::from_secs(20))
    }

    /// For how long a key is kept yet.
    pub fn time_to_live(&self, key: &str) -> Duration {
        let millis: u64 = redis::cmd("PTTL")
            .arg(key)
            .query(&mut self.connection())
            .unwrap();
        Duration::from_millis(millis)
    }

    /// Of its process.
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().expect("it runs").server.id()
    }

    /// At once, as a crash would: all that it held is lost.
    pub fn kill(&mut self) {
        drop(self.child.take());
    }

    /// Again, on the same port, empty.
    pub fn restart(&mut self) {
        self.kill();
        // What comes back on a port that was just in use may have to wait for it.
        for _ in 0..100 {
            if let Some(child) = launch(&self.setup, &self.folder, self.port) {
                self.child = Some(child);
                return;
            }
        }
        panic!("redis-server does not come back on port {}", self.port);
    }

    /// It holds still, as if its machine were overloaded. Connections stand, and are made.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// After it held still.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([signal, &self.process_id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// A connection of the test's own, to look and to meddle.
    pub fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.address()).unwrap();
        client.get_connection().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A server's process, which is killed when this is dropped, and also if the program that
/// started it ends without that.
#[derive(Debug)]
struct Process {
    server: Child,
    /// Waits for the end of its input, which the end of the program that
    /// started it is too, however that comes.
    guard: Child,
}

impl Process {
    fn new(server: Child) -> Self {
        let guard = Command::new("sh")
            .args(["-c", "trap '' HUP INT TERM; read _; kill -9 \"$0\""])
            .arg(server.id().to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { server, guard }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // First the guard, as the process may be another one's by its number afterwards.
        for child in [&mut self.guard, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Ready to answer, or none if it ended instead.
fn launch(setup: &Setup, folder: &TempDir, port: u16) -> Option<Process> {
    let child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--daemonize", "no"])
        .arg("--dir")
        .arg(folder.path())
        .args(&setup.arguments)
        .envs(setup.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| {
            panic!("redis-server cannot be run ({error}): scripts/test installs it where it can")
        });
    let mut process = Process::new(child);
    let mut lines = BufReader::new(process.server.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line.contains("Ready to accept connections") {
            // Somebody has to read on, or the server would wait for that.
            std::thread::spawn(move || std::io::copy(&mut lines.by_ref(), &mut std::io::sink()));
            return Some(process);
        }
        line.clear();
    }
    None
}
