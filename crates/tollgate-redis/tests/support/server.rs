//! A server of one's own, on a free port of loopback, which ends with the test.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use tollgate_redis::Store;

/// What a server is started with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) arguments: Vec<String>,
    pub(crate) environment: Vec<(String, String)>,
}

pub(crate) struct Server {
    child: Option<Child>,
    setup: Setup,
    folder: TempDir,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(Setup::default())
    }

    pub(crate) fn with(arguments: &[&str]) -> Self {
        Self::start_with(Setup {
            arguments: arguments.iter().map(ToString::to_string).collect(),
            ..Setup::default()
        })
    }

    pub(crate) fn start_with(setup: Setup) -> Self {
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

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Only inside a runtime.
    pub(crate) fn store(&self) -> Store {
        Store::new(&self.address()).unwrap()
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// At once, as a crash would: all that it held is lost.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }

    /// Again, on the same port, empty.
    pub(crate) fn restart(&mut self) {
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

    /// A connection of the test's own, to look and to meddle.
    pub(crate) fn connection(&self) -> redis::Connection {
        let client = redis::Client::open(self.address()).unwrap();
        client.get_connection().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

pub(crate) fn free_port() -> u16 {
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
