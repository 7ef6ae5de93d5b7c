//! How applications that are not Java's are built: what they need is downloaded into the cache, in
//! the versions that lie beside them.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::app::{App, Built};
use crate::program::{built, must_succeed};

/// A module `app.mjs`; its version is that of the package it is named after.
pub(super) fn node(app: &App) -> Built {
    let out = built(&project(app), |project, out| {
        // A module finds packages in the folders above its own.
        for file in ["package.json", "package-lock.json", "app.mjs"] {
            fs::copy(project.join(file), out.join(file)).unwrap();
        }
        run(Command::new("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(out));
    });
    let package = out.join("node_modules").join(app.name).join("package.json");
    let package: serde_json::Value =
        serde_json::from_slice(&fs::read(package).unwrap()).expect("a package");
    let version = package["version"].as_str().unwrap().to_owned();
    Built { command: words(["node".into(), out.join("app.mjs")]), version }
}

/// A script `app.py` with its `requirements.txt`; its version is that of the package it is named
/// after.
pub(super) fn python(app: &App) -> Built {
    let out = built(&project(app), |project, out| {
        let venv = out.join("venv");
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(pip.arg("--requirement").arg(project.join("requirements.txt")));
    });
    let python = out.join("venv/bin/python");
    let tells = format!("import importlib.metadata as m; print(m.version('{}'))", app.name);
    let version = run(Command::new(&python).args(["-c", &tells]));
    Built { command: words([python, app.dir().join("app.py")]), version }
}

/// A main package; its version is that of the module.
pub(super) fn go(app: &App, module: &str) -> Built {
    let out = built(&project(app), |project, out| {
        let mut go = Command::new("go");
        run(go.args(["build", "-o"]).arg(out.join("app")).arg(".").current_dir(project));
    });
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Version}}", module]).current_dir(app.dir());
    let version = run(&mut list).trim_start_matches('v').to_owned();
    Built { command: words([out.join("app")]), version }
}

fn project(app: &App) -> String {
    format!("apps/{}", app.name)
}

/// What a command says that has to succeed.
fn run(command: &mut Command) -> String {
    let program = Path::new(command.get_program()).display().to_string();
    let done = command.output();
    let done = done.unwrap_or_else(|error| panic!("the applications need {program}: {error}"));
    must_succeed(&done, &format!("an application, by {program},"));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

fn words(command: impl IntoIterator<Item = PathBuf>) -> Vec<OsString> {
    command.into_iter().map(PathBuf::into_os_string).collect()
}
