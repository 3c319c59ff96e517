//! Children: this program again, in a role. A role is a test that does nothing in the parent.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write, stdin};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll, Waker};

use tollgate::wait::Waiting;
use tollgate_file::{FileLimiter, FileSemaphore};

/// A child process, which is killed when this is dropped.
pub(crate) struct Process {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
}

impl Process {
    pub(crate) fn start(role: &str, arguments: &[&Path]) -> Self {
        Self::start_program(Command::new(env::current_exe().unwrap()), role, arguments)
    }

    pub(crate) fn start_program(mut program: Command, role: &str, arguments: &[&Path]) -> Self {
        program.args(["child::process", "--exact", "--nocapture"]);
        program.env("ROLE", role);
        for (index, argument) in arguments.iter().enumerate() {
            program.env(format!("ROLE_{index}"), argument);
        }
        let program = program.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = program.spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line that the role prints, after its mark.
    pub(crate) fn line(&mut self) -> String {
        loop {
            let mut line = String::new();
            let read = self.lines.read_line(&mut line).unwrap();
            assert!(read > 0, "the child has ended");
            if let Some((_, line)) = line.trim_end().split_once("> ") {
                return line.to_string();
            }
        }
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, name: &str) {
        let mut kill = Command::new("kill");
        let kill = kill.arg(format!("-{name}")).arg(self.id().to_string());
        assert!(kill.status().unwrap().success());
    }

    /// Lets the role end, and waits for that.
    pub(crate) fn end(mut self) {
        drop(self.child.stdin.take());
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Appends a line to a file that several processes write, in one call.
pub(crate) fn log(path: &Path, line: &str) {
    let mut options = OpenOptions::new();
    let mut file = options.append(true).create(true).open(path).unwrap();
    file.write_all(format!("{line}\n").as_bytes()).unwrap();
}

/// Waits until a condition is true.
pub(crate) fn wait_until(mut is_true: impl FnMut() -> bool) {
    while !is_true() {
        std::thread::yield_now();
    }
}

fn path(index: u32) -> PathBuf {
    env::var_os(format!("ROLE_{index}")).unwrap().into()
}

fn say(line: &str) {
    println!("> {line}");
}

/// Plays the role that the environment names; in the parent, there is none.
#[test]
fn process() {
    let Ok(role) = env::var("ROLE") else { return };
    let id = std::process::id();
    match role.as_str() {
        // Holds the lock of a file.
        "lock" => {
            let file = File::open(path(0)).unwrap();
            file.try_lock().unwrap();
            say("locked");
            wait_for_end();
        }
        // Takes a permit, and keeps it.
        "permit" => {
            let semaphore = FileSemaphore::open(path(0), 1).unwrap();
            let mut acquire = Box::pin(semaphore.acquire());
            let mut context = Context::from_waker(Waker::noop());
            let permit = match acquire.as_mut().poll(&mut context) {
                Poll::Ready(permit) => permit.unwrap(),
                Poll::Pending => {
                    say("waits");
                    Waiting::new(acquire).wait().unwrap()
                }
            };
            say("acquired");
            wait_for_end();
            drop(permit);
        }
        // Takes permits and returns them until it is killed.
        "permits" => {
            let semaphore = FileSemaphore::open(path(0), super::permits::PERMITS).unwrap();
            loop {
                let permit = semaphore.acquire().wait().unwrap();
                log(&path(1), &format!("enter {id}"));
                std::thread::yield_now();
                log(&path(1), &format!("leave {id}"));
                drop(permit);
            }
        }
        // Takes units until it is killed.
        "units" => {
            let limiter = FileLimiter::open(path(0), super::rates::QUOTA).unwrap();
            loop {
                let charge = limiter.acquire().wait().unwrap();
                log(&path(1), &charge.at().as_nanos().to_string());
            }
        }
        // Opens a limiter, and tells the error.
        "open" => {
            let opened = FileLimiter::open(path(0), super::rates::QUOTA);
            say(&format!("{:?}", opened.map_err(|error| error.kind()).err()));
        }
        other => panic!("there is no role {other}"),
    }
}

fn wait_for_end() {
    stdin().read_to_end(&mut Vec::new()).unwrap();
}
