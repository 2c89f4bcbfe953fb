//! The manifests of the copies.
//!
//! `[patch]` changes where every dependency on quiche leads, that of tacklib too. And Cargo takes no two
//! packages of one name and version from folders. So quiche's own source gets another name, by which tacklib
//! depends on it, and tack-quiche gets quiche's.

use std::collections::BTreeSet;
use std::iter;
use std::path::Path;

use toml_edit::{Array, DocumentMut, Item, Table, Value, value};

use crate::error::Error;
use crate::patch::Patch;

/// The package of quiche's own source, and its folder.
pub const UNPATCHED: &str = "quiche-unpatched";

/// The manifest of quiche's own source under its new name, from the published one.
pub fn unpatched(published: &str) -> Result<String, Error> {
    let path = Path::new(UNPATCHED).join("Cargo.toml");
    let mut manifest = parse(&path, published)?;
    let malformed = |what| Error::malformed(&path, &format!("has no [{what}]"));
    let package = table(&mut manifest, "package").ok_or_else(|| malformed("package"))?;
    package.insert("name", value(UNPATCHED));
    let library = table(&mut manifest, "lib").ok_or_else(|| malformed("lib"))?;
    library.insert("name", value(UNPATCHED.replace('-', "_")));
    // Those for C would be plain quiche.
    library.insert("crate-type", value(iter::once("lib").collect::<Array>()));
    without_targets(&mut manifest);
    Ok(manifest.to_string())
}

/// The manifest of a copied crate of ours.
pub fn copied(folder: &str, original: &str, patch: &Patch<'_>) -> Result<String, Error> {
    let path = Path::new(folder).join("Cargo.toml");
    let mut manifest = parse(&path, original)?;
    without_targets(&mut manifest);
    manifest.remove("lints");
    let package = table(&mut manifest, "package")
        .ok_or_else(|| Error::malformed(&path, &"has no [package]"))?;
    // Cargo otherwise takes the workspace that the folder of the copies is in, once it has read that one.
    package.insert("workspace", value(".."));
    if folder == "quiche" {
        package.insert("name", value("quiche"));
        package.insert("version", value(patch.quiche_version));
    }
    Ok(manifest.to_string())
}

/// The manifest of the workspace of the copies, from that of ours.
pub fn workspace(patch: &Patch<'_>) -> Result<String, Error> {
    let path = Path::new("Cargo.toml");
    let mut manifest = parse(path, patch.workspace)?;
    let mut used = BTreeSet::new();
    for (name, text) in patch.files.iter().filter(|(name, _)| name.ends_with("/Cargo.toml")) {
        inherited(parse(Path::new(name), text)?.as_table(), &mut used);
    }
    let others: Vec<_> = manifest
        .iter()
        .map(|(key, _)| key.to_owned())
        .filter(|key| key != "workspace")
        .collect();
    for key in others {
        manifest.remove(&key);
    }
    let workspace = table(&mut manifest, "workspace")
        .ok_or_else(|| Error::malformed(path, &"has no [workspace]"))?;
    let members = patch.crates().into_iter().chain([UNPATCHED]);
    workspace.insert("members", value(members.collect::<Array>()));
    workspace.remove("exclude");
    workspace.remove("lints");
    if let Some(dependencies) = workspace.get_mut("dependencies").and_then(Item::as_table_mut) {
        dependencies.retain(|name, _| used.contains(name));
        for (name, item) in dependencies.iter_mut() {
            let Some(dependency) = item.as_inline_table_mut() else { continue };
            if name == "quiche" {
                dependency.insert("package", UNPATCHED.into());
                dependency.insert("path", UNPATCHED.into());
            } else if dependency.contains_key("path") {
                dependency.insert("path", Value::from(name.get()));
            }
        }
    }
    Ok(manifest.to_string())
}

