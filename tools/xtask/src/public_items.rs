//! The public items of the core and their methods, as rustdoc lists them.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use xshell::{Shell, cmd};

use crate::workspace::members;

/// Counts the items that a path leads to, each once, wherever it is re-exported, and the methods of
/// their own.
pub(crate) fn count(shell: &Shell) -> Result<(usize, usize)> {
    let target = members(shell)?.target_directory.join("xtask");
    let options = [
        "--target-dir",
        target.as_str(),
        "--",
        "-Zunstable-options",
        "--output-format=json",
    ];
    // The format is not stable yet, so it is for the compiler that the core alone asks for it.
    let rustdoc = cmd!(
        shell,
        "cargo rustdoc -p tollgate --lib --quiet --locked {options...}"
    );
    rustdoc.env("RUSTC_BOOTSTRAP", "tollgate").quiet().run()?;
    let docs: Value = serde_json::from_str(&shell.read_file(target.join("doc/tollgate.json"))?)?;
    let index = docs["index"]
        .as_object()
        .context("rustdoc has another format")?;
    let (mut items, mut methods) = (0, 0);
    let (mut seen, mut left) = (HashSet::new(), vec![&docs["root"]]);
    while let Some(id) = left.pop() {
        // What others define has no entry.
        let Some((kind, inner)) = item(index, id).filter(|_| seen.insert(id.to_string())) else {
            continue;
        };
        items += usize::from(["struct", "enum", "trait", "function", "type_alias"].contains(&kind));
        match kind {
            "use" => left.push(&inner["id"]),
            "module" => left.extend(list(inner, "items")),
            "trait" => methods += functions(index, inner),
            "struct" | "enum" => {
                let blocks = list(inner, "impls").filter_map(|id| item(index, id));
                let own = blocks.filter(|(_, block)| block["trait"].is_null());
                methods += own.map(|(_, block)| functions(index, block)).sum::<usize>();
            }
            "function" | "type_alias" | "macro" | "constant" | "static" => {}
            _ => bail!("rustdoc has a new kind of item, {kind}"),
        }
    }
    Ok((items, methods))
}

/// The kind of an item, and what it has for that.
fn item<'a>(index: &'a Map<String, Value>, id: &Value) -> Option<(&'a str, &'a Value)> {
    let inner = index.get(&id.to_string())?["inner"].as_object()?;
    inner
        .iter()
        .next()
        .map(|(kind, inner)| (kind.as_str(), inner))
}

fn list<'a>(inner: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    inner[key].as_array().into_iter().flatten()
}

fn functions(index: &Map<String, Value>, block: &Value) -> usize {
    let kinds = list(block, "items").filter_map(|id| item(index, id));
    kinds.filter(|(kind, _)| *kind == "function").count()
}
