//! Checks every link of the documentation as docs.rs shows it, without a network: it must lead to a page, and to
//! an anchor of it.
//!
//! 1. Each public crate is built alone, so that its links to the others are the addresses on docs.rs; no page
//!    leads to the folder beside it, which docs.rs does not have.
//! 2. A link within a crate, or to another of these crates on docs.rs, needs its file and its anchor.
//! 3. The shape of other addresses is checked, but nobody is asked for them. A path of the repository leads nowhere:
//!    no tarball has it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use cargo_metadata::Package;
use regex::Regex;
use xshell::{Shell, cmd};

use crate::docs_rs::{document, library};
use crate::workspace::{dependencies, files, members, public};

/// The maximum number of structs on the first page of the core: a longer list hides those that users choose between.
const MOST_STRUCTS: usize = 14;

/// Pages that are the same for every crate, and that docs.rs leaves out.
const OF_RUSTDOC: [&str; 2] = ["/help.html", "/settings.html"];

pub(crate) fn links(shell: &Shell) -> Result<bool> {
    let members = members(shell)?;
    let public = public(&members);
    let target = members.target_directory.join("links");
    let (built, site) = (target.join("doc"), target.join("site"));
    // A page of an earlier run would hide a dead end.
    shell.remove_path(&built)?;
    shell.remove_path(&site)?;
    shell.create_dir(&site)?;
    let addresses = addresses(shell, &public)?;
    let names: Vec<_> = public.iter().map(|one| one.name.to_string()).collect();
    // The same for all, or else build scripts that read it would run again for each.
    let unstable: Vec<_> = names.iter().map(|name| library(name)).collect();
    let unstable = unstable.join(",");
    let mut docs = Docs::new()?;
    for package in public {
        let folder = package.manifest_path.parent().context("a manifest")?;
        let (folder, options) = (folder.as_std_path(), ["--locked".into()]);
        let into = target.as_std_path();
        document(
            shell, package, folder, into, &unstable, &options, &addresses,
        )?;
        let place = site.join(&*package.name);
        std::fs::rename(&built, &place)?;
        docs.read(shell, &package.name, place.as_std_path())?;
    }
    let mut wrong = docs.check(&names);
    wrong.extend(docs.check_markdown(shell)?);
    let structs = docs.structs("tollgate/tollgate/index.html");
    println!("structs on the first page of tollgate: {structs}, at most {MOST_STRUCTS}");
    ensure!(structs > 0, "the first page has another format");
    if structs > MOST_STRUCTS {
        wrong.push("tollgate/index.html lists too many structs".into());
    }
    for line in &wrong {
        println!("{line}");
    }
    Ok(wrong.is_empty())
}

/// Returns the flags of rustdoc by which links to other crates lead to docs.rs, which sets the same by cargo's
/// `-Zrustdoc-map`.
fn addresses(shell: &Shell, public: &[&Package]) -> Result<Vec<String>> {
    let mut flags = vec!["-Zunstable-options --extern-html-root-takes-precedence".to_string()];
    for package in &dependencies(shell)?.packages {
        let version = if public.iter().any(|one| one.id == package.id) {
            "latest".to_string()
        } else if package.source.is_some() {
            package.version.to_string()
        } else {
            continue;
        };
        let mut libraries = package.targets.iter();
        if let Some(one) = libraries.find(|one| one.is_lib() || one.is_proc_macro()) {
            let address = format!("https://docs.rs/{}/{version}", package.name);
            flags.push(format!(
                "--extern-html-root-url {}={address}",
                library(&one.name)
            ));
        }
    }
    Ok(flags)
}

/// A page of the documentation, or another file, which has no links.
#[derive(Default)]
struct Page {
    links: BTreeSet<String>,
    anchors: HashSet<String>,
    structs: usize,
    redirect: Option<String>,
}

/// Files by their paths, such as `tollgate-io/tollgate_io/index.html`.
struct Docs {
    files: BTreeMap<String, Page>,
    script: Regex,
    tag: Regex,
    attribute: Regex,
    on_docs_rs: Regex,
    unresolved: Regex,
    shapes: [Regex; 3],
}

