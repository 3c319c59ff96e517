//! Why the whole job could not be done. What goes wrong with one file is a
//! [`Failure`], and the others go on.

use std::error::{self, Error as _};
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use object_store::client::{HttpError, HttpErrorKind};
use serde::Serialize;
use tollgate_object_store::cause;

use crate::grace::GivenUp;

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

// What went wrong with one file, in words, and how many files went wrong in the same way.
//
// The words name the cause and not the file, so that two hundred files that failed alike are one
// line on the terminal.

/// How many names a group shows.
const EXAMPLES: usize = 3;
/// How many characters of an answer that is not S3's are shown.
const LONGEST_ANSWER: usize = 200;

/// One file that was not uploaded, or whose object is not equal to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The key that the object has or would have.
    pub key: String,
    /// The cause.
    pub message: String,
    /// Whether the server may have begun to make the object, so that one has to look.
    pub reached_server: bool,
}

/// Files that failed for the same cause.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    /// The cause.
    pub message: String,
    /// How many files failed for it.
    pub count: usize,
    /// The first few of them.
    pub examples: Vec<String>,
}

impl Failure {
    /// A failure before anything was sent.
    pub fn new(key: impl Into<String>, message: impl Into<String>) -> Failure {
        Failure {
            key: key.into(),
            message: message.into(),
            reached_server: false,
        }
    }

    /// A failure of this machine: of reading a file or a directory.
    pub fn local(key: impl Into<String>, what: &str, error: &io::Error) -> Failure {
        Failure::new(key, format!("{what}: {error}"))
    }

    /// A failure of the server, or of reaching it.
    pub fn store(key: impl Into<String>, error: &object_store::Error) -> Failure {
        Failure {
            key: key.into(),
            message: explain(error),
            reached_server: cause(error).is_none() && !find(error).is_some_and(unconnected),
        }
    }
}

/// Puts failures of the same cause together, the most frequent first.
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

/// The cause of a store's error without what differs from file to file: URL, time and retries.
pub fn explain(error: &object_store::Error) -> String {
    // A limit let nobody in.
    if let Some(cause) = cause(error) {
        return cause.to_string();
    }
    if let Some(given_up) = find::<GivenUp>(error) {
        return given_up.to_string();
    }
    let deepest = deepest(error).to_string();
    match find::<HttpError>(error) {
        // There was an answer, or it did not come to a request.
        None => server_said(&deepest),
        Some(error) if unconnected(error) => format!("the server cannot be reached: {deepest}"),
        Some(error) if error.kind() == HttpErrorKind::Timeout => {
            "the server does not answer in time".to_owned()
        }
        Some(_) => format!("the server broke off: {deepest}"),
    }
}

/// What an S3 server said, from the `Code` and `Message` of its answer.
fn server_said(answer: &str) -> String {
    match (element(answer, "Code"), element(answer, "Message")) {
        (Some(code), Some(message)) => format!("the server says {code}: {message}"),
        (Some(code), None) => format!("the server says {code}"),
        // A page of HTML, perhaps.
        _ => answer.chars().take(LONGEST_ANSWER).collect(),
    }
}

/// The text of the first element of this name. A reader of XML would be a lot for two words.
fn element<'a>(body: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = body.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>"))
        .map(|(text, _)| text)
        .filter(|text| !text.is_empty())
}

/// Whether no connection was made, so that the server has seen nothing.
///
/// That one was not made in time has the kind of any other timeout.
pub(crate) fn unconnected(error: &HttpError) -> bool {
    let source = error.source();
    let source = source.and_then(|source| source.downcast_ref::<reqwest::Error>());
    error.kind() == HttpErrorKind::Connect || source.is_some_and(reqwest::Error::is_connect)
}

/// The innermost cause.
fn deepest(error: &object_store::Error) -> &(dyn std::error::Error + 'static) {
    let mut cause: &(dyn std::error::Error + 'static) = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause
}

/// The outermost error of this type among the causes.
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
