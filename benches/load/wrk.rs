//! wrk as a child process, with a script that gives each request a network.
//!
//! The networks come in an order without repetition: the k-th request is of the network `k * STRIDE`
//! modulo their number. One request in a hundred is instead of one of ten hot networks.

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs, process};

use tokio::process::{Child, Command};

/// A prime, so that it has no factor in common with the number of networks unless that is a multiple
/// of it. Its product with 100,000,000 is exact in a double, as Lua has them.
const STRIDE: u64 = 6_700_417;

/// The first part of the line that the script prints.
const MARK: &str = "measured";

const SCRIPT: &str = r#"
local threads = {}
function setup(thread) table.insert(threads, thread) end
function init() position, calls = START, 0 end
function request()
    calls = calls + 1
    local network
    if calls % 100 == 0 then
        network = (calls / 100) % 10
    else
        network = (position * STRIDE) % NETWORKS
        position = position + 1
    end
    local high, low = math.floor(network / 65536), network % 65536
    return string.format(
        "GET / HTTP/1.1\r\nHost: test\r\nX-Forwarded-For: 2001:db8:%x:%x::1\r\n\r\n", high, low)
end
function done(summary, latency)
    local errors = summary.errors
    local failed = errors.connect + errors.read + errors.write + errors.timeout
    print(string.format("MARK %d %d %d %d %d %d %d", threads[1]:get("position"),
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        latency.max, failed))
end
"#;

/// What a run of wrk measured. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// Where the next run continues.
    pub(super) position: u64,
    pub(super) requests: u64,
    pub(super) duration: u64,
    pub(super) median: u64,
    pub(super) p99: u64,
    pub(super) most: u64,
    /// Connections and requests that failed.
    pub(super) failed: u64,
}

impl Measured {
    fn parse(output: &str) -> Option<Self> {
        let line = output.lines().find_map(|line| line.strip_prefix(MARK))?;
        let mut figures = line.split_whitespace().map(|figure| figure.parse().ok());
        let mut next = || figures.next().flatten();
        Some(Self {
            position: next()?,
            requests: next()?,
            duration: next()?,
            median: next()?,
            p99: next()?,
            most: next()?,
            failed: next()?,
        })
    }
}

/// The requests to make.
pub(super) struct Load {
    pub(super) networks: u32,
    pub(super) connections: u32,
    /// Where in the order of the networks to begin.
    pub(super) position: u64,
}

/// The script, in a file that is removed when this is dropped.
struct Script(PathBuf);

impl Script {
    fn write(load: &Load) -> std::io::Result<Self> {
        let path = env::temp_dir().join(format!("tollgate-load-{}.lua", process::id()));
        let text = SCRIPT
            .replace("START", &load.position.to_string())
            .replace("STRIDE", &STRIDE.to_string())
            .replace("NETWORKS", &load.networks.to_string())
            .replace("MARK", MARK);
        fs::write(&path, text)?;
        Ok(Self(path))
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // It is in the directory for temporary files: nobody misses anything if it stays.
        let _ = fs::remove_file(&self.0);
    }
}

/// A running wrk. It is killed when this is dropped.
pub(super) struct Wrk {
    child: Child,
    _script: Script,
}

impl Wrk {
    /// One thread, because each has a script of its own.
    pub(super) fn start(
        server: SocketAddr,
        load: &Load,
        duration: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let script = Script::write(load)?;
        let child = Command::new("wrk")
            .args(["--threads", "1", "--timeout", "60s"])
            .args(["--connections", &load.connections.to_string()])
            .args(["--duration", &format!("{}s", duration.as_secs())])
            .arg("--script")
            .arg(&script.0)
            .arg(format!("http://{server}/"))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start wrk (the package wrk of Debian): {error}"))?;
        Ok(Self {
            child,
            _script: script,
        })
    }

    /// Waits until it has ended.
    pub(super) async fn measured(self) -> Result<Measured, Box<dyn Error>> {
        let Self { child, _script } = self;
        let output = child.wait_with_output().await?;
        let text = String::from_utf8_lossy(&output.stdout);
        Measured::parse(&text).ok_or_else(|| format!("wrk printed no figures: {text}").into())
    }

    /// Kills it, so that all its connections are closed at once.
    pub(super) async fn kill(mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.child.kill().await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_finds_the_line_of_the_script() {
        let measured = Measured {
            position: 99,
            requests: 100,
            duration: 2_000_000,
            median: 40,
            p99: 50,
            most: 60,
            failed: 0,
        };
        let output = "Running 2s test\nmeasured 99 100 2000000 40 50 60 0\n";
        assert_eq!(Measured::parse(output), Some(measured));
        assert_eq!(Measured::parse("measured 99 100\n"), None);
        assert_eq!(Measured::parse(""), None);
    }
}
