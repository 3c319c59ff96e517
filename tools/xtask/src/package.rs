//! Checks whether each public crate builds from its tarball, how large the tarball is, and whether docs.rs can
//! build its documentation, which states the necessary feature of each item.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};
use cargo_metadata::Package;
use xshell::{Shell, cmd};

use crate::docs_rs::{self, library};
use crate::workspace::{files, members, public, run};

/// Features that change the behavior of items, and add none.
const WITHOUT_ITEMS: [&str; 6] = ["_loom", "_shuttle", "default", "test-util", "tls", "tsc"];

pub(crate) fn package(shell: &Shell, allow_dirty: bool) -> Result<bool> {
    let members = members(shell)?;
    let public = public(&members);
    // All packages are built at once, so that dependents get the local ones and not those of crates.io. Otherwise
    // cargo's output would consist only of warnings for tests that are not in their package.
    let names = public
        .iter()
        .map(|package| format!("--package={}", package.name));
    let options = allow_dirty.then_some("--allow-dirty");
    let package = "package --quiet --locked --all-features".split(' ');
    cmd!(shell, "cargo {package...} {names...} {options...}").run()?;
    let target = members.target_directory.join("package").into_std_path_buf();
    let unpacked = target.join("unpacked");
    shell.remove_path(&unpacked)?;
    shell.create_dir(&unpacked)?;
    // The packages of this workspace that each package needs, also through others.
    let mut needed = HashMap::<&str, BTreeSet<&str>>::new();
    for package in public {
        let name = format!("{}-{}", package.name, package.version);
        let tarball = target.join(format!("{name}.crate"));
        let folder = unpacked.join(&*package.name);
        run(cmd!(shell, "tar -xf {tarball} -C {unpacked}"))?;
        std::fs::rename(unpacked.join(&name), &folder)?;
        let files = files(shell, &folder)?;
        let bytes = |path: &PathBuf| path.metadata().map_or(0, |file| file.len());
        let kib = |files: &[PathBuf]| files.iter().map(bytes).sum::<u64>() as f64 / 1024.0;
        let (count, all, packed) = (files.len(), kib(&files), kib(&[tarball]));
        println!("{name}.crate: {count} files, {all:.0} KiB, {packed:.0} KiB compressed");
        // It becomes a package of its own; otherwise the workspace around it would claim it.
        let manifest = folder.join("Cargo.toml");
        shell.write_file(&manifest, shell.read_file(&manifest)? + "\n[workspace]\n")?;
        let direct = package.dependencies.iter();
        let direct = direct.filter_map(|it| needed.get_key_value(it.name.as_str()));
        let all = direct.flat_map(|(name, others)| others.iter().chain([name]));
        let all = all.copied().collect();
        document(shell, package, &folder, &target.join("docs"), &all)?;
        needed.insert(&package.name, all);
    }
    Ok(true)
}

/// Builds the documentation, and checks the features in it.
fn document(
    shell: &Shell,
    package: &Package,
    folder: &Path,
    target: &Path,
    needed: &BTreeSet<&str>,
) -> Result<()> {
    let name = package.name.as_str();
    let library = library(name);
    // Its dependencies in this workspace were unpacked before.
    let options = needed.iter().map(|needed| {
        let path = folder.with_file_name(needed);
        format!("--config=patch.crates-io.{needed}.path={path:?}")
    });
    let options: Vec<_> = options.collect();
    docs_rs::document(shell, package, folder, target, &library, &options, &[])?;
    let mut notes = String::new();
    for page in files(shell, &target.join("doc").join(library))? {
        if page.extension() == Some("html".as_ref()) {
            let text = shell.read_file(page)?;
            let behind = text.split("Available on <strong>").skip(1);
            notes.extend(behind.filter_map(|behind| behind.split("</strong>").next()));
        }
    }
    let features = package.features.keys().map(String::as_str);
    let is_named = |feature: &&str| notes.contains(&format!("<code>{feature}</code>"));
    let (named, mut silent): (Vec<_>, Vec<_>) = features.partition(is_named);
    silent.retain(|feature| !WITHOUT_ITEMS.contains(feature));
    let wrong = format!("the documentation of {name} does not say what needs {silent:?}");
    ensure!(silent.is_empty(), wrong);
    let named = match named[..] {
        [] => "none".into(),
        _ => named.join(", "),
    };
    println!("{name}: documented; features that its items name: {named}");
    Ok(())
}
