//! Builds of programs in other languages. Their dependencies are downloaded into the cache, in the
//! versions that their projects name.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Command and version of a built program.
#[derive(Debug)]
pub(crate) struct Built {
    /// The program itself and its first arguments.
    pub(crate) command: Vec<OsString>,
    /// Version of the client or framework.
    pub(crate) version: String,
}

impl Built {
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.command[0]);
        command.args(&self.command[1..]);
        // Cargo sets the variable for a test: a client would load the libraries of the test's build
        // in place of its own libraries of the same name.
        command.env_remove("LD_LIBRARY_PATH");
        command
    }
}

/// Builds a main class of a Maven project; the version is that of the library.
pub(crate) fn java(project: &str, library: &str, class: &str) -> Built {
    let out = maven(project);
    let jars = fs::read_dir(out.join("lib")).unwrap();
    let mut names = jars.map(|jar| jar.unwrap().file_name().to_string_lossy().into_owned());
    let version = |name: String| {
        let version = name.strip_prefix(library)?.strip_prefix('-')?.strip_suffix(".jar")?;
        version.starts_with(|first: char| first.is_ascii_digit()).then(|| version.to_owned())
    };
    let version = names.find_map(version);
    let mut command = jvm(&out.join(ARCHIVE));
    command.extend(LOGS.iter().map(OsString::from));
    command.extend(["-cp".into(), class_path(&out), format!("reprise.{class}").into()]);
    Built {
        command,
        version: version.unwrap_or_else(|| panic!("no {library} in {}", out.display())),
    }
}

/// Command of a JVM that starts from an archive of classes.
pub(crate) fn jvm(archive: &Path) -> Vec<OsString> {
    let mut shared = OsString::from("-XX:SharedArchiveFile=");
    shared.push(archive);
    JVM.iter().map(OsString::from).chain([shared]).collect()
}

/// A JVM here runs for seconds, too short for the second compiler to pay off. Logs of the JVM must
/// not mix with output of the program.
const JVM: &[&str] = &[
    "java",
    "-Xmx256m",
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Xlog:disable",
    "-Xlog:all=error:stderr",
];

const LOGS: &[&str] = &[
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=info",
    "-Dorg.slf4j.simpleLogger.showDateTime=true",
    "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
];

/// Archive of loaded classes (class data sharing), which halves the start of a client. A JVM
/// without a fitting archive starts as usual.
const ARCHIVE: &str = "classes.jsa";

/// Jars only, in one order: an archive of classes is valid for one class path.
fn class_path(out: &Path) -> OsString {
    let mut jars: Vec<PathBuf> =
        fs::read_dir(out.join("lib")).unwrap().map(|jar| jar.unwrap().path()).collect();
    jars.sort();
    jars.insert(0, out.join("classes.jar"));
    std::env::join_paths(jars).unwrap()
}

/// Main classes, arguments and stdin of a trial run without a broker. The classes that it loads go
/// into the archive.
const LOOKS: [(&str, &[&str], &[u8]); 3] = [
    (
        "Client",
        &[NOBODY, "nobody", "6000", "classic", "producer.max.block.ms=100"],
        b"subscribe t\npoll 200\nproduce a none t 0 61 61\nclose\n",
    ),
    ("Application", &[NOBODY, "nobody", "t", "default"], b""),
    ("Counts", &[NOBODY, "nobody", "t", "u", "state"], b""),
];

const NOBODY: &str = "127.0.0.1:1";

/// Text on stderr when a client runs and has found no broker.
const FOUND_NOBODY: &str = "could not be established";

/// Writes the class archive of a project with a trial run of its main class.
fn archive(out: &Path) {
    let is_there = |class: &str| out.join(format!("classes/reprise/{class}.class")).exists();
    let Some((class, args, told)) = LOOKS.into_iter().find(|(class, ..)| is_there(class)) else {
        return;
    };
    let mut to = OsString::from("-XX:ArchiveClassesAtExit=");
    to.push(out.join(ARCHIVE));
    let mut java = Command::new(JVM[0]);
    java.args(&JVM[1..]).arg(to).arg("-cp").arg(class_path(out));
    java.arg(format!("reprise.{class}")).args(args).current_dir(out);
    java.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = java.spawn().unwrap();
    // A program may end before it has read all of its input.
    let _ = child.stdin.take().unwrap().write_all(told);
    let said = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    let mut goes_on = told.is_empty();
    for line in said {
        if goes_on && line.contains(FOUND_NOBODY) {
            goes_on = false;
            run(Command::new("kill").arg(child.id().to_string()));
        }
    }
    child.wait().unwrap();
}

/// Builds the classes and libraries of a project below `tests/clients`.
fn maven(project: &str) -> PathBuf {
    built(project, project, |project, out| {
        // A library of another version must not stay beside the new one.
        for left in ["classes", "lib"] {
            let _ = fs::remove_dir_all(out.join(left));
        }
        let option = |name: &str, path: &Path| {
            let mut text = OsString::from(name);
            text.push(path);
            text
        };
        // Two runs of Maven at once corrupt the local repository, which it does not lock.
        let alone = File::create(cache().join("maven.lock")).unwrap();
        alone.lock().unwrap();
        let mut mvn = Command::new("mvn");
        mvn.args(["--quiet", "--batch-mode", "--file"])
            .arg(project.join("pom.xml"))
            .arg(option("-Dmaven.repo.local=", &cache().join("m2")))
            .arg(option("-Dout=", out))
            .arg("compile");
        run(&mut mvn);
        let mut jar = Command::new("jar");
        jar.arg("--create").arg(option("--file=", &out.join("classes.jar")));
        run(jar.arg("-C").arg(out.join("classes")).arg("."));
        let _ = fs::remove_file(out.join(ARCHIVE));
        archive(out);
    })
}