impl Docs {
    fn new() -> Result<Self> {
        let path = r"(?:/[^\s#?]*)?(?:\?\S*)?(?:#\S+)?";
        let crates_io = r"^https://crates\.io/(?:crates/[\w-]+)?$";
        let docs_rs = format!(r"^https://docs\.rs/[\w-]+(?:/(?:latest|\d[\w.+-]*){path})?$");
        let other = format!(r"^https?://[\w-]+(?:\.[\w-]+)+{path}$");
        Ok(Self {
            files: BTreeMap::new(),
            script: Regex::new(r"(?is)(<script[^>]*>).*?</script>")?,
            tag: Regex::new(r"<(\w+)\s([^<>]*)>")?,
            attribute: Regex::new(r#"([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))"#)?,
            on_docs_rs: Regex::new(r"(?i)^https?://(?:www\.)?docs\.rs/([\w-]+)(.*)$")?,
            unresolved: Regex::new(r"^\w+(?:::\w+)+$")?,
            shapes: [
                Regex::new(crates_io)?,
                Regex::new(&docs_rs)?,
                Regex::new(&other)?,
            ],
        })
    }

    /// Reads the documentation of a crate.
    fn read(&mut self, shell: &Shell, name: &str, folder: &Path) -> Result<()> {
        for path in files(shell, folder)? {
            let place = path.strip_prefix(folder)?.to_string_lossy();
            let place = format!("{name}/{}", place.replace('\\', "/"));
            let mut page = Page::default();
            if place.ends_with(".html") && !OF_RUSTDOC.iter().any(|name| place.ends_with(name)) {
                page = self.page(&shell.read_file(&path)?);
            }
            self.files.insert(place, page);
        }
        Ok(())
    }

    fn page(&self, text: &str) -> Page {
        let mut page = Page::default();
        let text = self.script.replace_all(text, "$1");
        for tag in self.tag.captures_iter(&text) {
            for attribute in self.attribute.captures_iter(&tag[2]) {
                let value = attribute.iter().skip(2).flatten().next();
                let value = unescaped(value.map_or("", |value| value.as_str()));
                match &*attribute[1].to_lowercase() {
                    "content" => {
                        let next = value.strip_prefix("0;URL=");
                        page.redirect = next.map(String::from).or(page.redirect);
                    }
                    // rustdoc's own link past the sidebar, which pages of sources do not need.
                    "href" if value == "#main-content" => {}
                    "href" | "xlink:href" | "src" => _ = page.links.insert(value),
                    "srcset" => {
                        let each = value
                            .split(',')
                            .filter_map(|one| one.split_whitespace().next());
                        page.links.extend(each.map(String::from));
                    }
                    "id" => _ = page.anchors.insert(value),
                    "name" if &tag[1] == "a" => _ = page.anchors.insert(value),
                    "class" if &tag[1] == "a" && value == "struct" => page.structs += 1,
                    _ => {}
                }
            }
        }
        page
    }

    fn structs(&self, page: &str) -> usize {
        self.files.get(page).map_or(0, |page| page.structs)
    }

    /// Checks all links, prints their numbers, and returns those that lead nowhere.
    fn check(&self, ours: &[String]) -> Vec<String> {
        let mut wrong = Vec::new();
        for name in ours {
            let [mut pages, mut inside, mut between, mut outside] = [0; 4];
            let own = format!("{name}/");
            let own = self
                .files
                .iter()
                .filter(|(place, _)| place.starts_with(&own));
            for (place, page) in own {
                pages += usize::from(place.ends_with(".html"));
                for link in &page.links {
                    // An item may have documentation of other crates, whose links rustdoc may not resolve.
                    // If one of ours is not resolved, rustdoc fails.
                    if self.unresolved.is_match(link) && !link.starts_with("tollgate") {
                        continue;
                    }
                    let problem = if let Some(problem) = self.on_docs_rs(link) {
                        between += 1;
                        problem
                    } else if has_scheme(link) {
                        outside += 1;
                        self.misshapen(link)
                    } else {
                        inside += 1;
                        match resolved(place, link) {
                            Ok(link) => self.missing(&link),
                            Err(problem) => Some(problem),
                        }
                    };
                    if let Some(problem) = problem {
                        wrong.push(format!("{place}: {link}: {problem}"));
                    }
                }
            }
            println!(
                "{name}: {pages} pages; links: {inside} within, {between} to our crates on docs.rs, \
                 {outside} to others, whose shape alone is checked"
            );
        }
        wrong
    }

    /// Checks the links of all Markdown files and of the playground to our crates on docs.rs.
    fn check_markdown(&self, shell: &Shell) -> Result<Vec<String>> {
        let link = Regex::new(r#"https?://docs\.rs/[^\s)\]<>`"]+"#)?;
        let (mut count, mut wrong) = (0, Vec::new());
        let page = "tools/playground/page.html";
        for file in cmd!(shell, "git ls-files -- *.md {page}").read()?.lines() {
            for found in link.find_iter(&shell.read_file(file)?) {
                let found = found.as_str().trim_end_matches(['.', ',', ';', ':']);
                if let Some(problem) = self.on_docs_rs(found) {
                    count += 1;
                    wrong.extend(problem.map(|problem| format!("{file}: {found}: {problem}")));
                }
            }
        }
        println!("Markdown files and the playground: {count} links to our crates on docs.rs");
        Ok(wrong)
    }

    /// Checks a link to one of our crates on docs.rs; returns `None` for any other link.
    fn on_docs_rs(&self, link: &str) -> Option<Option<&'static str>> {
        let found = self.on_docs_rs.captures(link)?;
        let (name, path) = (&found[1], &found[2]);
        let path = path.strip_prefix("/latest").unwrap_or(path);
        let path = path.strip_prefix('/').or(path.is_empty().then_some(path));
        let problem = match path {
            Some(path) if link.starts_with("https://docs.rs/") => {
                self.missing(&format!("{name}/{}", of_crate(name, path)))
            }
            _ => Some("is not https://docs.rs/<crate>/latest/.."),
        };
        name.starts_with("tollgate").then_some(problem)
    }

    /// Checks a path of a page and its anchor. A page in the place where an item is defined leads to that of its
    /// public path, and keeps the anchor.
    fn missing(&self, link: &str) -> Option<&'static str> {
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = path.split('?').next().unwrap_or_default();
        let index = format!("{}/index.html", path.trim_end_matches('/'));
        let page = self.files.get(path).or_else(|| self.files.get(&index));
        let Some(page) = page else {
            return Some("there is no such page");
        };
        if let Some(next) = &page.redirect {
            return match resolved(path, &format!("{next}#{anchor}")) {
                Ok(next) => self.missing(&next),
                Err(problem) => Some(problem),
            };
        }
        let has = |anchor: &str| anchor.is_empty() || page.anchors.contains(anchor);
        // A source has numbered lines, and its links name a range of them.
        let lines = anchor.split_once('-').filter(|_| path.contains("/src/"));
        let found = match lines {
            Some((first, last)) => has(first) && has(last),
            None => has(anchor),
        };
        (!found).then_some("the page has no such anchor")
    }

