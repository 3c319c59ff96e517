//! Measures the size of the library, each figure next to its budget.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use cargo_metadata::DependencyKind;
use regex::Regex;
use xshell::{Shell, cmd};

use crate::uses::{self, Crate};
use crate::workspace::{members, run};
use crate::{public_items, tree};

/// The folders that implement the traits of `throttle/`, which therefore names nothing of them.
const ABOVE: [&str; 6] = ["adaptive", "concurrency", "fair", "gate", "keyed", "rate"];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the lines of each folder
    #[arg(long)]
    rooms: bool,
    /// List the traits of `throttle/`, and the types of the folders above that it names
    #[arg(long)]
    names: bool,
    /// List the files of each circle, and the names that they use of each other
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
    let mut table = Table::default();
    table.print_figures(shell, &core)?;
    if options.build {
        let [whole, alone] = build(shell)?;
        let title = "s of processor time for a release build with all dependencies";
        println!("{whole:8.1}            {title}");
        let mark = table.mark(alone > 5.0);
        println!("{alone:8.1}        5 {mark} s of it for the core alone");
    }
    if table.above > 0 {
        println!("{} figures are above their budgets", table.above);
    }
    Ok(table.above == 0 || !options.check)
}

/// Counts the figures that are above their budgets.
#[derive(Default)]
struct Table {
    above: usize,
}

impl Table {
    fn mark(&mut self, is_above: bool) -> char {
        self.above += usize::from(is_above);
        if is_above { '>' } else { ' ' }
    }

    /// Prints a figure, its budget, and its description.
    fn row(&mut self, figure: usize, most: usize, title: &str) {
        let mark = self.mark(figure > most);
        println!("{figure:8} {most:>8} {mark} {title}");
    }

    fn print_figures(&mut self, shell: &Shell, core: &Crate) -> Result<()> {
        let rooms = rooms(core);
        let traits = traits(core)?;
        let in_traits = |found: &dyn Fn(&str) -> bool| {
            let lines = traits.iter().flat_map(|(_, body)| body);
            lines.filter(|line| found(line)).count()
        };
        let methods = in_traits(&|line| line.starts_with("    fn "));
        let hidden = in_traits(&|line| line.contains("#[doc(hidden)]"));
        let title = "traits for throttles in throttle/ (--names)";
        self.row(traits.len(), 5, title);
        self.row(methods, 13, "methods of these traits");
        self.row(hidden, 0, "hidden parts of these traits");
        self.row(rooms["throttle"], 900, "lines of code in throttle/");
        let title = "types of other folders that throttle/ names (--names)";
        self.row(named_above(core).len(), 0, title);
        let mut all = rooms.values().sum();
        self.row(all, 13_500, "lines of code in src, without tests (--rooms)");
        for name in ["tollgate-tower", "tollgate-io", "tollgate-observe"] {
            let mut lines = 0;
            for path in uses::sources(shell, &Path::new("crates").join(name).join("src"))? {
                lines += uses::code(shell, &path)?.len();
            }
            println!("{lines:8}            lines of code in {name}");
            all += lines;
        }
        self.row(all, 16_700, "lines of code in src and in these");
        let code = core.files.values().flat_map(|file| &file.code);
        let macros = code.filter(|line| line.trim_start().starts_with("macro_rules!"));
        self.row(macros.count(), 8, "macros in src");
        let members = members(shell)?;
        let package = members.root_package().expect("the root has a package");
        let mut features: Vec<_> = package.features.keys().collect();
        features.retain(|name| *name != "default" && !name.starts_with('_'));
        self.row(features.len(), 6, "features");
        let mut needed: Vec<_> = package.dependencies.iter().collect();
        needed.retain(|one| one.kind == DependencyKind::Normal && one.optional);
        self.row(needed.len(), 8, "optional dependencies");
        let circles = core.circles();
        let largest = circles.iter().map(Vec::len).max().unwrap_or(0);
        self.row(circles.len(), 8, "circles of files (--circles)");
        self.row(largest, 2, "files in the largest circle");
        let (items, methods) = public_items::count(shell)?;
        self.row(items, 70, "public items, by default features");
        self.row(methods, 290, "methods of theirs");
        let dependencies = tree::crates(shell, "tollgate --edges=normal")?.len() - 1;
        self.row(dependencies, 18, "dependencies by default features");
        let listed = cmd!(shell, "git ls-files").read()?;
        for (folder, most) in [("tests", 24_000), ("loom", 3_000), ("benches", 9_000)] {
            let mut lines = 0;
            for path in listed.lines().filter(|path| path.ends_with(".rs")) {
                if path.split('/').next() == Some(folder) {
                    let text = shell.read_file(path)?;
                    lines += text.lines().filter(|line| uses::is_code(line)).count();
                }
            }
            self.row(lines, most, &format!("lines of code in {folder}/"));
        }
        self.row(listed.lines().count(), 750, "files in the repository");
        Ok(())
    }
}

