//! Describes the workspace that contains this program.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cargo_metadata::{DependencyKind, Metadata, MetadataCommand, Package};
use xshell::{Cmd, Shell, cmd};

/// Returns a shell in the root of the workspace.
pub(crate) fn shell() -> Result<Shell> {
    let shell = Shell::new()?;
    shell.change_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."));
    shell.change_dir(shell.current_dir().canonicalize()?);
    Ok(shell)
}

pub(crate) fn metadata(shell: &Shell, options: &[&str]) -> Result<Metadata> {
    let options = options.iter().chain(&["--locked"]).map(ToString::to_string);
    let mut command = MetadataCommand::new();
    command.current_dir(shell.current_dir());
    Ok(command.other_options(options.collect::<Vec<_>>()).exec()?)
}

/// Returns the packages of the workspace, and their target directory.
pub(crate) fn members(shell: &Shell) -> Result<Metadata> {
    metadata(shell, &["--no-deps"])
}

/// Returns the packages of the workspace and all their dependencies on this platform: those of others would be
/// downloaded for nothing.
pub(crate) fn dependencies(shell: &Shell) -> Result<Metadata> {
    let rustc = cmd!(shell, "rustc -vV").read()?;
    let host = rustc.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc names no host")?;
    metadata(shell, &["--all-features", "--filter-platform", host])
}

/// Returns whether a package can be published. `publish = false` results in an empty list of registries.
pub(crate) fn is_public(package: &Package) -> bool {
    package.publish.as_ref() != Some(&Vec::new())
}

/// Returns the packages that can be published, each after its dependencies.
pub(crate) fn public(members: &Metadata) -> Vec<&Package> {
    let mut left: Vec<_> = members.packages.iter().collect();
    left.retain(|package| is_public(package));
    let mut order = Vec::new();
    while !left.is_empty() {
        let names = left.iter().map(|package| package.name.to_string());
        let names: Vec<_> = names.collect();
        order.extend(left.extract_if(.., |package| {
            let mut needed = package.dependencies.iter();
            !needed.any(|one| one.kind != DependencyKind::Development && names.contains(&one.name))
        }));
        assert!(left.len() < names.len(), "{names:?} need each other");
    }
    order
}

/// Runs a command without printing it.
pub(crate) fn run(command: Cmd) -> Result<()> {
    Ok(command.quiet().run()?)
}

/// Returns the rows of a table, one per line, as lists of cells.
pub(crate) fn rows(table: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    let lines = table.trim().lines();
    lines.map(|line| line.split('|').map(str::trim).collect())
}

/// Returns the oldest compiler that a package declares in its manifest.
pub(crate) fn compiler(package: &Package) -> Result<String> {
    let version = package.rust_version.as_ref();
    let version = version.context("each package declares a compiler")?;
    Ok(format!("{}.{}", version.major, version.minor))
}

/// Returns the files in a folder and its subfolders, sorted; for a file, the file itself.
pub(crate) fn files(shell: &Shell, path: &Path) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.into()]);
    }
    let inner = shell.read_dir(path)?;
    let inner = inner.iter().map(|path| files(shell, path));
    Ok(inner.collect::<Result<Vec<_>>>()?.concat())
}