/// Names of the dependencies that a manifest inherits from its workspace.
fn inherited(manifest: &Table, used: &mut BTreeSet<String>) {
    for (key, item) in manifest {
        let Some(section) = item.as_table_like() else { continue };
        match key {
            "dependencies" | "build-dependencies" => {
                used.extend(section.iter().map(|(name, _)| name.to_owned()));
            }
            "target" => {
                for (_, target) in section.iter() {
                    if let Some(target) = target.as_table() {
                        inherited(target, used);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Takes out what only the tests and examples of a crate need, which are not copied.
fn without_targets(manifest: &mut DocumentMut) {
    for key in ["dev-dependencies", "test", "example", "bench", "bin"] {
        manifest.remove(key);
    }
    if let Some(targets) = table(manifest, "target") {
        for (_, target) in targets.iter_mut() {
            if let Some(target) = target.as_table_mut() {
                target.remove("dev-dependencies");
            }
        }
    }
}

fn table<'a>(manifest: &'a mut DocumentMut, name: &str) -> Option<&'a mut Table> {
    manifest.get_mut(name)?.as_table_mut()
}

fn parse(path: &Path, text: &str) -> Result<DocumentMut, Error> {
    text.parse().map_err(|error: toml_edit::TomlError| Error::malformed(path, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quiches_own_source_gets_another_name_and_keeps_its_features() {
        let published = r#"
[package]
name = "quiche"
version = "0.30.0"
build = "src/build.rs"

[features]
qlog = ["dep:qlog"]

[lib]
name = "quiche"
crate-type = ["lib", "staticlib", "cdylib"]
path = "src/lib.rs"

[[example]]
name = "client"

[dependencies.qlog]
version = "0.18"
optional = true

[dev-dependencies.mio]
version = "1"
"#;
        let renamed: toml::Table = unpatched(published).unwrap().parse().unwrap();
        assert_eq!(renamed["package"]["name"].as_str(), Some("quiche-unpatched"));
        assert_eq!(renamed["package"]["version"].as_str(), Some("0.30.0"));
        assert_eq!(renamed["lib"]["name"].as_str(), Some("quiche_unpatched"));
        assert_eq!(renamed["lib"]["crate-type"].as_array().unwrap().len(), 1);
        assert_eq!(renamed["lib"]["path"].as_str(), Some("src/lib.rs"));
        assert!(renamed["features"].get("qlog").is_some());
        assert!(renamed["dependencies"].get("qlog").is_some());
        assert!(!renamed.contains_key("example") && !renamed.contains_key("dev-dependencies"));
    }

    #[test]
    fn tack_quiche_gets_quiches_name_and_release_and_depends_on_quiches_own_source() {
        let patch = Patch::embedded();
        let (_, original) =
            patch.files.iter().find(|(name, _)| *name == "quiche/Cargo.toml").unwrap();
        let copy: toml::Table = copied("quiche", original, &patch).unwrap().parse().unwrap();
        assert_eq!(copy["package"]["name"].as_str(), Some("quiche"));
        assert_eq!(copy["package"]["version"].as_str(), Some(patch.quiche_version));
        assert!(!copy.contains_key("dev-dependencies") && !copy.contains_key("lints"));

        let root: toml::Table = workspace(&patch).unwrap().parse().unwrap();
        let dependencies = root["workspace"]["dependencies"].as_table().unwrap();
        assert_eq!(dependencies["quiche"]["package"].as_str(), Some("quiche-unpatched"));
        assert_eq!(dependencies["quiche"]["path"].as_str(), Some("quiche-unpatched"));
        assert_eq!(dependencies["tack-proto"]["path"].as_str(), Some("tack-proto"));
        assert!(dependencies.contains_key("aes-0-8"), "it is for one kind of CPU");
        assert!(!dependencies.contains_key("quinn"), "nothing that is copied needs it");
        assert!(!root.contains_key("profile"));
    }

    #[test]
    fn copies_inherit_what_the_workspace_has() {
        let patch = Patch::embedded();
        let root: toml::Table = workspace(&patch).unwrap().parse().unwrap();
        for (name, text) in patch.files.iter().filter(|(name, _)| name.ends_with("Cargo.toml"))
        {
            let mut used = BTreeSet::new();
            inherited(parse(Path::new(name), text).unwrap().as_table(), &mut used);
            assert!(!used.is_empty(), "{name}");
            for dependency in used {
                let all = root["workspace"]["dependencies"].as_table().unwrap();
                assert!(all.contains_key(&dependency), "{name} needs {dependency}");
            }
        }
    }
}
