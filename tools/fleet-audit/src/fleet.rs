//! Starts the processes of the fleet, and collects their reports.
//!
//! They begin together, once all are ready, and end by one clock, at a time that may be postponed.

use std::error::Error;
use std::process::Stdio;
use std::time::{Duration, SystemTime};

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;

use crate::report::Report;

pub(crate) struct Fleet {
    address: String,
    nodes: Vec<Node>,
    /// The reports of the processes that were killed.
    said: Vec<Said>,
    end: u64,
}

/// The reports of a process until it ended.
pub(crate) struct Said {
    pub(crate) reports: Vec<Report>,
    pub(crate) ended: u64,
}

struct Node {
    child: Child,
    input: ChildStdin,
    reports: JoinHandle<Result<Vec<Report>, String>>,
}

impl Fleet {
    /// Starts `nodes` processes, and waits until all are ready.
    pub(crate) async fn start(address: String, nodes: usize) -> Result<Self, Box<dyn Error>> {
        let mut fleet = Self {
            address,
            nodes: Vec::new(),
            said: Vec::new(),
            end: 0,
        };
        for _ in 0..nodes {
            let node = fleet.node().await?;
            fleet.nodes.push(node);
        }
        Ok(fleet)
    }

    /// Starts a process with the options of this process.
    async fn node(&self) -> Result<Node, Box<dyn Error>> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["node", "--redis", &self.address])
            .args(std::env::args().skip(1))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err("a process of the fleet has no pipes".into());
        };
        let mut lines = BufReader::new(output).lines();
        if lines.next_line().await? != Some(Report::Ready.to_string()) {
            return Err("a process of the fleet is not ready".into());
        }
        Ok(Node {
            child,
            input,
            reports: tokio::spawn(collect(lines)),
        })
    }

    /// Lets the processes continue until `end`, or until another time is set.
    pub(crate) async fn go_on(&mut self, end: u64) {
        self.end = end;
        for node in &mut self.nodes {
            node.go_on(end).await;
        }
    }

    /// Kills one process, and starts another.
    pub(crate) async fn replace_one(&mut self) -> Result<(), Box<dyn Error>> {
        let mut node = self.nodes.remove(0);
        // It was certainly alive until then.
        let ended = now();
        node.child.kill().await?;
        let reports = node.reports.await??;
        self.said.push(Said { reports, ended });
        let mut node = self.node().await?;
        node.go_on(self.end).await;
        self.nodes.push(node);
        Ok(())
    }

    /// Stops one process for a time.
    pub(crate) async fn pause_one(&mut self, time: Duration) -> Result<(), Box<dyn Error>> {
        let node = self.nodes.first().and_then(|node| node.child.id());
        let id = node.ok_or("there is no process to be stopped")?.to_string();
        for (signal, time) in [("-STOP", time), ("-CONT", Duration::ZERO)] {
            if !Command::new("kill")
                .args([signal, &id])
                .status()
                .await?
                .success()
            {
                return Err("a process of the fleet cannot be stopped".into());
            }
            tokio::time::sleep(time).await;
        }
        Ok(())
    }

    /// Returns the reports of all processes, once they have ended.
    pub(crate) async fn end(mut self) -> Result<Vec<Said>, Box<dyn Error>> {
        for mut node in self.nodes {
            let reports = node.reports.await??;
            if !node.child.wait().await?.success() {
                return Err("a process of the fleet failed".into());
            }
            let ended = now();
            self.said.push(Said { reports, ended });
        }
        Ok(self.said)
    }
}

impl Node {
    async fn go_on(&mut self, end: u64) {
        // It may have ended by itself; the end checks how.
        let _ = self.input.write_all(format!("{end}\n").as_bytes()).await;
    }
}

/// Reads continuously; otherwise a process would block on its output.
async fn collect(mut lines: Lines<BufReader<ChildStdout>>) -> Result<Vec<Report>, String> {
    let mut reports = Vec::new();
    while let Some(line) = lines.next_line().await.map_err(|error| error.to_string())? {
        reports.push(line.parse()?);
    }
    Ok(reports)
}

// Microseconds of the clock that all processes of a machine share, including the server.

pub(crate) fn now() -> u64 {
    of(SystemTime::now())
}

pub(crate) fn of(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    micros(since.unwrap_or_default())
}

pub(crate) fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// Returns the time until then.
pub(crate) fn until(micros: u64) -> Duration {
    Duration::from_micros(micros.saturating_sub(now()))
}

pub(crate) fn seconds(micros: u64) -> f64 {
    micros as f64 / 1e6
}
