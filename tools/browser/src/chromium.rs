//! Chromium, driven over its own protocol.
//!
//! 1. The browser is a child of this process, which ends it by its id: in `end`, and when the value is
//!    1. The browser is a child of this process, which ends it by its id: in `end`, and when the
//!       value is dropped, also after a panic or Ctrl-C.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chromiumoxide::cdp::browser_protocol::emulation::{
    MediaFeature, SetDeviceMetricsOverrideParams,
};
use chromiumoxide::cdp::browser_protocol::log::{EventEntryAdded, LogEntryLevel};
use chromiumoxide::cdp::js_protocol::runtime::{
    CallArgument, CallFunctionOnParams, ConsoleApiCalledType, EventConsoleApiCalled,
    EventExceptionThrown,
};
use chromiumoxide::page::ScreenshotParams;
use chromiumoxide::{Browser, BrowserConfig, Page};
use futures_util::StreamExt;
use serde::de::DeserializeOwned;
use serde_json::Value;
use tempfile::TempDir;
use tokio::task::JoinHandle;
use tokio::time::timeout;

const PROGRAMS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// The time that the browser has to end by itself.
const GRACE: Duration = Duration::from_secs(3);

/// The probe for every page; the checks of a page add functions of their own.
const PROBE: &str = include_str!("probe.js");

/// A headless browser with one page.
pub(crate) struct Chromium {
    page: Page,
    complaints: Arc<Mutex<Vec<String>>>,
    tasks: Vec<JoinHandle<()>>,
    browser: Browser,
    _profile: TempDir,
}

impl Chromium {
    /// Starts a browser and opens `url`. Then `probe` runs in the page: a script that adds functions to the
    /// object `probe`.
    ///
    /// # Errors
    ///
    /// Returns the missing program, or the browser's error.
    pub(crate) async fn open(url: &str, probe: &str) -> Result<Self, String> {
        let program = find_or_install()?;
        let profile = tempfile::Builder::new()
            .prefix("tollgate-check-")
            .tempdir()
            .map_err(|error| format!("cannot make a profile for the browser: {error}"))?;
        let config = BrowserConfig::builder()
            .chrome_executable(&program)
            .user_data_dir(profile.path())
            .new_headless_mode()
            // Without it, Chromium does not start as root, as in most containers.
            .no_sandbox()
            .viewport(None)
            // A busy machine starts it slowly, and a probe may take as long as it waits for series.
            .launch_timeout(Duration::from_secs(60))
            .request_timeout(Duration::from_secs(90))
            .build()?;
        let (browser, mut handler) = Browser::launch(config)
            .await
            .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        let mut tasks = vec![tokio::spawn(async move {
            while handler.next().await.is_some() {}
        })];
        let complaints = Arc::default();
        let page = open_page(&browser, &complaints, &mut tasks).await;
        let page = page.map_err(|error| format!("cannot open a page: {error}"))?;
        let opened = Self {
            page,
            complaints,
            tasks,
            browser,
            _profile: profile,
        };
        opened.go_to(url, probe).await?;
        Ok(opened)
    }

    /// Opens another page instead of this one.
    ///
    /// # Errors
    ///
    /// Returns the browser's error.
    pub(crate) async fn go_to(&self, url: &str, probe: &str) -> Result<(), String> {
        async {
            self.page.goto(url).await?;
            self.page.evaluate_expression(PROBE).await?;
            self.page.evaluate_expression(probe).await
        }
        .await
        .map_err(|error| format!("cannot open {url}: {error}"))?;
        Ok(())
    }

    /// Lets a script run in every page before the scripts of the page, from the next `go_to` on.
    ///
    /// # Errors
    ///
    /// Returns the browser's error.
    pub(crate) async fn run_first(&self, script: &str) -> Result<(), String> {
        let added = self.page.evaluate_on_new_document(script).await;
        added.map_err(|error| format!("cannot add a script: {error}"))?;
        Ok(())
    }

    /// Sets the preference for less motion, until `show` is called.
    ///
    /// # Errors
    ///
    /// Returns the browser's error.
    pub(crate) async fn reduce_motion(&self) -> Result<(), String> {
        let motion = MediaFeature::new("prefers-reduced-motion", "reduce");
        let set = self.page.emulate_media_features(vec![motion]).await;
        set.map_err(|error| format!("cannot set the preference for less motion: {error}"))?;
        Ok(())
    }

    /// Calls a function of the object `probe` in the page, and waits for its promise.
    ///
    /// # Errors
    ///
    /// Returns the exception, or the reason why the value does not fit.
    pub(crate) async fn probe<T: DeserializeOwned>(
        &self,
        name: &str,
        arguments: &[Value],
    ) -> Result<T, String> {
        let call = CallFunctionOnParams::builder()
            .function_declaration("async (name, ...rest) => [(await probe[name](...rest)) ?? null]")
            .argument(CallArgument::builder().value(name).build())
            .arguments(
                arguments
                    .iter()
                    .map(|value| CallArgument::builder().value(value.clone()).build()),
            )
            .await_promise(true)
            .return_by_value(true)
            .build()?;
        let result = self.page.evaluate_function(call).await;
        let result = result.map_err(|error| format!("probe {name}: {error}"))?;
        // In an array, because the client takes a bare null for no value.
        let [value] = result
            .into_value::<[T; 1]>()
            .map_err(|error| format!("probe {name}: {error}"))?;
        Ok(value)
    }

