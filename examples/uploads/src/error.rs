//! Why the whole job could not be done. What goes wrong with one file is a
//! [`Failure`](crate::failure::Failure), and the others go on.

use std::error;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::failure::explain;

/// Why the job did not start, or its result could not be handed over.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The directory to upload cannot be read.
    Directory {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No temporary directory, or none of the generated files in it, could be written.
    Generate {
        /// Why.
        source: io::Error,
    },
    /// The embedded server did not start.
    Server {
        /// Why.
        source: io::Error,
    },
    /// The threads that a throttle needs did not start.
    Threads {
        /// Why.
        source: io::Error,
    },
    /// The address of the Redis server is none.
    Redis {
        /// Why.
        source: tollgate_redis::StoreError,
    },
    /// There are no credentials for the server.
    Credentials {
        /// Why.
        source: object_store::Error,
    },
    /// No connection to the server was made in time.
    Unreachable {
        /// Which one.
        endpoint: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The server did not answer a request in time. Whether it accepts connections is known only if
    /// that was more than the 5 s that a connection may take.
    Silent {
        /// Which one.
        endpoint: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The client could not be set up.
    Client {
        /// Why.
        source: object_store::Error,
    },
    /// The plot could not be drawn.
    Plot {
        /// Where it was to be.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The report could not be written to stdout.
    Output {
        /// Why.
        source: io::Error,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Directory { path, source } => {
                write!(f, "cannot read the directory {}: {source}", path.display())
            }
            Error::Generate { source } => {
                write!(f, "cannot write the files to be uploaded: {source}")
            }
            Error::Server { source } => write!(f, "cannot start the embedded server: {source}"),
            Error::Threads { source } => {
                write!(f, "cannot start the threads of the throttle: {source}")
            }
            Error::Redis { source } => write!(f, "cannot use the Redis server: {source}"),
            Error::Credentials { source } => write!(
                f,
                "there are no credentials, as in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: {}",
                explain(source)
            ),
            Error::Unreachable { endpoint, waited } => write!(
                f,
                "the server at {endpoint} cannot be reached; given up after {} s",
                waited.as_secs()
            ),
            Error::Silent { endpoint, waited } => write!(
                f,
                "the server at {endpoint} does not answer; given up after {} s",
                waited.as_secs()
            ),
            Error::Client { source } => write!(f, "cannot set up the client: {source}"),
            Error::Plot { path, source } => {
                write!(f, "cannot write the plot {}: {source}", path.display())
            }
            Error::Output { source } => write!(f, "cannot write the report: {source}"),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Error::Directory { source, .. }
            | Error::Generate { source }
            | Error::Server { source }
            | Error::Threads { source }
            | Error::Plot { source, .. }
            | Error::Output { source } => Some(source),
            Error::Redis { source } => Some(source),
            Error::Unreachable { .. } | Error::Silent { .. } => None,
            Error::Credentials { source } | Error::Client { source } => Some(source),
        }
    }
}