    /// Checks an address of another site.
    fn misshapen(&self, link: &str) -> Option<&'static str> {
        let [crates_io, docs_rs, other] = &self.shapes;
        let shape = match link {
            _ if link.starts_with("https://crates.io") => crates_io,
            _ if link.starts_with("https://docs.rs") => docs_rs,
            _ => other,
        };
        (!shape.is_match(link)).then_some("is no address of a page")
    }
}

/// Returns the path that a relative link on a page leads to.
fn resolved(place: &str, link: &str) -> Result<String, &'static str> {
    if link.is_empty() || link.starts_with('/') {
        return Err("is no path within the documentation");
    }
    if link.starts_with('#') {
        return Ok(format!("{place}{link}"));
    }
    let mut parts: Vec<_> = place.split('/').collect();
    parts.pop();
    let (path, rest) = link.split_at(link.find(['#', '?']).unwrap_or(link.len()));
    for part in path.split('/') {
        match part {
            "." => {}
            // The first part is the crate: what is beside it is another site.
            ".." if parts.len() > 1 => _ = parts.pop(),
            ".." => return Err("leaves the documentation of its crate"),
            _ => parts.push(part),
        }
    }
    Ok(parts.join("/") + rest)
}

/// Returns the path of a page in the documentation of a crate; docs.rs leads from its name to its first page.
fn of_crate(name: &str, path: &str) -> String {
    match path {
        "" => format!("{}/index.html", library(name)),
        _ => path.into(),
    }
}

fn has_scheme(link: &str) -> bool {
    let first = link.split(['/', '#', '?']).next();
    first.is_some_and(|first| first.contains(':'))
}

/// Replaces the entities that rustdoc writes into attributes.
fn unescaped(value: &str) -> String {
    let pairs = [
        ("&quot;", "\""),
        ("&#39;", "'"),
        ("&#x27;", "'"),
        ("&lt;", "<"),
        ("&gt;", ">"),
    ];
    let plain = |text: String, (entity, is): &(&str, &str)| text.replace(entity, is);
    pairs
        .iter()
        .fold(value.to_string(), plain)
        .replace("&amp;", "&")
}
