//! Checks everything that a release needs, and lists the necessary changes or how to publish it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use cargo_metadata::{Package, semver::Version};
use regex::Regex;
use xshell::{Shell, cmd};

use crate::workspace::{compiler, members, public};

#[derive(clap::Args)]
pub(crate) struct Options {
    version: Version,
    /// Leave out .ci/run, which takes half an hour
    #[arg(long)]
    skip_ci: bool,
}

pub(crate) fn release(shell: &Shell, options: &Options) -> Result<bool> {
    let (version, begin) = (options.version.to_string(), Instant::now());
    let members = members(shell)?;
    let public = public(&members);
    let wrong = inconsistencies(shell, &version, &public)?;
    let list = wrong.join("\n");
    ensure!(wrong.is_empty(), "not ready for {version}:\n{list}");
    let names = public.iter().map(|package| format!(" -p {}", package.name));
    let names: String = names.collect();
    let steps = [
        ".ci/run",
        "cargo xtask tree",
        "cargo xtask package",
        &format!("scripts/semver {version}"),
        "scripts/compilers",
        "scripts/deny",
        // Otherwise the output would consist only of warnings for tests that are not in their package.
        &format!("cargo publish --quiet --dry-run --locked --no-verify{names}"),
    ];
    let mut left = Vec::new();
    if options.skip_ci {
        left.push("NOT CHECKED: .ci/run, which --skip-ci leaves out".into());
    }
    for line in &steps[usize::from(options.skip_ci)..] {
        println!("=== {line} (after {} s)", begin.elapsed().as_secs());
        left.extend(step(shell, line)?);
    }
    let seconds = begin.elapsed().as_secs();
    println!("=== {version} passes (after {seconds} s). Nothing was published.");
    left.extend(to_change(shell, &version, &public)?);
    if left.is_empty() {
        println!("Publish, in this order:");
        for package in public {
            println!("  cargo publish --locked --package {}", package.name);
        }
        println!("Then: git tag -a v{version} -m v{version} && git push origin v{version}");
    } else {
        println!("Mend this before publishing; when nothing is left, this prints how to publish:");
        println!("  {}", left.join("\n  "));
    }
    Ok(true)
}

/// Runs a command, and returns the checks that it reports as impossible.
fn step(shell: &Shell, line: &str) -> Result<Vec<String>> {
    let said = shell.create_temp_dir()?;
    let file = said.path().join("said");
    let script = r#"set -o pipefail; $0 2>&1 | tee "$1""#;
    let passed = cmd!(shell, "bash -c {script} {line} {file}").quiet().run();
    passed.with_context(|| format!("{line} failed"))?;
    let said = shell.read_file(file)?;
    let mut unchecked = Vec::from_iter(said.lines().map(String::from));
    unchecked.retain(|line| line.starts_with("NOT CHECKED: "));
    Ok(unchecked)
}

/// Returns each line of the files in git with these endings, with its place.
fn lines_of(shell: &Shell, endings: &[&str]) -> Result<Vec<(String, String)>> {
    let mut lines = Vec::new();
    for path in cmd!(shell, "git ls-files -- {endings...}").read()?.lines() {
        for (line, number) in shell.read_file(path)?.lines().zip(1..) {
            lines.push((format!("{path}:{number}"), line.to_string()));
        }
    }
    Ok(lines)
}

