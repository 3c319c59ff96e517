//! A fleet on one machine: several processes share one limit, through faults, and an auditor counts
//! what they were let do.
//!
//! Every admission has the tick of the server that charged it. The auditor looks at all of them, and
//! at every window between two of them, and compares with the promise. It ends with an error if
//! more was admitted than that, or, without faults, too little.

#![forbid(unsafe_code)]

mod audit;
mod faults;
mod node;

use std::error::Error;
use std::process::{ExitCode, Stdio};
use std::time::{Duration, SystemTime};

use clap::{Args, Parser, Subcommand};
use redis_on_loopback::Server;
use tokio::io::AsyncReadExt;
use tokio::process::Command;

use crate::audit::{Audit, Promise};
use crate::faults::Happened;

#[derive(Parser)]
#[command(about)]
struct Cli {
    #[command(subcommand)]
    command: Option<Verb>,
    #[command(flatten)]
    fleet: Fleet,
}

#[derive(Subcommand)]
enum Verb {
    /// One process of the fleet: what the auditor starts.
    #[command(hide = true)]
    Node {
        /// The server.
        #[arg(long)]
        redis: String,
        #[command(flatten)]
        fleet: Fleet,
    },
}

#[derive(Args, Clone)]
struct Fleet {
    /// How many processes.
    #[arg(long, default_value_t = 4)]
    nodes: usize,
    /// How many tasks in each of them.
    #[arg(long, default_value_t = 16)]
    tasks: usize,
    /// For how long, in milliseconds.
    #[arg(long, default_value_t = 2000)]
    millis: u64,
    /// So many in a second.
    #[arg(long, default_value_t = 2000)]
    rate: u64,
    /// So many at once.
    #[arg(long, default_value_t = 100)]
    burst: u64,
    /// Each process takes so many ahead, for 20 milliseconds at most.
    #[arg(long)]
    ahead: Option<u64>,
    /// Breaks the server again and again: stops it, empties its scripts, cuts its connections,
    /// kills it.
    #[arg(long)]
    faults: bool,
    /// Reports so many admissions in a hundred twice, to see that the auditor notices.
    #[arg(long, default_value_t = 0)]
    cheat: u64,
}

impl Fleet {
    fn arguments(&self) -> Vec<String> {
        let mut arguments = Vec::new();
        let numbers = [
            ("--nodes", self.nodes as u64),
            ("--tasks", self.tasks as u64),
            ("--millis", self.millis),
            ("--rate", self.rate),
            ("--burst", self.burst),
            ("--cheat", self.cheat),
        ];
        let ahead = self.ahead.map(|ahead| ("--ahead", ahead));
        for (name, number) in numbers.into_iter().chain(ahead) {
            arguments.extend([name.to_owned(), number.to_string()]);
        }
        arguments
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let outcome = runtime.map_err(Into::into).and_then(|runtime| {
        runtime.block_on(async {
            match cli.command {
                Some(Verb::Node { redis, fleet }) => node::run(&redis, &fleet).await.map(|()| true),
                None => run(&cli.fleet).await,
            }
        })
    });
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the promise was kept.
async fn run(fleet: &Fleet) -> Result<bool, Box<dyn Error>> {
    let mut server = Server::start();
    let mut nodes = Vec::new();
    for _ in 0..fleet.nodes {
        nodes.push(
            Command::new(std::env::current_exe()?)
                .args(["node", "--redis", &server.address()])
                .args(fleet.arguments())
                .stdout(Stdio::piped())
                .kill_on_drop(true)
                .spawn()?,
        );
    }
    let end = SystemTime::now() + Duration::from_millis(fleet.millis);
    let happened = if fleet.faults {
        faults::make(&mut server, end).await?
    } else {
        Happened::default()
    };
    let mut ticks = Vec::new();
    for mut node in nodes {
        let mut report = String::new();
        if let Some(mut output) = node.stdout.take() {
            output.read_to_string(&mut report).await?;
        }
        if !node.wait().await?.success() {
            return Err("a process of the fleet failed".into());
        }
        for line in report.lines() {
            ticks.push(line.parse::<u64>()?);
        }
    }
    let promise = Promise {
        rate: fleet.rate,
        burst: fleet.burst,
        losses: happened.losses.clone(),
    };
    let audit = Audit::of(ticks, &promise);
    println!("{happened}{audit}");
    // A server that was down for half of the time cannot be used to the full.
    let used = fleet.faults || audit.utilisation() >= 0.95;
    if !used {
        println!("less than 95 % of what was promised was let go");
    }
    Ok(audit.is_kept() && used)
}
