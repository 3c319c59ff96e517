//! Measures the library: figures of its structure, each next to its bound, and figures of its size, which have no bound.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cargo_metadata::DependencyKind;
use regex::Regex;
use xshell::{Shell, cmd};

use crate::uses::{self, Crate};
use crate::workspace::{members, run};
use crate::{public_items, tree};

#[derive(clap::Args)]
pub(crate) struct Options {
    /// List the lines of each folder
    #[arg(long)]
    rooms: bool,
    /// List the traits of `throttle/`, and the types of the folders above that it names
    #[arg(long)]
    names: bool,
    /// List the files of each circle of the core and of tollgate-redis, and the names that they use of each other
    #[arg(long)]
    circles: bool,
    /// Exit with 1 if a figure is above its bound, and leave out the public items, which need a build
    #[arg(long)]
    check: bool,
    /// Measure the processor time of a release build of the core
    #[arg(long)]
    build: bool,
}

pub(crate) fn size(shell: &Shell, options: &Options) -> Result<bool> {
    let core = Crate::read(shell, Path::new("src"))?;
    let redis = Crate::read(shell, Path::new("crates/tollgate-redis/src"))?;
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
        print_circles(&redis);
    }
    println!("     now    bound");
    let mut above = 0;
    for (figure, most, title) in structure(shell, &core, &redis)? {
        let mark = if figure > most { '>' } else { ' ' };
        above += usize::from(figure > most);
        println!("{figure:8} {most:>8} {mark} {title}");
    }
    println!("     now");
    print_lines(shell, &core)?;
    if !options.check {
        let (items, methods) = public_items::count(shell)?;
        println!("{items:8} public items, by default features");
        println!("{methods:8} methods of theirs");
    }
    if options.build {
        let [whole, alone] = build(shell)?;
        println!("{whole:8.1} s of processor time for a release build with all dependencies");
        println!("{alone:8.1} s of it for the core alone");
    }
    if above > 0 {
        println!("figures above their bounds: {above}");
    }
    Ok(above == 0 || !options.check)
}

/// Returns the figures of the structure, each with its bound and its description. A change that raises
/// a bound says why.
fn structure(
    shell: &Shell,
    core: &Crate,
    redis: &Crate,
) -> Result<Vec<(usize, usize, &'static str)>> {
    let traits = traits(core)?;
    let lines = traits.iter().flat_map(|(_, body)| body);
    let method = Regex::new(METHOD)?;
    let methods = lines.clone().filter(|line| method.is_match(line)).count();
    let hides = Regex::new(r"#\[doc\(.*\bhidden\b")?;
    let hidden = lines.filter(|line| hides.is_match(line)).count();
    let code = core.files.values().flat_map(|file| &file.code);
    let macros = code.filter(|line| line.trim_start().starts_with("macro_rules!"));
    let largest = |circles: &[Vec<&String>]| circles.iter().map(Vec::len).max().unwrap_or(0);
    let (circles, redis) = (core.circles(), redis.circles());
    let dependencies = tree::crates(shell, "tollgate --edges=normal")?.len() - 1;
    let lines_of = |path| Ok::<_, xshell::Error>(shell.read_file(path)?.lines().count());
    let (guard, state) = ("Locked", guarded(core, "rate", "Locked")?);
    let guarded = methods_of(core, "rate", guard)? + methods_of(core, "rate", state)?;
    let rules = bodies(core, "algorithm", "trait", "Rule")?.concat();
    let rules = rules.iter().filter(|line| method.is_match(line)).count();
    Ok(vec![
        (traits.len(), 5, "public traits in throttle/ (--names)"),
        (methods, 11, "methods of these traits"),
        (hidden, 0, "hidden parts of these traits"),
        (
            named_above(core).len(),
            0,
            "types of other folders that throttle/ names (--names)",
        ),
        (
            guarded,
            34,
            "methods of the guard of rate/ and of its state",
        ),
        (fields_of(core, "rate", state)?, 8, "fields of that state"),
        (rules, 14, "methods of the trait Rule"),
        (circles.len(), 4, "circles of files (--circles)"),
        (largest(&circles), 2, "files in the largest circle"),
        (
            redis.len(),
            1,
            "circles of files in tollgate-redis (--circles)",
        ),
        (largest(&redis), 3, "files in its largest circle"),
        (macros.count(), 6, "macros in src"),
        (dependencies, 18, "dependencies by default features"),
        (lines_of("BENCHMARKS.md")?, 70, "lines of BENCHMARKS.md"),
        (lines_of("README.md")?, 115, "lines of README.md"),
    ])
}

