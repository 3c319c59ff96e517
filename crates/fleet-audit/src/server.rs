//! The server of the fleet: a process of our own, on a free port of loopback.

use std::error::Error;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

pub(crate) struct Server {
    child: Option<Child>,
    folder: TempDir,
    port: u16,
}

impl Server {
    pub(crate) fn start() -> Result<Self, Box<dyn Error>> {
        let folder = tempfile::tempdir()?;
        // Another process may take the port before the server does.
        for _ in 0..10 {
            let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
            if let Some(child) = launch(&folder, port)? {
                return Ok(Self {
                    child: Some(child),
                    folder,
                    port,
                });
            }
        }
        Err("redis-server does not start on any of ten free ports".into())
    }

    pub(crate) fn address(&self) -> String {
        format!("redis://127.0.0.1:{}/", self.port)
    }

    /// Has the program `redis-cli` say something to it.
    pub(crate) fn say(&self, words: &[&str]) -> Result<(), Box<dyn Error>> {
        let status = Command::new("redis-cli")
            .args(["-p", &self.port.to_string()])
            .args(words)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("redis-cli fails: {words:?}").into())
        }
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, name: &str) -> Result<(), Box<dyn Error>> {
        let id = self
            .child
            .as_ref()
            .map(Child::id)
            .ok_or("it does not run")?;
        Command::new("kill")
            .args([&format!("-{name}"), &id.to_string()])
            .status()?;
        Ok(())
    }

    pub(crate) fn kill(&mut self) -> Result<(), Box<dyn Error>> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        Ok(())
    }

    /// Again, empty.
    pub(crate) fn restart(&mut self) -> Result<(), Box<dyn Error>> {
        self.kill()?;
        for _ in 0..100 {
            if let Some(child) = launch(&self.folder, self.port)? {
                self.child = Some(child);
                return Ok(());
            }
        }
        Err("redis-server does not come back".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.kill();
    }
}

fn launch(folder: &TempDir, port: u16) -> Result<Option<Child>, Box<dyn Error>> {
    let mut child = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no"])
        .arg("--dir")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| format!("redis-server cannot be run: {error}"))?;
    let Some(output) = child.stdout.take() else {
        return Err("it is piped".into());
    };
    let mut lines = BufReader::new(output);
    let mut line = String::new();
    while lines.read_line(&mut line)? > 0 {
        if line.contains("Ready to accept connections") {
            // Somebody has to read on, or the server would wait for that.
            std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
            return Ok(Some(child));
        }
        line.clear();
    }
    child.wait()?;
    Ok(None)
}
