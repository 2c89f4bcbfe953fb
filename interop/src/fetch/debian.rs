//! Debian packages: what the build of a peer takes, and peers that are packages themselves.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::command::run;

/// Beside an adapter: the packages that have to be installed before it is built or run, as `NAME`
/// or, where the version is what is tested, `NAME=VERSION`.
const TAKEN: &str = "debian.txt";
/// Beside an adapter: the packages that the peer is, as `NAME=VERSION`.
const PINNED: &str = "packages.txt";
/// In the cache: as [`PINNED`], with the versions found. Written last.
const FOUND: &str = "found.txt";

/// Has the packages installed that `debian.txt` beside the adapter names, if there is one.
///
/// The error says what an administrator has to install. Where packages are not Debian's, the build
/// finds what it takes or says that it does not.
pub fn install_what_it_takes(manifest: &Path) -> Result<(), String> {
    let Ok(names) = fs::read_to_string(manifest.join(TAKEN)) else { return Ok(()) };
    // Debian keeps the newest version only: that which is named may be gone.
    let names = names.lines().map(name);
    let missing: Vec<&str> = names.filter(|name| is_missing(name)).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !is_root() {
        let packages = missing.join(" ");
        return Err(format!(
            "it takes Debian packages: have an administrator run \
             `apt-get install {packages}`, then fetch again"
        ));
    }
    // Packages in old lists may still be there.
    let _ = run(apt_get(&["update"]));
    let mut install = apt_get(&["install", "--yes", "--no-install-recommends"]);
    install.args(missing).env("DEBIAN_FRONTEND", "noninteractive");
    run(install)
}

/// Unpacks the packages that `packages.txt` beside the adapter names below the cache. Nothing is
/// installed: that would take root, and start services that packages bring with them.
///
/// Another version than the one that is named is taken if it is the only one there is, and told.
pub fn unpack(manifest: &Path, cache: &Path) -> Result<(), String> {
    if !is_there("apt-get") {
        return Err(
            "it is had from Debian's packages, and there is no `apt-get` here".to_owned()
        );
    }
    let pinned = manifest.join(PINNED);
    let packages = fs::read_to_string(&pinned)
        .map_err(|error| format!("{} cannot be read: {error}", pinned.display()))?;
    let (downloads, root) = (cache.join("downloads"), unpacked(cache));
    for directory in [&downloads, &root] {
        // From an earlier fetch, maybe.
        let _ = fs::remove_dir_all(directory);
        fs::create_dir_all(directory)
            .map_err(|error| format!("{} cannot be made: {error}", directory.display()))?;
    }
    let mut found = String::new();
    for package in packages.lines() {
        let name = name(package);
        let download = |what: &str| {
            let mut command = apt_get(&["download", what]);
            command.current_dir(&downloads);
            run(command)
        };
        download(package).or_else(|_| download(name)).map_err(|error| {
            format!(
                "{name}, a Debian package, could not be had: {error}; `apt-get update` helps where \
                 the lists are old"
            )
        })?;
        let file = downloaded(&downloads, name)?;
        run(command("dpkg-deb", &["--extract".as_ref(), file.as_ref(), root.as_ref()]))?;
        let version = output(command(
            "dpkg-deb",
            &["--field".as_ref(), file.as_ref(), "Version".as_ref()],
        ))
        .ok_or_else(|| format!("{} has no version", file.display()))?;
        let version = version.trim();
        found.extend([name, "=", version, "\n"]);
    }
    for warning in different(&packages, &found) {
        eprintln!("warning: {warning}");
    }
    fs::write(cache.join(FOUND), found).map_err(|error| format!("{FOUND}: {error}"))
}

/// Where packages are unpacked: a directory with `usr` in it.
pub fn unpacked(cache: &Path) -> PathBuf {
    cache.join("root")
}

/// Whether all packages are unpacked.
pub fn is_unpacked(cache: &Path) -> bool {
    cache.join(FOUND).is_file()
}

/// Warnings about packages whose version is not the one that the adapter names.
pub fn warnings(manifest: &Path, cache: &Path) -> Vec<String> {
    let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
    different(&read(manifest.join(PINNED)), &read(cache.join(FOUND)))
}

