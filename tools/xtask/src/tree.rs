//! Checks the requirements for users: the number of crates, the compiler, and no item hidden from the documentation.

use std::collections::{BTreeSet, HashMap};

use anyhow::Result;
use xshell::{Shell, cmd};

use crate::workspace::{compiler, dependencies, files, is_public, rows};

/// A package with its options, and the maximum number of crates that its build may need. The first build of
/// `uploads` takes minutes, so each crate has to be worth it.
const MOST: &str = "
tollgate, default features      | tollgate                                       | 18
tollgate with tokio alone       | tollgate --no-default-features --features=tokio | 8
tollgate with the counter alone | tollgate --no-default-features --features=tsc   | 8
tollgate without features       | tollgate --no-default-features                  | 3
uploads                         | uploads                                         | 221
";

pub(crate) fn tree(shell: &Shell) -> Result<bool> {
    let metadata = dependencies(shell)?;
    let mut packages = HashMap::new();
    for package in &metadata.packages {
        packages.insert(format!("{} v{}", package.name, package.version), package);
    }
    let mut members = metadata.workspace_packages();
    members.sort_by_key(|package| package.name.to_string());
    let mut passed = true;
    for row in rows(MOST) {
        let (title, built, most) = (row[0], row[1], row[2].parse()?);
        let found = crates(shell, &format!("{built} --edges=normal"))?.len() - 1;
        println!("{title}: {found} crates, at most {most}");
        passed &= found <= most;
    }
    for member in &members {
        let (name, declared) = (&member.name, compiler(member)?);
        println!("{name}: declares Rust {declared}");
        let built = format!("{name} --edges=normal,build --all-features");
        for one in crates(shell, &built)? {
            let needed = packages[&one].rust_version.as_ref();
            if let Some(needed) = needed.filter(|_| needed > member.rust_version.as_ref()) {
                println!("{one} needs Rust {needed}, {name} declares {declared}");
                passed = false;
            }
        }
    }
    // If wrappers do not see a method of a trait, they do not forward it.
    for package in members.into_iter().filter(|package| is_public(package)) {
        let sources = package.manifest_path.with_file_name("src");
        for path in files(shell, sources.as_std_path())? {
            if shell.read_file(&path)?.contains("doc(hidden)") {
                println!("{} hides something from the documentation", path.display());
                passed = false;
            }
        }
    }
    Ok(passed)
}

/// Returns the crates that a package with some options is built from, including itself, each with its version.
pub(crate) fn crates(shell: &Shell, built: &str) -> Result<BTreeSet<String>> {
    let (format, built) = ("--format={p}", built.split_whitespace());
    let tree = cmd!(
        shell,
        "cargo tree --locked --prefix=none {format} -p {built...}"
    )
    .read()?;
    // After the version come paths, and marks of crates listed before.
    let short = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
    let lines = tree.lines().filter(|line| !line.is_empty());
    Ok(lines.map(short).collect())
}
