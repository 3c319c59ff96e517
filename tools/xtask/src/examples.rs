//! Checks whether the short examples print the expected text, and are short.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use regex::Regex;
use xshell::{Shell, cmd};

use crate::workspace::members;

/// The maximum number of lines of an example.
const MOST: usize = 31;

/// A program, and a line that it prints.
const PRINTED: &str = r"
hello: ^downloading file 10$
join_set: ^5500 bytes$
buffer_pool: ^4950 bytes in 4 buffers$
static_semaphore: ^[0-9]+ and [0-9]+ lines$
thread_pool: ^20: Ok\(400\)$
polite_client: ^20 polite requests$
blocking_requests: ^[0-9]+ requests, in no second more than 10$
shut_out_abuser: ^\[7\] refused 5300 times$
adaptive_backend: ^p99 [0-9]+ms, then [0-9]+ms at [0-9]+; fixed [0-9]+ms$
axum_users: ^.200, 200, 429, 200, 429, 200.$
axum_full: ^41 users, 0 of 30 left$
tonic_limit: ^The quota is exceeded$
tonic_connections: ^client 3: 0 slots left$
hyper_connections: ^client 3: [0-9]+ bytes, 0 slots left$
holders: ^held for 60s: crates/tollgate-observe/examples/holders.rs:16:[0-9]+$
prometheus: ^[0-9]+ lines$
eight_processes: ^40 calls in [0-9]+ ms$
fleet_without_store: ^504 of 508 in ten seconds$
adaptive_client: ^found in [0-9]+ s, with [0-9]+ refusals$
tenants: ^99th percentile: 10 ms alone, 11 ms fair, [0-9]{3} ms in one queue$
interactive_before_batch: ^people wait 40 ms at most, the batch takes 1260 ms$
pauses_client: ^20 pages, 21 requests$
client: ^the squares sum up to 40425$
crawler: ^20 pages, one at once from each host$
pages: ^.1, 10, 2, 20, 3, 30, 4, 40, 5, 50.$
smol_tasks: ^the squares sum up to 2470$
restart: ^30 of 150 calls in 15 starts$
daily_quota: ^.360, 1000, 1000, 1000, 60. mails until 2027-03-30
config: ^TOML parse error at line 4, column 9: a window or a log allows its whole count at once, but
config: ^4 uploads; .10, 50. left$
";

pub(crate) fn examples(shell: &Shell) -> Result<bool> {
    let adapters = [
        "adaptive", "detector", "file", "io", "observe", "reqwest", "tower",
    ];
    let adapters = adapters.map(|name| format!("-ptollgate-{name}"));
    cmd!(shell, "cargo build --examples --all-features").run()?;
    cmd!(shell, "cargo build {adapters...} --examples --all-features").run()?;
    cmd!(shell, "cargo build -p operate --examples").run()?;
    let programs = members(shell)?.target_directory.join("debug/examples");
    let (readme, hello) = ("README.md", "examples/hello.rs");
    let (page, program) = (shell.read_file(readme)?, shell.read_file(hello)?);
    let first = page.split("\n```").find(|block| block.starts_with("rust"));
    let is_hello = first.is_some_and(|block| block.ends_with(&format!("\n{}", program.trim_end())));
    ensure!(is_hello, "the first program of {readme} is not {hello}");
    for (name, line) in PRINTED.lines().filter_map(|row| row.split_once(": ")) {
        let program = programs.join(name);
        let printed = cmd!(shell, "{program}").quiet().read()?;
        println!("{name}: {printed}");
        let is_printed = Regex::new(&format!("(?m){line}"))?.is_match(&printed);
        ensure!(is_printed, "no line is {line}");
    }
    interrupt(programs.join("ctrl_c").as_std_path())?;
    let mut folders = vec!["examples".into(), "examples/operate/examples".into()];
    for package in shell.read_dir("crates")? {
        folders.push(package.join("examples"));
    }
    for folder in folders.into_iter().filter(|path| shell.path_exists(path)) {
        for path in shell.read_dir(folder)?.iter().filter(|path| path.is_file()) {
            let (path, lines) = (path.display(), shell.read_file(path)?.lines().count());
            ensure!(lines <= MOST, "{path} has {lines} lines, at most {MOST}");
        }
    }
    Ok(true)
}

/// Interrupts a program when it has printed a line and listens for the signal. Another thread begins
/// to listen.
fn interrupt(program: &Path) -> Result<()> {
    let mut running = Command::new(program).stdout(Stdio::piped()).spawn()?;
    let mut printed = BufReader::new(running.stdout.take().context("it is piped")?);
    let (mut first, mut last) = (String::new(), String::new());
    printed.read_line(&mut first)?;
    let id = running.id().to_string();
    // The second bit belongs to the signal.
    let listens = Regex::new("(?m)^SigCgt:.*[2367abef]$")?;
    while !listens.is_match(&std::fs::read_to_string(format!("/proc/{id}/status"))?) {
        let ended = running.try_wait()?;
        ensure!(ended.is_none(), "ctrl_c ended before it was interrupted");
    }
    Command::new("kill").args(["-INT", &id]).status()?;
    printed.read_to_string(&mut last)?;
    ensure!(running.wait()?.success(), "ctrl_c failed");
    println!("ctrl_c: {} / {}", first.trim_end(), last.trim_end());
    let is_last = last == "1 done, 99 cancelled\n";
    ensure!(is_last, "ctrl_c did not cancel the rest");
    Ok(())
}
