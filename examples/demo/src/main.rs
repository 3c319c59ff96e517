//! Serves the demonstration until Ctrl-C, or checks it. See `--help`.
//!
//! Exit codes: 0 when it ended as asked, 1 when a check or a panel failed or the server could not
//! start, 2 when the command line is wrong.

use std::env;
use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Duration;

use clap::Parser;
use demo::app::{App, Server};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tollgate::Clock;

/// The time that requests have to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);

/// Shows tollgate at work on a page, and prints its URL.
#[derive(Clone, Debug, Parser)]
#[command(name = "demo", version)]
struct Args {
    /// The port of 127.0.0.1 to serve on; 0 means any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,

    /// Test the page in a headless browser and under load, and exit with 0 if every check passes; needs cargo and the
    /// sources of this program
    #[arg(long, conflicts_with = "port")]
    check: bool,

    /// Save screenshots of the page to this directory
    #[arg(long, value_name = "DIR", requires = "check")]
    screenshots: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Args::parse()).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn run(args: Args) -> io::Result<ExitCode> {
    if args.check {
        return check(args.screenshots);
    }
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })?;
    let address = listener.local_addr()?;
    let mut server = Server::start(listener, App::start(Clock::system()));
    // Not `println!`, which panics when stdout is closed.
    let mut stdout = io::stdout();
    writeln!(stdout, "http://{address}/").and_then(|()| stdout.flush())?;

    let ended = tokio::select! {
        ended = ctrl_c() => ended,
        error = server.failed() => Err(io::Error::other(format!("a panel has failed: {error}"))),
    };
    server.stop(GRACE).await;
    ended.map(|()| ExitCode::SUCCESS)
}

/// Runs the check of the page. It is a program of its own, because the browser driver takes longer to build than
/// everything else. On Unix it replaces this process, and receives its signals.
fn check(screenshots: Option<PathBuf>) -> io::Result<ExitCode> {
    const MANIFEST: &str = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tools/browser/Cargo.toml"
    );
    let mut check = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    check.args(["run", "--release", "--manifest-path", MANIFEST, "--"]);
    if let Some(folder) = screenshots {
        check.arg("--screenshots").arg(folder);
    }
    check.arg("demo");
    let wrong = |error: io::Error| {
        let text = format!("cannot run cargo for {MANIFEST}: {error}");
        io::Error::new(error.kind(), text)
    };
    #[cfg(unix)]
    return Err(wrong(std::os::unix::process::CommandExt::exec(&mut check)));
    #[cfg(not(unix))]
    Ok(if check.status().map_err(wrong)?.success() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