/// Returns the inconsistencies of the tree, before any build.
fn inconsistencies(shell: &Shell, version: &str, public: &[&Package]) -> Result<Vec<String>> {
    let branch = cmd!(shell, "git branch --show-current").read()?;
    let changed = cmd!(shell, "git status --porcelain").read()?;
    let tags = cmd!(shell, "git tag --list v{version}").read()?;
    let mut checks = vec![
        (branch == "main", "the branch is not main".into()),
        (changed.is_empty(), "some files are not committed".into()),
        (tags.is_empty(), format!("the tag v{version} exists")),
    ];
    for package in public {
        let (name, has) = (&package.name, package.version.to_string());
        checks.push((has == version, format!("{name} has version {has}")));
    }
    // A dependency on one of the crates, in a manifest or on a page.
    let begin = r#"^[/!#\s]*(tollgate[a-z-]*) *= *(?:"|\{.*\bversion *= *")"#;
    let dependency = Regex::new(&format!(r#"{begin}[=^~]?([0-9.]+)""#))?;
    for (place, line) in lines_of(shell, &["*.md", "*.rs", "*.toml"])? {
        if let Some((_, [name, has])) = dependency.captures(&line).map(|found| found.extract()) {
            let fits = format!("{version}.").starts_with(&format!("{has}."));
            checks.push((fits, format!("{place} names {name} {has}")));
        }
    }
    for package in public {
        let (name, minimum) = (&package.name, compiler(package)?);
        let says = format!("Rust {minimum} or later");
        let readme = shell.read_file(package.manifest_path.with_file_name("README.md"))?;
        let wrong = format!("the README of {name} does not say {says}");
        checks.push((readme.contains(&says), wrong));
    }
    let (badge, minimum) = ("docs/badges/rust.svg", compiler(public[0])?);
    let says = shell.read_file(badge)?.contains(&format!(">{minimum}+<"));
    checks.push((says, format!("{badge} does not say {minimum}")));
    let changes = shell.read_file("CHANGELOG.md")?;
    let has = changes.contains(&format!("\n## [{version}]"));
    checks.push((has, format!("CHANGELOG.md has no section [{version}]")));
    checks.retain(|(passes, _)| !passes);
    Ok(checks.into_iter().map(|(_, text)| text).collect())
}

/// Returns the changes that a release requires, but a checkout before it does not.
fn to_change(shell: &Shell, version: &str, public: &[&Package]) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let hosts = Regex::new(r"^https://(github\.com|gitlab\.com|bitbucket\.org)/")?;
    for package in public {
        // On other hosts, crates.io drops the relative links of a README.
        if !hosts.is_match(package.repository.as_deref().unwrap_or_default()) {
            let hosts = "github.com, gitlab.com or bitbucket.org";
            found.push(format!("{} has no `repository` on {hosts}", package.name));
        }
    }
    let fetched = cmd!(shell, "git fetch --quiet --tags").quiet().run();
    let both = "@{upstream}...HEAD";
    let apart = cmd!(shell, "git rev-list --count {both}").ignore_stderr();
    let apart = apart.read();
    if fetched.is_err() || !apart.is_ok_and(|count| count == "0") {
        found.push("main is not what its remote has, or the remote cannot be reached".into());
    }
    let readme = shell.read_file("README.md")?;
    if !readme.contains("https://crates.io/crates/tollgate") {
        found.push("README.md has no badge of crates.io".into());
    }
    // Of a README's relative links, crates.io completes `href` and `src` only.
    if Regex::new(r#"srcset="[^":]*""#)?.is_match(&readme) {
        found.push(
            "README.md has a relative `srcset`, which crates.io shows as a broken picture".into(),
        );
    }
    let until = "until the (crates are published|first release)";
    let by_path = r"^[/!\s]*tollgate.*= \{ path = ";
    let early = Regex::new(&format!("(?i)not +published|{until}|{by_path}"))?;
    let dated = Regex::new(r"\d{4}-\d\d-\d\d$")?;
    for (place, line) in lines_of(shell, &["*.md", "*.rs"])? {
        if early.is_match(&line) {
            let text = line.trim_start_matches(['/', '!', ' ']);
            found.push(format!("{place}: {text}"));
        }
        let is_section = line.starts_with(&format!("## [{version}]"));
        if place.starts_with("CHANGELOG.md") && is_section && !dated.is_match(&line) {
            found.push(format!("{place}: {line}, which needs the date"));
        }
    }
    Ok(found)
}
