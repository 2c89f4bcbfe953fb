//! The entry in the workspace's manifest that puts the copies in quiche's place.

use std::fs;
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, InlineTable, Item, Key, Table, TableLike, Value};

use crate::error::Error;

/// The tables of `[patch]` that stand for crates.io.
const REGISTRIES: [&str; 3] = [
    "crates-io",
    "https://github.com/rust-lang/crates.io-index",
    "sparse+https://index.crates.io/",
];

/// What stands above the entry.
const COMMENT: &str =
    "# Written by `cargo tack-patch`; `cargo tack-patch --remove` takes it out.\n";

/// A workspace's `Cargo.toml`.
pub struct Manifest {
    path: PathBuf,
    text: String,
    document: DocumentMut,
}

/// How a manifest replaces quiche.
#[derive(Debug, PartialEq, Eq)]
pub enum Entry {
    /// Not at all.
    None,
    /// By the crate in this folder, as it is written there.
    Folder(String),
    /// By something else.
    Other(String),
}

impl Manifest {
    /// Reads a manifest.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(Error::at(path))?;
        let document = text
            .parse()
            .map_err(|error: toml_edit::TomlError| Error::malformed(path, &error))?;
        Ok(Self { path: path.to_owned(), text, document })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it replaces quiche.
    pub fn entry(&self) -> Entry {
        let patch = self.document.get("patch").and_then(Item::as_table_like);
        let tables =
            REGISTRIES.iter().filter_map(|registry| patch?.get(registry)?.as_table_like());
        for (name, item) in tables.flat_map(TableLike::iter) {
            let package = text(item, "package").unwrap_or(name);
            if package != "quiche" {
                continue;
            }
            return match text(item, "path") {
                Some(path) if name == "quiche" => Entry::Folder(path.to_owned()),
                _ => Entry::Other(format!("{name} = {}", item.to_string().trim())),
            };
        }
        Entry::None
    }

    /// Has the crate in a folder take quiche's place. The folder is relative to the manifest, or absolute.
    pub fn insert(&mut self, folder: &str) -> Result<(), Error> {
        let mut entry = InlineTable::new();
        entry.insert("path", folder.into());
        let mut key = Key::new("quiche");
        key.leaf_decor_mut().set_prefix(COMMENT);
        let patch = implicit_table(self.document.as_table_mut(), "patch");
        let registry = patch.and_then(|patch| {
            let item = patch.entry("crates-io").or_insert_with(|| Item::Table(Table::new()));
            item.as_table_mut()
        });
        let Some(registry) = registry else {
            let message = "`patch.crates-io` is not a table of its own: write it as one";
            return Err(Error::malformed(&self.path, &message));
        };
        registry.insert_formatted(&key, Item::Value(Value::InlineTable(entry)));
        Ok(())
    }

    /// Takes the entry out if it leads to a folder, in whichever form it is written there, and the tables that it
    /// leaves empty.
    pub fn remove(&mut self) {
        let Entry::Folder(folder) = self.entry() else { return };
        let Some(patch) = self.document.get_mut("patch").and_then(Item::as_table_like_mut)
        else {
            return;
        };
        for name in REGISTRIES {
            let Some(registry) = patch.get_mut(name).and_then(Item::as_table_like_mut) else {
                continue;
            };
            if registry.get("quiche").is_some_and(|item| is_folder(item, &folder)) {
                registry.remove("quiche");
                if registry.is_empty() {
                    patch.remove(name);
                }
            }
        }
        if patch.is_empty() {
            self.document.remove("patch");
        }
    }

    /// Writes it, if the file is another one.
    pub fn write(&self) -> Result<(), Error> {
        write_if_other(&self.path, &self.document.to_string())
    }

    /// Writes it as it was when it was read.
    pub fn restore(&self) -> Result<(), Error> {
        write_if_other(&self.path, &self.text)
    }
}

/// Cargo builds anew what depends on a manifest that was written.
fn write_if_other(path: &Path, text: &str) -> Result<(), Error> {
    let before = fs::read_to_string(path).map_err(Error::at(path))?;
    if before == text { Ok(()) } else { crate::files::replace(path, text) }
}

/// The table of this name, which a header of its own has only if it needs one.
fn implicit_table<'a>(parent: &'a mut Table, name: &str) -> Option<&'a mut Table> {
    let item = parent.entry(name).or_insert_with(|| {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    });
    item.as_table_mut()
}

/// Whether an entry of the name quiche replaces it by this folder.
fn is_folder(item: &Item, folder: &str) -> bool {
    text(item, "package").unwrap_or("quiche") == "quiche" && text(item, "path") == Some(folder)
}

