//! What went wrong with one file, in words, and how many files went wrong in the same way.
//!
//! The words name the cause and not the file, so that two hundred files that failed alike are one
//! line on the terminal.

use std::error::Error as _;
use std::io;

use object_store::client::{HttpError, HttpErrorKind};
use serde::Serialize;
use tollgate_object_store::cause;

use crate::grace::GivenUp;

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
