//! Finds the names that each file of a crate uses from other files, by reading the sources without a compiler.
//!
//! A name is a path from the root of the crate, such as `crate::time::Clock`.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use xshell::Shell;

use crate::workspace::files;

// Compiled once: without optimisation, compiling them for each file would take most of the time.
static USE: LazyLock<Regex> =
    LazyLock::new(|| regex(r"(?m)^[ \t]*(pub(?:\([^)]*\))?\s+)?use\s+([^;]+);"));
static VISIBILITY: LazyLock<Regex> = LazyLock::new(|| regex(r"\bpub\([^)]*\)"));
static PATH: LazyLock<Regex> = LazyLock::new(|| regex(r"\b(?:crate|self|super)(?:::\w+)+"));
/// A list in braces without another one in it, and the path before it.
static GROUP: LazyLock<Regex> = LazyLock::new(|| regex(r"([\w:]*)\{([^{}]*)\}"));

fn regex(pattern: &str) -> Regex {
    Regex::new(pattern).expect("the pattern is valid")
}

/// Returns the files of a folder, without unit tests and without the programs of the guide, which
/// the documentation includes but no module does.
pub(crate) fn sources(shell: &Shell, folder: &Path) -> Result<Vec<PathBuf>> {
    let folder = shell.current_dir().join(folder);
    let other = Regex::new(r"(^|/)tests/|(^|/)(\w+_)?tests\.rs$|^guide/programs/")?;
    let mut found = files(shell, &folder)?;
    found.retain(|path| {
        let place = path.strip_prefix(&folder).unwrap_or(path).to_string_lossy();
        place.ends_with(".rs") && !other.is_match(&place)
    });
    Ok(found)
}

/// Returns the code lines of a file: no comments, no blank lines, no unit tests.
pub(crate) fn code(shell: &Shell, path: &Path) -> Result<Vec<String>> {
    let text = shell.read_file(path)?;
    // The unit tests are the last item of a file, after a line with their `cfg`.
    let tests = text.lines().position(|line| line == "mod tests {");
    let end = tests.map_or(usize::MAX, |tests| tests - 1);
    let code = text.lines().take(end).filter(|line| is_code(line));
    Ok(code.map(String::from).collect())
}

/// Returns whether a line is neither blank nor a comment.
pub(crate) fn is_code(line: &str) -> bool {
    !line.trim().is_empty() && !line.trim().starts_with("//")
}

/// The modules of a folder of sources, each a file, with the names that they use.
pub(crate) struct Crate {
    pub(crate) files: BTreeMap<String, File>,
}

pub(crate) struct File {
    pub(crate) code: Vec<String>,
    used: Vec<String>,
    imported: HashMap<String, String>,
    pub(crate) exported: HashMap<String, String>,
}

impl Crate {
    pub(crate) fn read(shell: &Shell, folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        let folder = shell.current_dir().join(folder);
        for path in sources(shell, &folder)? {
            let place = path.strip_prefix(&folder)?.with_extension("");
            let mut module = "crate".to_string();
            for part in &place {
                if part != "lib" && part != "mod" {
                    module = join(&module, &part.to_string_lossy());
                }
            }
            files.insert(module, File::read(code(shell, &path)?));
        }
        Ok(Self { files })
    }

    /// Returns the name of a path that a module uses, or `None` if it belongs to another crate.
    fn absolute(&self, module: &str, path: &str) -> Option<String> {
        let (first, rest) = path.split_once("::").unwrap_or((path, ""));
        let above = module.rsplit_once("::").map_or(module, |(above, _)| above);
        match first {
            "crate" => Some(path.into()),
            "self" => Some(join(module, rest)),
            "super" if rest == "super" || rest.starts_with("super::") => self.absolute(above, rest),
            "super" => Some(join(above, rest)),
            _ if self.files.contains_key(&join(module, first)) => Some(join(module, path)),
            _ => None,
        }
    }

