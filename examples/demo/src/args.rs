//! The command line.

use std::path::PathBuf;

use clap::Parser;

/// Shows tollgate at work on a page, and prints its URL.
#[derive(Clone, Debug, Parser)]
#[command(name = "demo", version)]
pub struct Args {
    /// The port of 127.0.0.1 to serve on; 0 is any free one
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub port: u16,

    /// Test the page in a headless browser and under load, and exit with 0 if all is well
    #[arg(long)]
    pub check: bool,

    /// Save what the page looks like to this directory
    #[arg(long, value_name = "DIR", requires = "check")]
    pub screenshots: Option<PathBuf>,
}
