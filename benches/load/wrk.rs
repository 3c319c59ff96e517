//! wrk as a child process, with a script that gives each request a network.
//!
//! The networks come in an order without repetition: the k-th request is from the network `k *
//! STRIDE` modulo their number. One request in a hundred comes from one of ten hot networks instead.

use std::error::Error;
use std::net::SocketAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::{Child, Command};

/// A prime, so that it has no factor in common with the number of networks unless that number is a
/// multiple of it. Its product with 100,000,000 is exact in a double, the number type of Lua.
const STRIDE: u64 = 6_700_417;

/// The script prints a line that begins with [`MARK`].
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/load/wrk.lua");

const MARK: &str = "measured";

/// The results of a run of wrk. Times are in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    /// The position at which the next run continues.
    pub(super) position: u64,
    pub(super) requests: u64,
    pub(super) duration: u64,
    pub(super) median: u64,
    pub(super) p99: u64,
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
            failed: next()?,
        })
    }
}

/// The requests to make.
pub(super) struct Load {
    pub(super) networks: u32,
    pub(super) connections: u32,
    /// The starting position in the order of the networks.
    pub(super) position: u64,
}

/// A running wrk. Dropping it kills the process.
pub(super) struct Wrk(Child);

impl Wrk {
    /// One thread, because each has a script of its own.
    pub(super) fn start(
        server: SocketAddr,
        load: &Load,
        duration: Duration,
    ) -> Result<Self, Box<dyn Error>> {
        let order = [load.position, STRIDE, u64::from(load.networks)];
        let child = Command::new("wrk")
            .args(["--threads", "1", "--timeout", "60s"])
            .args(["--connections", &load.connections.to_string()])
            .args(["--duration", &format!("{}s", duration.as_secs())])
            .args(["--script", SCRIPT, &format!("http://{server}/"), "--"])
            .args(order.map(|number| number.to_string()))
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| format!("cannot start wrk (the package wrk of Debian): {error}"))?;
        Ok(Self(child))
    }

    /// Waits until the process has ended.
    pub(super) async fn measured(self) -> Result<Measured, Box<dyn Error>> {
        let output = self.0.wait_with_output().await?;
        let text = String::from_utf8_lossy(&output.stdout);
        Measured::parse(&text).ok_or_else(|| format!("wrk printed no figures: {text}").into())
    }

    /// Kills the process, so that all its connections close at once.
    pub(super) async fn kill(mut self) -> Result<(), Box<dyn Error>> {
        Ok(self.0.kill().await?)
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
            failed: 0,
        };
        let output = "Running 2s test\nmeasured 99 100 2000000 40 50 0\n";
        assert_eq!(Measured::parse(output), Some(measured));
        assert_eq!(Measured::parse("measured 99 100\n"), None);
        assert_eq!(Measured::parse(""), None);
    }
}
