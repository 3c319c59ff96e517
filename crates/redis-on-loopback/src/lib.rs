//! A server of one's own, on a free port of loopback, which ends with whoever started it.
//!
//! It panics where something goes wrong: it is for tests and measurements.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

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
    child: Option<Child>,
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

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// As clients have it.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Only inside a runtime.
    pub fn store(&self) -> Store {
        Store::new(&self.address()).unwrap()
    }

    /// Of its process.
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// At once, as a crash would: all that it held is lost.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
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

    /// Sends it a signal, by its name without `SIG`.
    pub fn signal(&self, name: &str) {
        let status = Command::new("kill")
            .args([format!("-{name}"), self.process_id().to_string()])
            .status()
            .unwrap();
        assert!(status.success(), "there is no signal {name}");
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

/// Free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Ready to answer, or none if it ended instead.
fn launch(setup: &Setup, folder: &TempDir, port: u16) -> Option<Child> {
    let mut child = Command::new("redis-server")
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
    let mut lines = BufReader::new(child.stdout.take().expect("it is piped"));
    let mut line = String::new();
    while lines.read_line(&mut line).is_ok_and(|length| length > 0) {
        if line.contains("Ready to accept connections") {
            // Somebody has to read on, or the server would wait for that.
            std::thread::spawn(move || std::io::copy(&mut lines.by_ref(), &mut std::io::sink()));
            return Some(child);
        }
        line.clear();
    }
    child.wait().unwrap();
    None
}
