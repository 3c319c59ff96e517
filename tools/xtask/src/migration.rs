//! Checks whether the table of each page in `src/migrate.rs` names, in backticks in its left column, every public
//! item, method, variant and field of its files, and whether the page names the version in Cargo.lock,
//! whose sources are read. So an update of a peer requires a look at its page.

use std::collections::BTreeSet;

use anyhow::{Context, Result};
use regex::Regex;
use xshell::Shell;

use crate::workspace::{files, metadata, rows};

/// A page, its package, the package's files and folders, and names that no user's program has: those of the
/// sampler behind `Jitter`, in a private module, and those of the private state of a wait.
const PAGES: &str = "
from_tokio          | tokio          | src/sync/semaphore.rs         |
from_async_lock     | async-lock     | src/semaphore.rs              |
from_governor       | governor       | src                           | UniformJitter
from_tower_governor | tower_governor | src                           |
from_leaky_bucket   | leaky-bucket   | src/lib.rs                    | complete get_task
from_tower          | tower          | src/limit src/load_shed       |
from_object_store   | object_store   | src/limit.rs src/throttle.rs  |
";

pub(crate) fn migration(shell: &Shell) -> Result<bool> {
    let public = Public::new()?;
    let line = Regex::new(r"(?m)^ *//! \| (.*?) \| ")?;
    let quoted = Regex::new("`([^`]*)`")?;
    let word = Regex::new(r"\w+")?;
    let metadata = metadata(shell, &[])?;
    let pages = shell.read_file("src/migrate.rs")?;
    let mut passed = true;
    for row in rows(PAGES) {
        let (page, name, places) = (row[0], row[1], row[2].split(' '));
        let mut packages = metadata.packages.iter();
        let package = packages.rfind(|package| package.name == name);
        let package = package.with_context(|| format!("nothing depends on {name}"))?;
        let mut names = BTreeSet::new();
        for place in places {
            let place = package.manifest_path.with_file_name(place);
            for file in files(shell, place.as_std_path())? {
                if !file.ends_with("tests.rs") {
                    names.extend(public.names(&shell.read_file(file)?));
                }
            }
        }
        names.retain(|name| !row[3].split(' ').any(|hidden| hidden == name));
        let count = names.len();
        let begin = format!("pub mod {page} {{");
        let (_, text) = pages.split_once(&begin).context(begin.clone())?;
        let (text, _) = text.split_once("\n}").context(begin)?;
        for line in line.captures_iter(text) {
            for quoted in quoted.captures_iter(&line[1]) {
                for word in word.find_iter(&quoted[1]) {
                    names.remove(word.as_str());
                }
            }
        }
        let (missing, version) = (names.len(), &package.version);
        println!("{page}: {count} names of {name} {version}, {missing} missing");
        if count == 0 || missing > 0 {
            println!("  missing: {}", Vec::from_iter(names).join(", "));
            passed = false;
        }
        let versions = [format!("{name} {version}"), format!("{name} ({version})")];
        if !versions.iter().any(|it| text.contains(it)) {
            println!("  the page is not for {version}");
            passed = false;
        }
    }
    Ok(passed)
}

/// Finds public items, methods and fields, and the members of public traits and enums.
struct Public {
    item: Regex,
    block: Regex,
    of_trait: Regex,
    of_enum: Regex,
    tests: Regex,
}

impl Public {
    fn new() -> Result<Self> {
        let (begin, kinds) = (
            r"^\s*pub (?:const |async )*",
            "struct|enum|trait|type|const|fn",
        );
        Ok(Self {
            item: Regex::new(&format!(r"{begin}(?:(?:{kinds}) (\w+)|(\w+):)"))?,
            block: Regex::new(r"^pub (trait|enum) .*[^;}]$")?,
            of_trait: Regex::new(r"^    fn (\w+)")?,
            of_enum: Regex::new(r"^    ([A-Z]\w*)\b")?,
            tests: Regex::new(r"(?m)^#\[cfg\(test\)\]\nmod \w+ \{")?,
        })
    }

    /// Returns the names in a file, before its tests.
    fn names(&self, source: &str) -> Vec<String> {
        let mut block = None;
        let mut names = Vec::new();
        let source = self.tests.splitn(source, 2).next().unwrap_or_default();
        for line in source.lines() {
            if let Some(begins) = self.block.captures(line) {
                block = match &begins[1] {
                    "trait" => Some(&self.of_trait),
                    _ => Some(&self.of_enum),
                };
            } else if line == "}" {
                block = None;
            }
            if let Some(found) = self.item.captures(line).or_else(|| block?.captures(line)) {
                let found = found.iter().skip(1).flatten();
                names.extend(found.map(|name| name.as_str().into()));
            }
        }
        names
    }
}
