//! Counts the public items of the core and their methods, as rustdoc lists them.

use std::collections::HashSet;

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value};
use xshell::{Shell, cmd};

use crate::workspace::{members, run};

/// Counts the items that a path leads to, each once, wherever it is re-exported, and their own
/// methods.
pub(crate) fn count(shell: &Shell) -> Result<(usize, usize)> {
    let target = members(shell)?.target_directory.join("xtask");
    // The format is not stable yet, so this variable allows it, for the core alone.
    let _unstable = shell.push_env("RUSTC_BOOTSTRAP", "tollgate");
    let rustdoc = "rustdoc -p tollgate --lib --quiet --locked".split(' ');
    let format = ["--", "-Zunstable-options", "--output-format=json"];
    run(cmd!(
        shell,
        "cargo {rustdoc...} --target-dir {target} {format...}"
    ))?;
    let docs: Value = serde_json::from_str(&shell.read_file(target.join("doc/tollgate.json"))?)?;
    let index = docs["index"].as_object();
    let index = index.context("rustdoc has another format")?;
    let (mut items, mut methods) = (0, 0);
    let (mut seen, mut left) = (HashSet::new(), vec![&docs["root"]]);
    while let Some(id) = left.pop() {
        // Items defined by other crates have no entry.
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

/// Returns the kind of an item, and its data of that kind.
fn item<'a>(index: &'a Map<String, Value>, id: &Value) -> Option<(&'a str, &'a Value)> {
    let inner = index.get(&id.to_string())?["inner"].as_object()?;
    let (kind, inner) = inner.iter().next()?;
    Some((kind, inner))
}

fn list<'a>(inner: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    inner[key].as_array().into_iter().flatten()
}

fn functions(index: &Map<String, Value>, block: &Value) -> usize {
    let kinds = list(block, "items").filter_map(|id| item(index, id));
    kinds.filter(|(kind, _)| *kind == "function").count()
}
