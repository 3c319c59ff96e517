//! Defines the errors that stop the whole job, and the [`Failure`] of one file, which does not stop the
//! others.

use std::error::{self, Error as _};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};
use serde::Serialize;
use tollgate_object_store::cause;

use crate::grace::GivenUp;

/// The reason why the job did not start, or why its result could not be written.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The directory to upload cannot be read.
    Directory {
        /// The directory.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The temporary directory, or the generated files in it, could not be written.
    Generate {
        /// The cause.
        source: io::Error,
    },
    /// The embedded server did not start.
    Server {
        /// The cause.
        source: io::Error,
    },
    /// The threads that a throttle needs did not start.
    Threads {
        /// The cause.
        source: io::Error,
    },
    /// The URL of the Redis server is invalid.
    Redis {
        /// The cause.
        source: tollgate_redis::StoreError,
    },
    /// There are no credentials for the server.
    Credentials {
        /// The cause.
        source: object_store::Error,
    },
    /// No connection to the server was made in time.
    Unreachable {
        /// The URL of the server.
        endpoint: String,
        /// The time that the program waited.
        waited: Duration,
    },
    /// The server did not answer a request in time. The server is known to accept connections only if
    /// the program waited longer than the 5 s that a connection may take.
    Silent {
        /// The URL of the server.
        endpoint: String,
        /// The time that the program waited.
        waited: Duration,
    },
    /// The client could not be set up.
    Client {
        /// The cause.
        source: object_store::Error,
    },
    /// The plot could not be drawn.
    Plot {
        /// The path of the plot.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The report could not be written to stdout.
    Output {
        /// The cause.
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
                write!(f, "cannot write the generated files: {source}")
            }
            Error::Server { source } => write!(f, "cannot start the embedded server: {source}"),
            Error::Threads { source } => {
                write!(f, "cannot start the threads of the throttle: {source}")
            }
            Error::Redis { source } => write!(f, "cannot use the Redis server: {source}"),
            Error::Credentials { source } => write!(
                f,
                "no credentials, set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY: {}",
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

// Describes the failure of one file in words, and groups the files that failed in the same way.
//
// The description names the cause and not the file, so that two hundred files with the same failure
// take one line on the terminal.

/// The number of names that a group shows.
const EXAMPLES: usize = 3;
/// The maximum number of characters shown of an answer that is not in S3's format.
const LONGEST_ANSWER: usize = 200;

/// One file that was not uploaded, or whose object differs from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The key of the object, whether or not the object exists.
    pub key: String,
    /// The cause.
    pub message: String,
    /// Whether the server may have begun to create the object, so that the program must check.
    pub reached_server: bool,
}

/// Files that failed for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The cause.
    pub message: String,
    /// The number of files that failed with this cause.
    pub count: usize,
    /// The keys of the first few files.
    pub examples: Vec<String>,
}

impl Failure {
    /// Makes a failure from before anything was sent.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure {
            key: key.into(),
            message: message.into(),
            reached_server: false,
        }
    }

    /// Makes a failure of this machine to read a file or a directory.
    pub fn local(key: impl Into<String>, what: &str, error: &io::Error) -> Failure {
        Failure::new(key, format!("{what}: {error}"))
    }

    /// Makes a failure of the server, or of the connection to it.
    pub fn store(key: impl Into<String>, error: &object_store::Error) -> Failure {
        Failure {
            key: key.into(),
            message: explain(error),
            reached_server: cause(error).is_none() && !find(error).is_some_and(unconnected),
        }
    }
}

/// Groups failures by cause, the most frequent cause first.
pub fn group(failures: &[Failure]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for failure in failures {
        let group = match groups
            .iter_mut()
            .find(|group| group.message == failure.message)
        {
            Some(group) => group,
            None => {
                groups.push(Group {
                    message: failure.message.clone(),
                    count: 0,
                    examples: Vec::new(),
                });
                groups.last_mut().expect("one was just added")
            }
        };
        group.count += 1;
        if group.examples.len() < EXAMPLES {
            group.examples.push(failure.key.clone());
        }
    }
    groups.sort_by_key(|group| std::cmp::Reverse(group.count));
    groups
}

/// Returns the cause of a store's error without the parts that differ between files: URL, time and retries.
pub fn explain(error: &object_store::Error) -> String {
    // A limit did not admit the request.
    if let Some(cause) = cause(error) {
        return cause.to_string();
    }
    if let Some(given_up) = find::<GivenUp>(error) {
        return given_up.to_string();
    }
    let deepest = deepest(error).to_string();
    match find::<HttpError>(error) {
        // The server answered, or no request was made.
        None => server_said(&deepest),
        Some(error) if unconnected(error) => format!("the server cannot be reached: {deepest}"),
        Some(error) if error.kind() == HttpErrorKind::Timeout => {
            "the server does not answer in time".to_owned()
        }
        Some(_) => format!("the server broke off: {deepest}"),
    }
}

/// Describes the answer of an S3 server, using its `Code` and `Message`.
fn server_said(answer: &str) -> String {
    match (element(answer, "Code"), element(answer, "Message")) {
        (Some(code), Some(message)) => format!("the server says {code}: {message}"),
        (Some(code), None) => format!("the server says {code}"),
        // The answer may be an HTML page, for example.
        _ => answer.chars().take(LONGEST_ANSWER).collect(),
    }
}

/// Returns the text of the first element of this name. Two elements do not justify an XML parser.
fn element<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
        .map(|(text, _)| text)
        .filter(|text| !text.is_empty())
}

/// Returns whether no connection was made, so that the server has seen nothing.
///
/// A timeout while connecting has the same kind as any other timeout.
pub(crate) fn unconnected(error: &HttpError) -> bool {
    let source = error.source();
    let source = source.and_then(|source| source.downcast_ref::<reqwest::Error>());
    error.kind() == HttpErrorKind::Connect || source.is_some_and(reqwest::Error::is_connect)
}

/// Returns the innermost cause.
fn deepest(error: &object_store::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

/// Returns the outermost error of this type among the causes.
fn find<E: std::error::Error + 'static>(error: &object_store::Error) -> Option<&E> {
    let mut cause = error.source();
    while let Some(error) = cause {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        cause = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_put_together_and_counted() {
        let mut failures: Vec<_> = (0..5)
            .map(|n| Failure::new(format!("common-{n}"), "no such bucket"))
            .collect();
        failures.insert(2, Failure::new("rare", "unreadable"));
        let groups = group(&failures);
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].count, groups[1].count), (5, 1));
        assert_eq!(groups[0].examples, ["common-0", "common-1", "common-2"]);
    }

    #[test]
    fn code_and_message_of_an_answer_are_found() {
        let answer = "status 404: <Error><Code>NoSuchBucket</Code><Message>none</Message></Error>";
        assert_eq!(server_said(answer), "the server says NoSuchBucket: none");
        let answer = "status 503: <Error><Code>SlowDown</Code></Error>";
        assert_eq!(server_said(answer), "the server says SlowDown");
        assert_eq!(server_said("status 502: <html>"), "status 502: <html>");
    }
}
