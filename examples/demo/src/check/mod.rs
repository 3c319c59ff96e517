//! Checks of a running demonstration.

mod load;

use std::net::SocketAddr;
use std::path::Path;

use crate::app::Server;

/// Runs all checks, prints a line for each, and returns whether all passed.
pub async fn run(server: &Server, address: SocketAddr, _screenshots: Option<&Path>) -> bool {
    let checks = [("load", load::run(server.app(), address).await)];
    for (name, outcome) in &checks {
        match outcome {
            Ok(measured) => println!("ok      {name}: {measured}"),
            Err(error) => println!("FAILED  {name}: {error}"),
        }
    }
    checks.iter().all(|(_, outcome)| outcome.is_ok())
}
