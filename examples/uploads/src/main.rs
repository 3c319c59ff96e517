//! Uploads files to S3 with a cap on simultaneous requests. See `--help`.
//!
//! Exit codes: 0 when every file was uploaded and its object is equal, 1 when something failed, 2 when
//! the command line is wrong, 130 after Ctrl-C.

use std::io::{self, Write};
use std::process::ExitCode;

use futures_util::future::join;
use tokio::signal::ctrl_c;
use tokio_util::sync::CancellationToken;
use uploads::app::Finished;
use uploads::args::Args;
use uploads::error::Error;
use uploads::grace::GRACE;
use uploads::plot::Plot;
use uploads::progress::say;
use uploads::report::Report;

const FAILED: u8 = 1;
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = Args::from_command_line();
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            say(&format!("error: cannot start: {error}"));
            return ExitCode::from(FAILED);
        }
    };
    let code = runtime.block_on(run_until_killed(&args));
    // After a second Ctrl-C, the user does not wait for blocked disk operations either.
    runtime.shutdown_background();
    ExitCode::from(code)
}

/// Runs the job. The first Ctrl-C cancels it; the second one abandons it immediately.
async fn run_until_killed(args: &Args) -> u8 {
    let token = CancellationToken::new();
    let killed = async {
        if ctrl_c().await.is_err() {
            // Signals are not available here.
            std::future::pending::<()>().await;
        }
        // The order matters: the program listens for the second Ctrl-C before it announces that option.
        let _ = join(ctrl_c(), async {
            token.cancel();
            say(&format!(
                "cancelling: requests in flight have {} s to finish; press Ctrl-C again to quit at once",
                GRACE.as_secs()
            ));
        })
        .await;
    };
    tokio::select! {
        biased;
        () = killed => INTERRUPTED,
        code = run(args, &token) => code,
    }
}

async fn run(args: &Args, token: &CancellationToken) -> u8 {
    let (result, failed) = match uploads::app::run(args, token).await {
        Ok(finished) => (hand_over(args, &finished), finished.report.failed > 0),
        Err(error) => (Err(error), true),
    };
    if let Err(error) = &result {
        say(&format!("error: {error}"));
    }
    match token.is_cancelled() {
        true => INTERRUPTED,
        false if failed || result.is_err() => FAILED,
        false => 0,
    }
}

/// Prints the report and draws the plot. The report is printed even if the plot cannot be drawn.
fn hand_over(args: &Args, finished: &Finished) -> Result<(), Error> {
    print(args, &finished.report)?;
    match &args.plot {
        Some(path) => Plot::new(args, finished).write(path),
        None => Ok(()),
    }
}

/// Prints the report on stdout and the failures on stderr.
fn print(args: &Args, report: &Report) -> Result<(), Error> {
    let complaints = report.complaints();
    if !complaints.is_empty() {
        say(complaints.trim_end());
    }
    let text = if args.json {
        serde_json::to_string_pretty(report).map_err(io::Error::other)
    } else {
        Ok(report.to_string())
    };
    // `println!` would panic when stdout is full or closed.
    let mut stdout = io::stdout().lock();
    text.and_then(|text| writeln!(stdout, "{text}"))
        .and_then(|()| stdout.flush())
        .map_err(|source| Error::Output { source })
}