/// Returns the folder or file in `src` that contains a module.
fn room(module: &str) -> &str {
    module.split("::").nth(1).unwrap_or("lib")
}

/// Returns the lines of code by folder.
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
            let mut names = core.names(module);
            names.retain(|(other, _)| circle.contains(&other));
            println!("  {module} names {}", paths(names).join(", "));
        }
    }
}

fn paths(names: BTreeSet<(String, String)>) -> Vec<String> {
    let paths = names
        .iter()
        .map(|(module, name)| format!("{module}::{name}"));
    paths.collect()
}

fn modules_of_throttle(core: &Crate) -> impl Iterator<Item = &String> {
    let modules = core.files.keys();
    modules.filter(|module| room(module) == "throttle")
}

/// Returns the traits of `throttle/` that others can name and implement, with their lines.
fn traits(core: &Crate) -> Result<Vec<(String, Vec<&String>)>> {
    let begin = Regex::new(r"^pub trait (\w+)(.*)")?;
    let exported = &core.files["crate::throttle"].exported;
    let mut found = Vec::new();
    for module in modules_of_throttle(core) {
        let file = &core.files[module];
        for (number, line) in file.code.iter().enumerate() {
            let Some((_, [name, bounds])) = begin.captures(line).map(|it| it.extract()) else {
                continue;
            };
            let is_public = module == "crate::throttle" || exported.contains_key(name);
            if is_public && !bounds.contains("Sealed") {
                // In rustfmt's style, a brace at the beginning of a line closes an item.
                let lines = file.code[number..].iter().take_while(|line| *line != "}");
                found.push((name.to_string(), lines.collect()));
            }
        }
    }
    Ok(found)
}

/// Returns the types of the folders above that the files of `throttle/` name.
fn named_above(core: &Crate) -> Vec<String> {
    let names = modules_of_throttle(core).flat_map(|module| core.names(module));
    let mut names: BTreeSet<_> = names.collect();
    names.retain(|(module, name)| ABOVE.contains(&room(module)) && name != "self");
    paths(names)
}

/// Returns the processor seconds of a clean release build: with all dependencies, and of the core alone.
fn build(shell: &Shell) -> Result<[f64; 2]> {
    let target = members(shell)?.target_directory.join("xtask/build");
    let options = ["--quiet", "--release", "--target-dir", target.as_str()];
    let seconds = || -> Result<f64> {
        let before = processor_seconds(shell)?;
        run(cmd!(shell, "cargo build --locked {options...}"))?;
        Ok(processor_seconds(shell)? - before)
    };
    shell.remove_path(&target)?;
    let whole = seconds()?;
    run(cmd!(shell, "cargo clean -p tollgate {options...}"))?;
    let alone = seconds()?;
    shell.remove_path(&target)?;
    Ok([whole, alone])
}

/// Returns the processor time of the child processes that this program has waited for: `man proc_pid_stat`.
fn processor_seconds(shell: &Shell) -> Result<f64> {
    let stat = shell.read_file("/proc/self/stat")?;
    let ticks = stat.split(' ').skip(15).take(2).map(str::parse::<u32>);
    Ok(f64::from(ticks.sum::<Result<u32, _>>()?) / 100.0)
}
