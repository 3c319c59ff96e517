//! Shows progress: bars on a terminal, and lines on stderr on request.

use std::collections::HashMap;
use std::io::{self, IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use object_store::path::Path as ObjectPath;

use crate::source::{Listing, SourceFile};
use crate::upload::{Outcome, Stop};

/// The display of the progress. Without a terminal the bars are hidden.
#[derive(Debug)]
pub struct Progress {
    bars: MultiProgress,
    files: ProgressBar,
    bytes: ProgressBar,
    /// The bars of the multipart uploads in flight. The size of the terminal limits how many are visible.
    large: Mutex<HashMap<ObjectPath, ProgressBar>>,
    verbose: bool,
}

impl Progress {
    /// Makes bars for these files, and prints lines if `verbose`.
    pub fn new(listing: &Listing, verbose: bool) -> Progress {
        let target = if io::stderr().is_terminal() {
            ProgressDrawTarget::stderr()
        } else {
            ProgressDrawTarget::hidden()
        };
        let bars = MultiProgress::with_draw_target(target);
        let bytes = listing.files.iter().map(|file| file.len).sum();
        Progress {
            files: bars.add(bar(
                listing.files.len() as u64,
                "{prefix:>10} [{bar:40}] {pos}/{len} files",
                "uploading",
            )),
            bytes: bars.add(bar(
                bytes,
                "{prefix:>10} [{bar:40}] {bytes}/{total_bytes} {bytes_per_sec}",
                "",
            )),
            large: Mutex::default(),
            bars,
            verbose,
        }
    }

    /// Shows that a multipart upload has been opened.
    pub(crate) fn begin(&self, file: &SourceFile) {
        let bar = bar(
            file.len,
            "{prefix:>10} [{bar:40}] {bytes}/{total_bytes} {msg}",
            "",
        )
        .with_message(shown(file.key.as_ref()));
        self.large().insert(file.key.clone(), self.bars.add(bar));
    }

    /// Shows that a part has been sent.
    pub(crate) fn part(&self, file: &SourceFile, number: u64, count: u64, len: u64) {
        if let Some(bar) = self.large().get(&file.key) {
            bar.inc(len);
        }
        self.bytes.inc(len);
        if self.verbose {
            let key = shown(file.key.as_ref());
            self.line(&format!("part {number} of {count}: {key}"));
        }
    }

    /// Shows that a file has been sent whole.
    pub(crate) fn sent(&self, len: u64) {
        self.bytes.inc(len);
    }

    /// Shows the outcome of a file. Nothing more happens to the file after that.
    pub(crate) fn ended(&self, file: &SourceFile, outcome: &Outcome) {
        if let Some(bar) = self.large().remove(&file.key) {
            bar.finish_and_clear();
        }
        self.files.inc(1);
        if self.verbose {
            let what = match outcome {
                Ok(()) => "uploaded",
                Err(Stop::Cancelled) => "cancelled",
                Err(Stop::Failed(_)) => "failed",
            };
            self.line(&format!("{what}: {}", shown(file.key.as_ref())));
        }
    }

    /// Shows that the uploads are over and that `count` objects are about to be read back.
    pub(crate) fn verifying(&self, count: usize) {
        self.bytes.finish_and_clear();
        self.files.set_prefix("comparing");
        self.files.set_length(count as u64);
        self.files.set_position(0);
    }

    /// Shows that an object has been read back.
    pub(crate) fn verified(&self) {
        self.files.inc(1);
    }

    /// Removes the bars.
    pub(crate) fn clear(&self) {
        // An error means that the terminal, and so the bars, are gone.
        let _ = self.bars.clear();
    }

    /// Prints a line above the bars.
    pub(crate) fn line(&self, text: &str) {
        self.bars.suspend(|| say(text));
    }

    fn large(&self) -> std::sync::MutexGuard<'_, HashMap<ObjectPath, ProgressBar>> {
        self.large.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prints a line on stderr if that is a terminal. It announces a step that begins before the bars exist.
pub(crate) fn announce(text: &str) {
    if io::stderr().is_terminal() {
        say(text);
    }
}

/// Prints a line on stderr. Unlike `eprintln!`, it does not panic when stderr is closed.
pub fn say(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
}

/// Returns a name that is safe to show on a terminal.
pub(crate) fn shown(key: &str) -> String {
    key.escape_debug().to_string()
}

fn bar(len: u64, template: &str, prefix: &'static str) -> ProgressBar {
    let style = ProgressStyle::with_template(template)
        .expect("the template is one of those above")
        .progress_chars("=> ");
    // The bar is hidden until it is added; otherwise it would be drawn on its own.
    ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden())
        .with_style(style)
        .with_prefix(prefix)
}

// [`Pauses`] reports on stderr that a server has asked for a pause, which the adaptive rate keeps.
//
// The answers to other requests in flight ask for the same pause, so it is reported only once.

/// The longest pause that the program keeps. A server that asks for more gets a request after this time,
/// and may refuse it again. In that case the file fails; otherwise the program would wait in silence.
pub(crate) const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The shortest pause that is reported.
const SHORTEST_SAID: Duration = Duration::from_secs(5);

/// The pauses reported so far.
#[derive(Debug)]
pub(crate) struct Pauses {
    progress: Arc<Progress>,
    /// The end of the last reported pause.
    until: Mutex<Option<Instant>>,
}

impl Pauses {
    pub(crate) fn new(progress: Arc<Progress>) -> Pauses {
        let until = Mutex::default();
        Pauses { progress, until }
    }

    /// Reports that a server has asked for a pause.
    pub(crate) fn asked(&self, now: Instant, asked: Duration) {
        let pause = asked.min(LONGEST_PAUSE);
        let mut until = self.until.lock().unwrap_or_else(PoisonError::into_inner);
        if pause < SHORTEST_SAID || until.is_some_and(|until| now < until) {
            return;
        }
        *until = Some(now + pause);
        drop(until);
        let (asked, pause) = (asked.as_secs(), pause.as_secs());
        self.progress.line(&format!(
            "the server asks for a pause of {asked} s: no request is sent for {pause} s"
        ));
    }
}
