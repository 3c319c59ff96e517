//! Builds the playground into one file, which needs no other file and no server.
//!
//! Environment variables set the profile of the WebAssembly module, so that it is not in the manifest of the
//! workspace, which users of the library read.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use wasm_bindgen_cli_support::Bindgen;

const TARGET: &str = "wasm32-unknown-unknown";

/// The sources of the page, which replace their marks in `page.html`.
const HTML: &str = include_str!("../../page.html");
const CSS: &str = include_str!("../../page.css");
const JS: &str = include_str!("../../page.js");

/// The settings that make the module small.
const PROFILE: [(&str, &str); 5] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "z"),
    ("CARGO_PROFILE_RELEASE_LTO", "fat"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_PANIC", "abort"),
    ("CARGO_PROFILE_RELEASE_STRIP", "debuginfo"),
];

/// Returns the root of the workspace.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(3)
        .expect("the package is three folders below the root")
        .to_owned()
}

/// Returns the file that is stored in the repository.
pub fn kept() -> PathBuf {
    root().join("docs/playground/index.html")
}

/// Builds the page and writes it to `file`.
///
/// # Errors
///
/// Returns the failed step. The compiler's output is on stderr.
pub fn build(file: &Path) -> Result<(), String> {
    install_target()?;
    let page = page(&compile()?)?;
    let folder = file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, page))
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Checks that a built page has the current sources; the module depends on the compiler, and is not
/// compared.
///
/// # Errors
///
/// Returns the source that differs.
pub fn check_sources(file: &Path) -> Result<(), String> {
    let built = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let body = HTML.split("<script").next().unwrap_or_default();
    let body = body.replace("/*page.css*/", CSS);
    for (name, source) in [("page.html or page.css", body.as_str()), ("page.js", JS)] {
        if !built.contains(source) {
            return Err(format!(
                "{} is older than {name}: run cargo run --release -p playground-build",
                file.display()
            ));
        }
    }
    Ok(())
}

/// Installs the target where rustup is in use and lacks it. Without rustup, cargo reports the missing target.
fn install_target() -> Result<(), String> {
    let listed = Command::new("rustup")
        .args(["target", "list", "--installed"])
        .output();
    let Ok(listed) = listed else {
        return Ok(());
    };
    if String::from_utf8_lossy(&listed.stdout)
        .lines()
        .any(|line| line == TARGET)
    {
        return Ok(());
    }
    eprintln!("the target {TARGET} is missing; running rustup target add {TARGET}");
    run(Command::new("rustup").args(["target", "add", TARGET]))
}

/// Compiles the playground, and returns the path of the module.
fn compile() -> Result<PathBuf, String> {
    let target = env::var_os("CARGO_TARGET_DIR").map_or(root().join("target"), PathBuf::from);
    let cargo = env::var_os("CARGO").unwrap_or("cargo".into());
    let mut command = Command::new(cargo);
    command
        .args(["build", "--locked", "--release", "--package", "playground"])
        .args(["--target", TARGET])
        .arg("--target-dir")
        .arg(&target)
        .current_dir(root())
        .envs(PROFILE);
    // Panics name files of dependencies, which are below the home of cargo.
    let home = env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    let home = env::var_os("CARGO_HOME").map(PathBuf::from).or(home);
    if let Some(home) = home {
        let flag = format!("--remap-path-prefix={}=cargo", home.display());
        command.env("CARGO_ENCODED_RUSTFLAGS", flag);
    }
    run(&mut command)?;
    Ok(target.join(TARGET).join("release/playground.wasm"))
}

/// Combines the module, its bindings and the sources of the page.
fn page(module: &Path) -> Result<String, String> {
    let bound = Bindgen::new()
        .input_path(module)
        .no_modules(true)
        .and_then(|it| it.no_modules_global("tollgate"))
        .and_then(|it| {
            it.typescript(false)
                .omit_default_module_path(true)
                .remove_name_section(true)
                .remove_producers_section(true)
                .generate_output()
        });
    let mut bound = bound.map_err(|error| format!("{}: {error:?}", module.display()))?;
    let bindings = bound.js().to_owned();
    let module = STANDARD.encode(bound.wasm_mut().emit_wasm());
    Ok(HTML
        .replace("/*page.css*/", CSS)
        .replace("/*module*/", &module)
        .replace("/*bindings*/", &bindings)
        .replace("/*page.js*/", JS))
}

fn run(command: &mut Command) -> Result<(), String> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}