    /// Returns the module that defines the target of a path, and its name there, or `self` for the module.
    fn defining(&self, mut path: String) -> (String, String) {
        // Two files may name each other by imports of different features.
        let mut seen = BTreeSet::new();
        loop {
            let mut module = path.as_str();
            while !self.files.contains_key(module) {
                module = module.rsplit_once("::").expect("the root is a file").0;
            }
            let behind = path[module.len()..].trim_start_matches("::");
            let (name, rest) = behind.split_once("::").unwrap_or((behind, ""));
            let file = &self.files[module];
            let again = file.exported.get(name).or(file.imported.get(name));
            match again.and_then(|again| self.absolute(module, again)) {
                Some(again) if seen.insert(path.clone()) => path = join(&again, rest),
                _ if name.is_empty() => return (module.into(), "self".into()),
                _ => return (module.into(), name.into()),
            }
        }
    }

    /// Returns the names that a file uses of other files: the defining module, and the name there.
    pub(crate) fn names(&self, module: &str) -> BTreeSet<(String, String)> {
        let paths = self.files[module].used.iter();
        let paths = paths.filter_map(|path| self.absolute(module, path));
        let mut names: BTreeSet<_> = paths.map(|path| self.defining(path)).collect();
        names.retain(|(other, _)| other != module);
        names
    }

    /// Returns the files that name each other, directly or indirectly: the strongly connected components.
    pub(crate) fn circles(&self) -> Vec<Vec<&String>> {
        let after = |module: &String| {
            let names = self.names(module).into_iter();
            names.map(|(other, _)| other).collect()
        };
        let after: BTreeMap<_, Vec<_>> = self.files.keys().map(|it| (it, after(it))).collect();
        let reached = |module| {
            let (mut found, mut left) = (BTreeSet::new(), vec![module]);
            while let Some(module) = left.pop() {
                left.extend(after[module].iter().filter(|other| found.insert(*other)));
            }
            found
        };
        let reached: BTreeMap<_, _> = self.files.keys().map(|it| (it, reached(it))).collect();
        let circle = |module: &String| {
            let mut circle: Vec<_> = self.files.keys().collect();
            circle.retain(|it| reached[module].contains(it) && reached[it].contains(module));
            circle
        };
        let circles: BTreeSet<_> = self.files.keys().map(circle).collect();
        let mut circles: Vec<_> = circles.into_iter().filter(|it| !it.is_empty()).collect();
        circles.sort_by_key(|circle| usize::MAX - circle.len());
        circles
    }
}

fn join(path: &str, more: &str) -> String {
    let middle = if more.is_empty() { "" } else { "::" };
    [path, middle, more].concat()
}

impl File {
    fn read(code: Vec<String>) -> Self {
        let text = code.join("\n");
        let (mut imported, mut exported) = (HashMap::new(), HashMap::new());
        for one in USE.captures_iter(&text) {
            match one.get(1) {
                Some(_) => exported.extend(leaves(&one[2])),
                None => imported.extend(leaves(&one[2])),
            }
        }
        // A file that only re-exports definitions of others does not depend on them.
        let rest = USE.replace_all(&text, "");
        let rest = VISIBILITY.replace_all(&rest, "");
        let used = PATH.find_iter(&rest).map(|path| path.as_str().to_string());
        let used = used.chain(imported.values().cloned()).collect();
        Self {
            code,
            used,
            imported,
            exported,
        }
    }
}

/// Returns the names that `use` brings into a file, each with its path.
fn leaves(tree: &str) -> Vec<(String, String)> {
    let mut list = tree.replace(" as ", "=").replace(char::is_whitespace, "");
    // The innermost lists come first.
    while let Some(found) = GROUP.captures(&list) {
        let parts = found[2].split(',').filter(|part| !part.is_empty());
        let parts: Vec<_> = parts.map(|part| format!("{}{part}", &found[1])).collect();
        list = list.replace(&found[0], &parts.join(","));
    }
    let leaf = |leaf: &str| {
        let (path, name) = leaf.split_once('=').unwrap_or((leaf, ""));
        let path = path.trim_end_matches("::self");
        let last = path.rsplit("::").next().unwrap_or(path);
        let name = if name.is_empty() { last } else { name };
        (name.to_string(), path.to_string())
    };
    list.split(',').map(leaf).collect()
}