/// Prints the lines of code, the files and the features.
fn print_lines(shell: &Shell, core: &Crate) -> Result<()> {
    let rooms = rooms(core);
    println!("{:8} lines of code in throttle/", rooms["throttle"]);
    let mut all = rooms.values().sum::<usize>();
    println!("{all:8} lines of code in src, without tests (--rooms)");
    for name in [
        "tollgate-adaptive",
        "tollgate-http",
        "tollgate-tower",
        "tollgate-io",
        "tollgate-observe",
    ] {
        let mut lines = 0;
        for path in uses::sources(shell, &Path::new("crates").join(name).join("src"))? {
            lines += uses::code(shell, &path)?.len();
        }
        println!("{lines:8} lines of code in {name}");
        all += lines;
    }
    println!("{all:8} lines of code in src and in these");
    let listed = cmd!(shell, "git ls-files").read()?;
    for folder in ["tests", "loom", "benches"] {
        let mut lines = 0;
        for path in listed.lines().filter(|path| path.ends_with(".rs")) {
            if path.split('/').next() == Some(folder) {
                let text = shell.read_file(path)?;
                lines += text.lines().filter(|line| uses::is_code(line)).count();
            }
        }
        println!("{lines:8} lines of code in {folder}/");
    }
    println!("{:8} files in the repository", listed.lines().count());
    let members = members(shell)?;
    let package = members.root_package().expect("the root has a package");
    let mut features: Vec<_> = package.features.keys().collect();
    features.retain(|name| *name != "default" && !name.starts_with('_'));
    println!("{:8} features", features.len());
    let mut needed: Vec<_> = package.dependencies.iter().collect();
    needed.retain(|one| one.kind == DependencyKind::Normal && one.optional);
    println!("{:8} optional dependencies", needed.len());
    Ok(())
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

/// A method of a trait or of a type: in rustfmt's style, it is indented once.
const METHOD: &str = r"^    (pub(\([^)]*\))? )?(\w+ )*fn ";

/// Traits that are `pub` in a private file, for signatures, and that nobody outside can name.
const INTERNAL: [&str; 1] = ["Rest"];

/// Returns the traits of `throttle/` that others can name and implement, with their lines.
fn traits(core: &Crate) -> Result<Vec<(String, Vec<&String>)>> {
    let begin = Regex::new(r"^\s*pub (?:unsafe )?trait (\w+)(.*)")?;
    let mut found = Vec::new();
    for module in modules_of_throttle(core) {
        let file = &core.files[module];
        for (number, line) in file.code.iter().enumerate() {
            let Some((_, [name, bounds])) = begin.captures(line).map(|it| it.extract()) else {
                continue;
            };
            if !INTERNAL.contains(&name) && !bounds.contains("Sealed") {
                // In rustfmt's style, a brace at the beginning of a line closes an item.
                let lines = file.code[number..].iter().take_while(|line| *line != "}");
                found.push((name.to_string(), lines.collect()));
            }
        }
    }
    Ok(found)
}

/// Returns the bodies of the items of a room that are declared by this keyword and name; `impl` stands for the methods
/// of a type, those of traits included. An item that is not there is an error, so that no bound is lost with a name.
fn bodies<'a>(
    core: &'a Crate,
    folder: &str,
    keyword: &str,
    name: &str,
) -> Result<Vec<Vec<&'a String>>> {
    // An item of a private module may be public, and a block of methods may be of a trait.
    let before = r"^(?:pub(?:\([^)]*\))? )?";
    let of_trait = if keyword == "impl" {
        "(?: [^ ]+ for)?"
    } else {
        ""
    };
    let after = r"\b(?:<[^>]*>)?(?:: [^{]*)?(?: \{)?$";
    let begin = format!("{before}{keyword}(?:<[^>]*>)?{of_trait} {name}{after}");
    let begin = Regex::new(&begin)?;
    let mut found = Vec::new();
    let files = core.files.iter();
    for (_, file) in files.filter(|(module, _)| room(module) == folder) {
        for (number, line) in file.code.iter().enumerate() {
            if begin.is_match(line) {
                // In rustfmt's style, a brace at the beginning of a line closes an item.
                let lines = file.code[number + 1..].iter();
                found.push(lines.take_while(|line| *line != "}").collect());
            }
        }
    }
    ensure!(
        !found.is_empty(),
        "no `{keyword} {name}` in src/{folder}: adapt the bounds of `size`"
    );
    Ok(found)
}

/// Returns the name of the type whose lock the guard holds.
fn guarded<'a>(core: &'a Crate, folder: &str, guard: &str) -> Result<&'a str> {
    let lock = Regex::new(r"\bMutexGuard<'\w+, (\w+)>")?;
    let fields = bodies(core, folder, "struct", guard)?.concat();
    let name = fields.iter().find_map(|line| lock.captures(line));
    let name = name.with_context(|| format!("{guard} of src/{folder} holds no `MutexGuard`"))?;
    Ok(name.get(1).expect("it is a part of the pattern").as_str())
}

/// Returns the number of the methods of a type of a room.
fn methods_of(core: &Crate, folder: &str, name: &str) -> Result<usize> {
    let method = Regex::new(METHOD)?;
    let lines = bodies(core, folder, "impl", name)?.concat();
    Ok(lines.iter().filter(|line| method.is_match(line)).count())
}

fn fields_of(core: &Crate, folder: &str, name: &str) -> Result<usize> {
    let field = Regex::new(r"^    (?:pub(?:\([^)]*\))? )?\w+: ")?;
    let lines = bodies(core, folder, "struct", name)?.concat();
    Ok(lines.iter().filter(|line| field.is_match(line)).count())
}

/// Returns what the files of `throttle/` name of the folders above: those that use `throttle/`, such as for its traits.
fn named_above(core: &Crate) -> Vec<String> {
    let mut above: BTreeSet<_> = core.files.keys().map(|module| room(module)).collect();
    above.retain(|folder| {
        let modules = core.files.keys().filter(|module| room(module) == *folder);
        let mut names = modules.flat_map(|module| core.names(module));
        *folder != "throttle" && names.any(|(module, _)| room(&module) == "throttle")
    });
    let names = modules_of_throttle(core).flat_map(|module| core.names(module));
    let mut names: BTreeSet<_> = names.collect();
    names.retain(|(module, _)| above.contains(room(module)));
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
