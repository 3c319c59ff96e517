//! What users get and need: how many crates, which compiler, and no item that the documentation hides.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, Result};
use xshell::{Shell, cmd};

use crate::workspace::{compiler, files, is_public, metadata};

/// A package, the options that it is built with, and how many crates that may need.
const MOST: [(&str, &str, &[&str], usize); 5] = [
    ("tollgate, default features", "tollgate", &[], 18),
    (
        "tollgate with tokio alone",
        "tollgate",
        &["--no-default-features", "--features=tokio"],
        8,
    ),
    (
        "tollgate with the counter alone",
        "tollgate",
        &["--no-default-features", "--features=tsc"],
        8,
    ),
    (
        "tollgate without features",
        "tollgate",
        &["--no-default-features"],
        3,
    ),
    // Its first build takes minutes, so each crate has to be worth it.
    ("uploads", "uploads", &[], 219),
];

pub(crate) fn tree(shell: &Shell) -> Result<bool> {
    let rustc = cmd!(shell, "rustc -vV").read()?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc names no host")?;
    // Only what this platform needs: the others would be downloaded for nothing.
    let metadata = metadata(shell, &["--all-features", "--filter-platform", host])?;
    let mut packages = HashMap::new();
    for package in &metadata.packages {
        packages.insert(format!("{} v{}", package.name, package.version), package);
    }
    let mut members = metadata.workspace_packages();
    members.sort_by_key(|package| package.name.to_string());
    let mut passed = true;
    for (title, package, options, most) in MOST {
        let found = crates(shell, package, &[&["--edges=normal"], options].concat())?.len() - 1;
        println!("{title}: {found} crates, at most {most}");
        passed &= found <= most;
    }
    for member in &members {
        let (name, declared) = (&member.name, compiler(member)?);
        println!("{name}: declares Rust {declared}");
        for one in crates(shell, name, &["--edges=normal,build", "--all-features"])? {
            let needed = packages[&one].rust_version.as_ref();
            if let Some(needed) =
                needed.filter(|needed| Some(*needed) > member.rust_version.as_ref())
            {
                println!("{one} needs Rust {needed}, {name} declares {declared}");
                passed = false;
            }
        }
    }
    // A method of a trait that wrappers do not see is one that they do not forward.
    for package in members.into_iter().filter(|package| is_public(package)) {
        for path in files(
            shell,
            package.manifest_path.with_file_name("src").as_std_path(),
        )? {
            if shell.read_file(&path)?.contains("doc(hidden)") {
                println!("{} hides something from the documentation", path.display());
                passed = false;
            }
        }
    }
    Ok(passed)
}

/// The crates that a package is built from, itself included, each with its version.
pub(crate) fn crates(shell: &Shell, package: &str, options: &[&str]) -> Result<BTreeSet<String>> {
    let format = "{p}";
    let tree = cmd!(
        shell,
        "cargo tree --locked --prefix none --format {format} -p {package} {options...}"
    );
    let lines = tree.read()?;
    // Behind the version are paths, and marks of what was listed before.
    let short = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    Ok(lines
        .lines()
        .filter(|line| !line.is_empty())
        .map(short)
        .collect())
}
