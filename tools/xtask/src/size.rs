//! How large the library is, each figure beside its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use cargo_metadata::DependencyKind;
use regex::Regex;
use xshell::{Shell, cmd};

use crate::uses::{self, Crate};
use crate::workspace::members;
use crate::{public_items, tree};

/// What implements the traits of `throttle/`, which therefore names nothing of it.
const ABOVE: [&str; 6] = ["adaptive", "concurrency", "fair", "gate", "keyed", "rate"];

/// A figure, the most that it may be if there is a limit, and what it is.
type Figure = (usize, Option<usize>, &'static str);

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the lines of each folder
    #[arg(long)]
    rooms: bool,
    /// List the traits of `throttle/`, and what it names of the folders above it
    #[arg(long)]
    names: bool,
    /// List the files of each circle, and what they name of each other
    #[arg(long)]
    circles: bool,
    /// Exit with 1 if a figure is above its budget
    #[arg(long)]
    check: bool,
    /// Measure the processor time of a release build of the core
    #[arg(long)]
    build: bool,
}

pub(crate) fn size(shell: &Shell, options: &Options) -> Result<bool> {
    let core = Crate::read(shell, Path::new("src"))?;
    if options.rooms {
        let mut rooms: Vec<_> = rooms(&core).into_iter().collect();
        rooms.sort_by_key(|(_, lines)| usize::MAX - lines);
        for (room, lines) in rooms {
            println!("{lines:8} {room}");
        }
    }
    if options.names {
        let traits = traits(&core)?.into_iter().map(|(name, _)| name);
        let names = traits.chain(named_above(&core)).collect::<Vec<_>>();
        println!("{}", names.join("\n"));
    }
    if options.circles {
        print_circles(&core);
    }
    println!("     now   budget");
    let figures = figures(shell, &core)?;
    let mut above = 0;
    for (figure, most, title) in figures {
        let is_above = most.is_some_and(|most| figure > most);
        let mark = if is_above { '>' } else { ' ' };
        let most = most.map(|most| most.to_string()).unwrap_or_default();
        println!("{figure:8} {most:>8} {mark} {title}");
        above += usize::from(is_above);
    }
    if options.build {
        let [whole, alone] = build(shell)?;
        println!(
            "{whole:8.1}            s of processor time for a release build with all dependencies"
        );
        let mark = if alone > 5.0 { '>' } else { ' ' };
        println!("{alone:8.1}        5 {mark} s of it for the core alone");
        above += usize::from(alone > 5.0);
    }
    if above > 0 {
        println!("{above} figures are above their budgets");
    }
    Ok(above == 0 || !options.check)
}

fn figures(shell: &Shell, core: &Crate) -> Result<Vec<Figure>> {
    let lines = |name: &str| -> Result<usize> {
        let sources = uses::sources(shell, &Path::new("crates").join(name).join("src"))?;
        sources
            .iter()
            .map(|path| Ok(uses::code(shell, path)?.len()))
            .sum()
    };
    let [tower, io, observe] = ["tollgate-tower", "tollgate-io", "tollgate-observe"].map(lines);
    let (tower, io, observe) = (tower?, io?, observe?);
    let rooms = rooms(core);
    let whole: usize = rooms.values().sum();
    let traits = traits(core)?;
    let of_traits = || traits.iter().flat_map(|(_, body)| body);
    let code = core.files.values().flat_map(|file| &file.code);
    let members = members(shell)?;
    let package = members.root_package().expect("the root has a package");
    let is_chosen = |name: &&String| *name != "default" && !name.starts_with('_');
    let needed = package
        .dependencies
        .iter()
        .filter(|one| one.kind == DependencyKind::Normal);
    let circles = core.circles();
    let (items, methods) = public_items::count(shell)?;
    let methods_of_traits = of_traits().filter(|line| line.starts_with("    fn "));
    let hidden = of_traits().filter(|line| line.contains("#[doc(hidden)]"));
    let macros = code.filter(|line| line.trim_start().starts_with("macro_rules!"));
    let chosen = package.features.keys().filter(is_chosen).count();
    let largest = circles.iter().map(Vec::len).max().unwrap_or(0);
    let dependencies = tree::crates(shell, "tollgate", &["--edges=normal"])?.len() - 1;
    let named = "types of other folders that throttle/ names (--names)";
    let above = named_above(core).len();
    let all = whole + tower + io + observe;
    let code = "lines of code in src, without tests (--rooms)";
    Ok(vec![
        (
            traits.len(),
            Some(5),
            "traits for throttles in throttle/ (--names)",
        ),
        (
            methods_of_traits.count(),
            Some(13),
            "methods of these traits",
        ),
        (hidden.count(), Some(0), "hidden parts of these traits"),
        (rooms["throttle"], Some(900), "lines of code in throttle/"),
        (above, Some(0), named),
        (whole, Some(13_500), code),
        (tower, None, "lines of code in tollgate-tower"),
        (io, None, "lines of code in tollgate-io"),
        (observe, None, "lines of code in tollgate-observe"),
        (all, Some(16_700), "lines of code in src and in these"),
        (macros.count(), Some(8), "macros in src"),
        (chosen, Some(6), "features"),
        (
            needed.filter(|one| one.optional).count(),
            Some(8),
            "optional dependencies",
        ),
        (circles.len(), Some(8), "circles of files (--circles)"),
        (largest, Some(2), "files in the largest circle"),
        (items, Some(70), "public items, by default features"),
        (methods, Some(290), "methods of theirs"),
        (dependencies, Some(18), "dependencies by default features"),
    ])
}

