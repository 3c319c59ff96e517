//! Builds the documentation of a package as docs.rs does.

use std::path::Path;

use anyhow::Result;
use cargo_metadata::Package;
use serde_json::Value;
use xshell::{Shell, cmd};

use crate::workspace::run;

/// Returns the name of a package's library in code, and in the paths of its pages.
pub(crate) fn library(package: &str) -> String {
    package.replace('-', "_")
}

/// Builds the documentation of the package in `folder` into `doc` in the folder `target`, with the flags for docs.rs
/// in its manifest; a warning is an error. docs.rs has a nightly compiler. Here, only the libraries `unstable` may
/// use unstable features.
pub(crate) fn document(
    shell: &Shell,
    package: &Package,
    folder: &Path,
    target: &Path,
    unstable: &str,
    options: &[String],
    flags: &[String],
) -> Result<()> {
    let settings = &package.metadata["docs"]["rs"];
    let words = |key| {
        let list = settings[key].as_array().into_iter().flatten();
        list.filter_map(Value::as_str)
    };
    let features = words("features").collect::<Vec<_>>().join(",");
    let all_features = (settings["all-features"] == true).then_some("--all-features");
    // docs.rs sets this `cfg` for every crate.
    let own = ["-D", "warnings", "--cfg", "docsrs"].into_iter();
    let own = own.chain(words("rustdoc-args"));
    let flags = own.chain(flags.iter().map(String::as_str));
    let _folder = shell.push_dir(folder);
    let _unstable = shell.push_env("RUSTC_BOOTSTRAP", unstable);
    let _flags = shell.push_env("RUSTDOCFLAGS", flags.collect::<Vec<_>>().join(" "));
    let _place = shell.push_env("DOCS_RS", "1");
    let doc = ["doc", "--quiet", "--no-deps", "--lib"];
    let features = format!("--features={features}");
    run(cmd!(
        shell,
        "cargo {doc...} --target-dir {target} {features} {all_features...} {options...}"
    ))
}
