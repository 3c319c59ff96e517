//! Starts a private server on a free port of loopback, which ends with the program that started it, and a
//! private [network](proxy) to it.
//!
//! It panics on every error: it is for tests and measurements.

pub mod proxy;

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use tempfile::TempDir;
use tollgate_redis::Store;

/// GCRA in a few lines, to compare with: in arrival times, by the server's clock. The arguments are the interval and the burst
/// tolerance in microseconds, and the time after which the key expires in milliseconds. The reply is 1, or 0 for a denial.
pub const PLAINEST_GCRA: &str = "
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local next = tonumber(redis.call('GET', KEYS[1]) or now)
if next < now then next = now end
if next - now > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], string.format('%.3f', next + ARGV[1]), 'PX', ARGV[3])
return 1";

/// The settings of a server.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// The text of a configuration file, if there is one, which the server may write to.
    pub configuration: Option<String>,
    /// The arguments beyond the port and the option to keep no files.
    pub arguments: Vec<String>,
    /// The variables beyond those of this process.
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
    /// Starts a server with the default settings.
    pub fn start() -> Self {
        Self::start_with(Setup::default())
    }

    /// Starts a server with these arguments.
    pub fn with(arguments: &[&str]) -> Self {
        Self::start_with(Setup {
            arguments: arguments.iter().map(ToString::to_string).collect(),
            ..Setup::default()
        })
    }

    /// Starts a server with this setup.
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

    /// Starts a server on a chosen port. Returns `None` if the port is taken.
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

    /// Returns the port of the server.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL for clients.
    pub fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Returns a store with a deadline that suits even slow machines. Call it only inside a runtime.
    pub fn store(&self) -> Store {
        let store = Store::new(&self.address()).unwrap();
        store.deadline(Duration::from_secs(20))
    }

    /// Returns the remaining lifetime of a key.
    pub fn time_to_live(&self, key: &str) -> Duration {
        let millis: u64 = redis::cmd("PTTL")
            .arg(key)
            .query(&mut self.connection())
            .unwrap();
        Duration::from_millis(millis)
    }

    /// Returns the ID of the server's process.
    pub fn process_id(&self) -> u32 {
        self.child.as_ref().expect("it runs").server.id()
    }

    /// Kills the server at once, like a crash: all its data are lost.
    pub fn kill(&mut self) {
        drop(self.child.take());
    }

    /// Starts the server again, on the same port, empty.
    pub fn restart(&mut self) {
        self.kill();
        // A server that returns on a port that was just in use may have to wait for it.
        for _ in 0..100 {
            if let Some(child) = launch(&self.setup, &self.folder, self.port) {
                self.child = Some(child);
                return;
            }
        }
        panic!("redis-server does not come back on port {}", self.port);
    }

    /// Stops the server, as if its machine were overloaded. Connections stay open, and new ones are accepted.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// Lets a stopped server continue.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let mut kill = Command::new("kill");
        kill.args([signal, &self.process_id().to_string()]);
        assert!(kill.status().unwrap().success());
    }

    /// Returns a separate connection for the test, to inspect and to change data.
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

/// Returns the connection to the one server of this program, for cases that are run one after the other.
pub fn shared_connection() -> MutexGuard<'static, redis::Connection> {
    static CONNECTION: OnceLock<(Mutex<redis::Connection>, Mutex<Server>)> = OnceLock::new();
    let (connection, _) = CONNECTION.get_or_init(|| {
        let server = Server::start();
        (Mutex::new(server.connection()), Mutex::new(server))
    });
    connection.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A server's process, which is killed on drop, and also if the program that
/// started it ends without that.
#[derive(Debug)]
struct Process {
    server: Child,
    /// Waits for the end of its input, which is also the end of the program that
    /// started it, whatever the cause.
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
        // The guard is killed first, because afterwards the number may belong to another process.
        for child in [&mut self.guard, &mut self.server] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Returns a port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Returns a server that is ready to answer, or `None` if it ended instead.
fn launch(setup: &Setup, folder: &TempDir, port: u16) -> Option<Process> {
    let mut command = Command::new("redis-server");
    if let Some(configuration) = &setup.configuration {
        let file = folder.path().join("redis.conf");
        std::fs::write(&file, configuration).unwrap();
        command.arg(file);
    }
    let child = command
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
        // The second line is that of a sentinel.
        if line.contains("Ready to accept connections") || line.contains("Sentinel ID is") {
            // A thread must continue to read, or the server would block on its output.
            std::thread::spawn(move || std::io::copy(&mut lines.by_ref(), &mut std::io::sink()));
            return Some(process);
        }
        line.clear();
    }
    None
}