/// The folder or file in `src` that a module is in.
fn room(module: &str) -> &str {
    module.split("::").nth(1).unwrap_or("lib")
}

/// The lines of code by room.
fn rooms(core: &Crate) -> BTreeMap<&str, usize> {
    let mut rooms = BTreeMap::new();
    for (module, file) in &core.files {
        *rooms.entry(room(module)).or_default() += file.code.len();
    }
    rooms
}

fn print_circles(core: &Crate) {
    for circle in core.circles() {
        println!("\n{} files:", circle.len());
        for module in &circle {
            let mut names: Vec<_> = core.names(module).into_iter().collect();
            names.retain(|(other, _)| circle.contains(&other));
            let names: Vec<_> = names
                .iter()
                .map(|(other, name)| format!("{other}::{name}"))
                .collect();
            println!("  {module} names {}", names.join(", "));
        }
    }
}

/// The traits of `throttle/` that others can name and implement, with their lines.
fn traits(core: &Crate) -> Result<Vec<(String, Vec<&String>)>> {
    let begin = Regex::new(r"^pub trait (\w+)(.*)")?;
    let exported = &core.files["crate::throttle"].exported;
    let mut found = Vec::new();
    for (module, file) in core
        .files
        .iter()
        .filter(|(module, _)| room(module) == "throttle")
    {
        for (number, line) in file.code.iter().enumerate() {
            let Some(begin) = begin.captures(line) else {
                continue;
            };
            let is_public = module == "crate::throttle" || exported.contains_key(&begin[1]);
            if is_public && !begin[2].contains("Sealed") {
                // As rustfmt sets it, a brace at the begin of a line closes an item.
                let lines = file.code[number..].iter().take_while(|line| *line != "}");
                found.push((begin[1].to_string(), lines.collect()));
            }
        }
    }
    Ok(found)
}

/// The types of the folders above that the files of `throttle/` name.
fn named_above(core: &Crate) -> BTreeSet<String> {
    let seam = core
        .files
        .keys()
        .filter(|module| room(module) == "throttle");
    let mut names: BTreeSet<_> = seam.flat_map(|module| core.names(module)).collect();
    names.retain(|(module, name)| ABOVE.contains(&room(module)) && name != "self");
    names
        .into_iter()
        .map(|(module, name)| format!("{module}::{name}"))
        .collect()
}

/// Processor seconds of a release build from nothing: with all dependencies, and of the core alone.
fn build(shell: &Shell) -> Result<[f64; 2]> {
    let target = members(shell)?.target_directory.join("xtask/build");
    let options = ["--quiet", "--release", "--target-dir", target.as_str()];
    let seconds = || -> Result<f64> {
        let before = processor_seconds(shell)?;
        cmd!(shell, "cargo build --locked {options...}")
            .quiet()
            .run()?;
        Ok(processor_seconds(shell)? - before)
    };
    shell.remove_path(&target)?;
    let whole = seconds()?;
    cmd!(shell, "cargo clean -p tollgate {options...}")
        .quiet()
        .run()?;
    let alone = seconds()?;
    shell.remove_path(&target)?;
    Ok([whole, alone])
}

/// What the programs took that this one has waited for: `man proc_pid_stat`.
fn processor_seconds(shell: &Shell) -> Result<f64> {
    let stat = shell.read_file("/proc/self/stat")?;
    let ticks = stat.split(' ').skip(15).take(2).map(str::parse::<u32>);
    Ok(f64::from(ticks.sum::<Result<u32, _>>()?) / 100.0)
}