fn text<'a>(item: &'a Item, key: &str) -> Option<&'a str> {
    item.as_table_like()?.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(text: &str) -> (tempfile::TempDir, Manifest) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Cargo.toml");
        fs::write(&path, text).unwrap();
        let manifest = Manifest::read(&path).unwrap();
        (folder, manifest)
    }

    const PLAIN: &str =
        "[package]\nname = \"program\" # ours\n\n[dependencies]\nquiche = \"0.30\"\n";
    const PATCHED: &str =
        "[patch.crates-io]\n# why\nring = { path = \"ring\" }\n\n[profile.dev]\n";

    #[test]
    fn an_entry_is_found_where_it_was_put_and_the_rest_is_as_it_was() {
        for before in [PLAIN, PATCHED, "[patch.other]\na.path = \"b\"\n"] {
            let (_folder, mut manifest) = manifest(before);
            manifest.insert(".tack-patch/quiche").unwrap();
            manifest.write().unwrap();
            let mut again = Manifest::read(manifest.path()).unwrap();
            assert_eq!(
                again.entry(),
                Entry::Folder(".tack-patch/quiche".into()),
                "{}",
                again.text
            );
            assert!(again.text.contains("`cargo tack-patch --remove`"), "{}", again.text);
            again.remove();
            again.write().unwrap();
            assert_eq!(fs::read_to_string(again.path()).unwrap(), before);
        }
    }

    #[test]
    fn the_table_is_the_one_that_cargo_documents() {
        let (_folder, mut manifest) = manifest(PLAIN);
        manifest.insert("x/quiche").unwrap();
        let text = manifest.document.to_string();
        let wanted =
            format!("\n[patch.crates-io]\n{COMMENT}quiche = {{ path = \"x/quiche\" }}\n");
        assert!(text.ends_with(&wanted), "{text}");
    }

    #[test]
    fn another_patch_of_quiche_is_recognised_in_each_of_its_forms() {
        for entry in [
            "[patch.crates-io]\nquiche = { git = \"https://example.org/quiche\" }\n",
            "[patch.crates-io.quiche]\ngit = \"https://example.org/quiche\"\n",
            "[patch.crates-io]\nours = { package = \"quiche\", path = \"quiche\" }\n",
            "[patch.\"https://github.com/rust-lang/crates.io-index\"]\nquiche.git = \"x\"\n",
        ] {
            let (_folder, manifest) = manifest(entry);
            assert!(matches!(manifest.entry(), Entry::Other(_)), "{entry}");
        }
    }

    #[test]
    fn an_entry_is_taken_out_in_each_of_its_forms_and_the_rest_stays() {
        const PATH: &str = "path = \"x/quiche\"";
        for name in REGISTRIES {
            for (before, after) in [
                (format!("[patch.\"{name}\"]\nquiche = {{ PATH }}\n"), String::new()),
                (format!("[patch.\"{name}\".quiche]\nPATH\n"), String::new()),
                (format!("[patch]\n\"{name}\" = {{ quiche = {{ PATH }} }}\n"), String::new()),
                (format!("patch = {{ \"{name}\" = {{ quiche.PATH }} }}\n"), String::new()),
                (format!("patch.\"{name}\".quiche.PATH\n"), String::new()),
                (
                    format!(
                        "[patch]\n\"{name}\" = {{ quiche = {{ PATH }}, a.path = \"b\" }}\n"
                    ),
                    format!("[patch]\n\"{name}\" = {{ a.path = \"b\" }}\n"),
                ),
            ] {
                let before = before.replace("PATH", PATH);
                let (_folder, mut manifest) = manifest(&before);
                assert_eq!(manifest.entry(), Entry::Folder("x/quiche".into()), "{before}");
                manifest.remove();
                assert_eq!(manifest.entry(), Entry::None, "{before}");
                let text = manifest.document.to_string();
                assert_eq!(text.replace(' ', ""), after.replace(' ', ""), "{before}");
            }
        }
    }

    #[test]
    fn entries_of_others_are_not_taken_out() {
        for other in [
            "[patch.crates-io]\nquiche = { package = \"fork\", path = \"x/quiche\" }\n",
            "[patch.crates-io]\nquiche = { git = \"https://example.org/quiche\" }\n",
            "[patch.crates-io]\n",
        ] {
            let (_folder, mut manifest) = manifest(other);
            manifest.remove();
            assert_eq!(manifest.document.to_string(), other);
        }
    }

    #[test]
    fn a_broken_manifest_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("Cargo.toml");
        fs::write(&path, "[package\n").unwrap();
        let error = Manifest::read(&path).err().unwrap().to_string();
        assert!(error.starts_with(&path.display().to_string()), "{error}");
    }
}