    /// Sets the width of the window, and the light or dark scheme.
    ///
    /// # Errors
    ///
    /// Returns the browser's error.
    pub(crate) async fn show(&self, width: i64, dark: bool) -> Result<(), String> {
        let size = SetDeviceMetricsOverrideParams::new(width, 900, 1.0, false);
        let scheme = MediaFeature::new("prefers-color-scheme", if dark { "dark" } else { "light" });
        async {
            self.page.execute(size).await?;
            self.page.emulate_media_features(vec![scheme]).await
        }
        .await
        .map_err(|error| format!("cannot set the window: {error}"))?;
        // The layout, and charts that are drawn for it.
        let () = self.probe("wait", &[300.into()]).await?;
        Ok(())
    }

    /// Writes a picture of the whole page.
    ///
    /// # Errors
    ///
    /// Returns the browser's error, or the reason why the file cannot be written.
    pub(crate) async fn screenshot(&self, to: &Path) -> Result<(), String> {
        let params = ScreenshotParams::builder().full_page(true).build();
        let picture = self.page.screenshot(params).await;
        let picture = picture.map_err(|error| format!("cannot take a screenshot: {error}"))?;
        std::fs::write(to, picture).map_err(|error| format!("{}: {error}", to.display()))
    }

    /// Returns errors and warnings of the console, and exceptions, so far.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let complaints = self.complaints.lock();
        complaints.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the browser, and removes its profile.
    pub(crate) async fn end(mut self) {
        // It may have received the signal that ends this process too, and then never answers. The
        // profile is removed only when no process writes to it any more.
        let closed = timeout(GRACE, async {
            let closed = self.browser.close().await.is_ok();
            closed && self.browser.wait().await.is_ok()
        });
        if !closed.await.unwrap_or(false) {
            self.browser.kill().await;
        }
        for task in &self.tasks {
            task.abort();
        }
    }
}

async fn open_page(
    browser: &Browser,
    complaints: &Arc<Mutex<Vec<String>>>,
    tasks: &mut Vec<JoinHandle<()>>,
) -> chromiumoxide::error::Result<Page> {
    // It listens before it loads, so that nothing is missed.
    let page = browser.new_page("about:blank").await?;
    page.enable_log().await?;
    page.enable_runtime().await?;
    let said = page
        .event_listener::<EventConsoleApiCalled>()
        .await?
        .filter_map(async |event| {
            let bad = matches!(
                event.r#type,
                ConsoleApiCalledType::Error | ConsoleApiCalledType::Warning
            );
            bad.then(|| format!("console: {:?}", event.args))
        });
    let logged = page
        .event_listener::<EventEntryAdded>()
        .await?
        .filter_map(async |event| {
            let entry = &event.entry;
            let bad = matches!(entry.level, LogEntryLevel::Error | LogEntryLevel::Warning);
            let url = entry.url.as_deref().unwrap_or_default();
            bad.then(|| format!("log: {} {url}", entry.text))
        });
    let thrown = page
        .event_listener::<EventExceptionThrown>()
        .await?
        .map(|event| format!("exception: {:?}", event.exception_details));
    let all = futures_util::stream::select(said, futures_util::stream::select(logged, thrown));
    let complaints = Arc::clone(complaints);
    tasks.push(tokio::spawn(all.for_each(move |complaint| {
        let mut list = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        list.push(complaint);
        std::future::ready(())
    })));
    Ok(page)
}

/// Returns the program that `CHROME` names, or one of the usual names, installed if it is missing.
fn find_or_install() -> Result<PathBuf, String> {
    if let Some(named) = env::var_os("CHROME") {
        return find(Path::new(&named))
            .ok_or_else(|| format!("CHROME names {}, which is no program", named.display()));
    }
    let found = || PROGRAMS.iter().find_map(|name| find(Path::new(name)));
    found().map_or_else(
        || {
            // The script reports the missing package where it cannot install it.
            let needs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../scripts/needs");
            let status = Command::new(needs)
                .args(["chromium", "chromium", "fonts-dejavu-core"])
                .status();
            match status {
                Ok(status) if status.success() => found(),
                _ => None,
            }
            .ok_or_else(|| {
                "the check needs Chromium: install the package chromium, or set CHROME to a browser"
                    .to_owned()
            })
        },
        Ok,
    )
}

/// Returns the file of a program, from its path or from its name in `PATH`.
fn find(name: &Path) -> Option<PathBuf> {
    if name.components().count() > 1 {
        return name.is_file().then(|| name.to_owned());
    }
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}