/// Builds a module of a project with a lock file; the version is that of the package.
pub(crate) fn node(project: &str, package: &str, module: &str) -> Built {
    let out = built(project, project, |project, out| {
        // A module finds packages in the folders above its own.
        for file in ["package.json", "package-lock.json"] {
            fs::copy(project.join(file), out.join(file)).unwrap();
        }
        copy_all(project, out, "mjs");
        let mut npm = Command::new("npm");
        // Without a prebuilt librdkafka, the package builds it against libraries of this machine.
        npm.args(["ci", "--no-audit", "--no-fund"]).env("CKJS_LINKING", "dynamic");
        run(npm.current_dir(out));
    });
    let described = out.join("node_modules").join(package).join("package.json");
    let described: serde_json::Value =
        serde_json::from_slice(&fs::read(described).unwrap()).expect("a package");
    let version = described["version"].as_str().unwrap().to_owned();
    Built { command: words(["node".into(), out.join(module)]), version }
}

/// Builds an environment named after these requirements for a script of a project; the version is
/// that of the package.
pub(crate) fn python(project: &str, package: &str, requirements: &str, script: &str) -> Built {
    let name = format!("{project}/{}", requirements.trim_end_matches(".txt"));
    let out = built(project, &name, |project, out| {
        let venv = out.join("venv");
        run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&venv));
        let mut pip = Command::new(venv.join("bin/python"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        run(pip.arg("--requirement").arg(project.join(requirements)));
        // Python writes compiled modules beside their source.
        copy_all(project, out, "py");
    });
    let python = out.join("venv/bin/python");
    let tells = format!("import importlib.metadata as m; print(m.version('{package}'))");
    let version = run(Command::new(&python).args(["-c", &tells]));
    Built { command: words([python, out.join(script)]), version }
}

/// Copies the files of a project with this extension.
fn copy_all(project: &Path, out: &Path, extension: &str) {
    for file in fs::read_dir(project).unwrap().map(|file| file.unwrap().path()) {
        if file.extension().is_some_and(|of| of == extension) {
            fs::copy(&file, out.join(file.file_name().unwrap())).unwrap();
        }
    }
}

/// Builds a main package of a module; the version is that of the library.
pub(crate) fn go(project: &str, library: &str, package: &str) -> Built {
    let out = built(project, project, |project, out| {
        let mut go = Command::new("go");
        run(go.args(["build", "-o"]).arg(out.join("bin/")).arg("./...").current_dir(project));
    });
    let mut list = Command::new("go");
    list.args(["list", "-m", "-f", "{{.Version}}", library]).current_dir(folder(project));
    let version = run(&mut list).trim_start_matches('v').to_owned();
    Built { command: words([out.join("bin").join(package)]), version }
}

/// Builds a tool that a module names in its `tool` directive.
pub(crate) fn go_tool(project: &str, package: &str) -> Command {
    let name = package.rsplit('/').next().unwrap();
    let out = built(project, project, |project, out| {
        let mut go = Command::new("go");
        run(go.args(["build", "-o"]).arg(out.join(name)).arg(package).current_dir(project));
    });
    Command::new(out.join(name))
}

/// Version of the build steps; raise it when they change.
const WAY: u32 = 4;

/// Builds a project below `tests/clients` in a folder of the cache; the repository stays clean. A
/// project whose files have not changed is not built again.
fn built(project: &str, name: &str, build: impl FnOnce(&Path, &Path)) -> PathBuf {
    let out = cache().join(format!("{}-client", name.replace('/', "-")));
    let project = folder(project);
    fs::create_dir_all(&out).unwrap();
    // Two test runs at once must not build into one folder.
    let lock = File::create(out.join("lock")).unwrap();
    lock.lock().unwrap();
    let (stamp, sources) = (out.join("built"), format!("{WAY}\n{}", sources(&project)));
    if fs::read_to_string(&stamp).is_ok_and(|built| built == sources) {
        return out;
    }
    build(&project, &out);
    fs::write(stamp, sources).unwrap();
    out
}

fn folder(project: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients").join(project)
}

/// Text of every file below a folder, in the order of names. Every checkout has equal text, so none
/// repeats the build of another.
fn sources(dir: &Path) -> String {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let text = |path: &PathBuf| {
        let text = if path.is_dir() { sources(path) } else { fs::read_to_string(path).unwrap() };
        format!("{}\n{text}\n", path.file_name().unwrap().display())
    };
    paths.iter().map(text).collect()
}

/// Runs a command that has to succeed, and returns its stdout.
fn run(command: &mut Command) -> String {
    let program = Path::new(command.get_program()).display().to_string();
    let done = command.output();
    let done = done.unwrap_or_else(|error| panic!("client programs need {program}: {error}"));
    must_succeed(&done, &format!("a client program, by {program},"));
    String::from_utf8(done.stdout).unwrap().trim().to_owned()
}

/// Fails with the output of a build that did not succeed.
pub(crate) fn must_succeed(built: &Output, what: &str) {
    let said = [&built.stdout[..], &built.stderr[..]].concat();
    assert!(built.status.success(), "{what} is not built:\n{}", String::from_utf8_lossy(&said));
}

fn words(command: impl IntoIterator<Item = PathBuf>) -> Vec<OsString> {
    command.into_iter().map(PathBuf::into_os_string).collect()
}

/// Folder of downloads and builds that outlive `cargo clean`.
fn cache() -> PathBuf {
    let own = std::env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let home = || PathBuf::from(std::env::var_os("HOME").unwrap()).join(".cache");
    own.unwrap_or_else(home).join("reprise")
}
