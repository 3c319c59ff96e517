//! Serves the demonstration until Ctrl-C, or checks it. See `--help`.
//!
//! Exit codes: 0 when it ended as asked, 1 when a check or a panel failed or the server could not
//! start, 2 when the command line is wrong.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use demo::app::{App, Server};
use demo::check;
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tollgate::Clock;

/// How long requests may take to end after Ctrl-C.
const GRACE: Duration = Duration::from_secs(3);

/// Shows tollgate at work on a page, and prints its URL.
#[derive(Clone, Debug, Parser)]
#[command(name = "demo", version)]
struct Args {
    /// The port of 127.0.0.1 to serve on; 0 is any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,

    /// Test the page in a headless browser and under load, and exit with 0 if all is well
    #[arg(long)]
    check: bool,

    /// Save what the page looks like to this directory
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
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, args.port));
    let listener = TcpListener::bind(address).await.map_err(|error| {
        io::Error::new(error.kind(), format!("cannot listen on {address}: {error}"))
    })?;
    let address = listener.local_addr()?;
    let mut server = Server::start(listener, App::start(Clock::system()));
    // Not `println!`, which panics when stdout is closed.
    let mut stdout = io::stdout();
    writeln!(stdout, "http://{address}/").and_then(|()| stdout.flush())?;

    let app = Arc::clone(server.app());
    let ended = async {
        if args.check {
            Ok(check::run(&app, address, args.screenshots.as_deref()).await)
        } else {
            ctrl_c().await.map(|()| true)
        }
    };
    let passed = tokio::select! {
        passed = ended => passed,
        error = server.failed() => Err(io::Error::other(format!("a panel has failed: {error}"))),
    };
    server.stop(GRACE).await;
    Ok(if passed? {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