/// Warnings about installed packages whose version is not the one that `debian.txt` names.
pub fn warnings_of_installed(manifest: &Path) -> Vec<String> {
    let pinned = fs::read_to_string(manifest.join(TAKEN)).unwrap_or_default();
    let mut found = String::new();
    for package in pinned.lines() {
        let name = name(package);
        match queried(name, "${Version}") {
            Some(version) if package != name => found.extend([name, "=", &version, "\n"]),
            _ => found.extend([package, "\n"]),
        }
    }
    different(&pinned, &found)
}

/// Of `NAME` or `NAME=VERSION`.
fn name(package: &str) -> &str {
    package.split_once('=').map_or(package, |(name, _)| name)
}

fn different(pinned: &str, found: &str) -> Vec<String> {
    let pairs = pinned.lines().zip(found.lines()).filter(|(pinned, found)| pinned != found);
    pairs
        .map(|(pinned, found)| format!("{found} was found, {pinned} is what was tested"))
        .collect()
}

fn downloaded(directory: &Path, name: &str) -> Result<PathBuf, String> {
    let is_it = |file: &PathBuf| {
        let name_of_file = file.file_name().and_then(|name| name.to_str());
        let behind = name_of_file.and_then(|it| it.strip_prefix(name));
        behind.is_some_and(|behind| behind.starts_with('_'))
    };
    let files = fs::read_dir(directory).into_iter().flatten().flatten();
    files.map(|entry| entry.path()).find(is_it).ok_or_else(|| {
        format!("`apt-get download {name}` left no file in {}", directory.display())
    })
}

fn is_missing(package: &str) -> bool {
    match queried(package, "${db:Status-Status}") {
        Some(status) => status != "installed",
        // The database has no entry for a package that was never installed.
        None => is_there("dpkg-query"),
    }
}

/// The entry of a package in the package database; `None` if there is none, or no database.
fn queried(package: &str, format: &str) -> Option<String> {
    let format = format!("--showformat={format}");
    output(command("dpkg-query", &["--show".as_ref(), format.as_ref(), package.as_ref()]))
}

/// Whether a program can be started.
pub fn is_there(program: &str) -> bool {
    let mut version = Command::new(program);
    version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    !matches!(version.status(), Err(error) if error.kind() == ErrorKind::NotFound)
}

fn is_root() -> bool {
    output(command("id", &["-u".as_ref()])).is_some_and(|id| id.trim() == "0")
}

fn apt_get(arguments: &[&str]) -> Command {
    let arguments: Vec<&Path> = arguments.iter().map(Path::new).collect();
    command("apt-get", &arguments)
}

fn command(program: &str, arguments: &[&Path]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments);
    command
}

/// The output of a command; `None` if it fails.
fn output(mut command: Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_adapter_without_a_list_takes_no_packages() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(install_what_it_takes(directory.path()), Ok(()));
    }

    #[test]
    fn another_version_is_told() {
        assert!(different("a=1\nb=2\n", "a=1\nb=2\n").is_empty());
        let told = different("a=1\nb=2\n", "a=1\nb=3\n");
        assert_eq!(told, ["b=3 was found, b=2 is what was tested"]);
    }

    #[test]
    fn a_downloaded_package_is_found_by_its_whole_name() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["libx9_1_amd64.deb", "libx9-dev_1_amd64.deb"] {
            fs::write(directory.path().join(name), "").unwrap();
        }
        let found = downloaded(directory.path(), "libx9").unwrap();
        assert_eq!(found, directory.path().join("libx9_1_amd64.deb"));
        assert!(downloaded(directory.path(), "liby").is_err());
    }

    #[test]
    fn what_is_unpacked_is_known_by_its_versions() {
        let directory = tempfile::tempdir().unwrap();
        let cache = directory.path();
        assert!(!is_unpacked(cache));
        fs::write(cache.join(PINNED), "a=1\n").unwrap();
        fs::write(cache.join(FOUND), "a=2\n").unwrap();
        assert!(is_unpacked(cache));
        assert_eq!(warnings(cache, cache).len(), 1);
    }
}
