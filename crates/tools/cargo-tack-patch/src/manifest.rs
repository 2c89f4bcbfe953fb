//! The entry in the workspace's manifest that puts the copies in quiche's place.

use std::fs;
use std::path::{Component, Path, PathBuf};

use glob::{MatchOptions, Pattern};
use toml_edit::{
    Array, DocumentMut, InlineTable, Item, Key, RawString, Table, TableLike, Value, value,
};

use crate::error::Error;
use crate::files::in_form_of;

/// The name of crates.io in `[patch]`.
const CRATES_IO: &str = "crates-io";

/// The URLs that stand for crates.io, as Cargo compares them.
const URLS: [&str; 2] =
    ["https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io"];

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
        let registries = patch.into_iter().flat_map(TableLike::iter);
        let tables = registries
            .filter(|(name, _)| is_crates_io(name))
            .filter_map(|(_, registry)| registry.as_table_like());
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
            // Where there is a table by the URL, Cargo does not look into that by the name.
            let by_url = patch.iter().find(|(name, _)| url(name) == URLS[0]);
            let name = by_url.map_or(CRATES_IO, |(name, _)| name).to_owned();
            let item = patch.entry(&name).or_insert_with(|| Item::Table(Table::new()));
            item.as_table_mut()
        });
        let Some(registry) = registry else {
            let message = "[patch] of crates.io is not a table of its own: write it as one";
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
        let names: Vec<_> = patch.iter().map(|(name, _)| name.to_owned()).collect();
        for name in names.iter().filter(|name| is_crates_io(name)) {
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

    /// Whether a pattern in the workspace's list of members stands for one of these folders, too. They are relative to
    /// the manifest.
    pub fn has_members(&self, folders: &[PathBuf]) -> bool {
        // As Cargo reads patterns: the file system is searched folder by folder, hidden ones too.
        let options = MatchOptions {
            require_literal_separator: true,
            require_literal_leading_dot: false,
            ..MatchOptions::new()
        };
        let mut members = self.workspace_list("members").filter_map(pattern);
        members.any(|member| {
            folders.iter().any(|folder| member.matches_path_with(folder, options))
        })
    }

    /// Keeps a folder out of the workspace, if it is not already.
    pub fn exclude(&mut self, folder: &str) -> Result<(), Error> {
        if self.workspace_list("exclude").any(|other| Path::new(folder).starts_with(other)) {
            return Ok(());
        }
        let workspace = self.document.get_mut("workspace").and_then(Item::as_table_like_mut);
        let list = workspace.and_then(|workspace| {
            let list = workspace.entry("exclude").or_insert_with(|| value(Array::new()));
            list.as_array_mut()
        });
        let Some(list) = list else {
            return Err(Error::malformed(&self.path, &"`workspace.exclude` is not an array"));
        };
        push_alike(list, folder);
        Ok(())
    }

    /// Takes the folder, which is gone, out of what is kept out of the workspace.
    pub fn forget(&mut self, folder: &str) {
        let workspace = self.document.get_mut("workspace").and_then(Item::as_table_like_mut);
        let Some(workspace) = workspace else { return };
        let list = workspace.get_mut("exclude").and_then(Item::as_array_mut);
        let Some(list) = list else { return };
        let Some(index) = list.iter().position(|other| other.as_str() == Some(folder)) else {
            return;
        };
        let is_last = index + 1 == list.len();
        let removed = list.remove(index);
        if is_last {
            give_back(list, &removed);
        }
        if list.is_empty() {
            workspace.remove("exclude");
        }
    }

    /// The texts in a list of `[workspace]`.
    fn workspace_list(&self, key: &str) -> impl Iterator<Item = &str> {
        let workspace = self.document.get("workspace").and_then(Item::as_table_like);
        let list = workspace.and_then(|workspace| workspace.get(key)?.as_array());
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// Writes it, if the file is another one.
    pub fn write(&self) -> Result<(), Error> {
        write_if_other(&self.path, &in_form_of(&self.text, &self.document.to_string()))
    }

    /// Writes it as it was when it was read.
    pub fn restore(&self) -> Result<(), Error> {
        write_if_other(&self.path, &self.text)
    }
}

/// Whether a table of `[patch]` stands for crates.io.
fn is_crates_io(name: &str) -> bool {
    name == CRATES_IO || URLS.contains(&url(name))
}

/// A URL without what makes no difference to Cargo.
fn url(name: &str) -> &str {
    let name = name.trim_end_matches('/');
    name.strip_suffix(".git").unwrap_or(name)
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

/// Adds a text to an array: on a line of its own where the last one has that. Comments stay with what they explain, and
/// what stands before the bracket stays there.
fn push_alike(list: &mut Array, text: &str) {
    let mut new = Value::from(text);
    let trailing = list.trailing().as_str().unwrap_or_default().to_owned();
    let has_comma = list.trailing_comma();
    let Some(last) = list.iter_mut().last() else { return list.push(new) };
    let before = last.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
    let mut before = match before.rsplit_once('\n') {
        Some((_, indent)) => format!("\n{indent}"),
        None => " ".to_owned(),
    };
    if let Some(suffix) = last.decor().suffix().cloned()
        && is_blank(Some(&suffix))
    {
        new.decor_mut().set_suffix(suffix);
        last.decor_mut().set_suffix("");
    }
    if let Some((comment, indent)) = trailing.rsplit_once('\n')
        && has_comma
    {
        before.insert_str(0, comment);
        list.set_trailing(format!("\n{indent}"));
    }
    new.decor_mut().set_prefix(before);
    list.push_formatted(new);
}

/// Has the array end as it did before a text was added that is removed now.
fn give_back(list: &mut Array, removed: &Value) {
    let before = removed.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
    let comment = before.rsplit_once('\n').map_or("", |(comment, _)| comment);
    if list.trailing_comma() && !comment.is_empty() {
        let trailing = list.trailing().as_str().unwrap_or_default();
        list.set_trailing(format!("{comment}{trailing}"));
    }
    if let Some(last) = list.iter_mut().last()
        && let Some(suffix) = removed.decor().suffix()
        && is_blank(last.decor().suffix())
    {
        last.decor_mut().set_suffix(suffix.clone());
    }
}

fn is_blank(text: Option<&RawString>) -> bool {
    text.and_then(RawString::as_str).is_none_or(|text| text.trim().is_empty())
}

/// A pattern of members, without what makes no difference to Cargo: `./` and a separator at its end.
fn pattern(text: &str) -> Option<Pattern> {
    let parts = Path::new(text).components().filter(|part| *part != Component::CurDir);
    Pattern::new(parts.collect::<PathBuf>().to_str()?).ok()
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
        for before in [
            PLAIN,
            PATCHED,
            "[patch.other]\na.path = \"b\"\n",
            "[patch.\"https://github.com/rust-lang/crates.io-index/\"]\na.path = \"b\"\n",
        ] {
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
        let with_slash = format!("{}/", URLS[1]);
        for name in [CRATES_IO, URLS[0], &with_slash] {
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
    fn patterns_of_members_are_read_as_cargo_reads_them() {
        let folders = [".tack-patch", ".tack-patch/quiche"].map(PathBuf::from);
        for (members, has) in [
            (r#"["*"]"#, true),
            (r#"["app", ".*"]"#, true),
            (r#"["*/*"]"#, true),
            (r#"["**"]"#, true),
            (r#"["*/quiche"]"#, true),
            (r#"["./*"]"#, true),
            (r#"["*/"]"#, true),
            (r#"["crates/*"]"#, false),
            (r#"["app", "tool?"]"#, false),
            ("[]", false),
            (r#""*""#, false),
        ] {
            let (_folder, manifest) = manifest(&format!("[workspace]\nmembers = {members}\n"));
            assert_eq!(manifest.has_members(&folders), has, "{members}");
        }
        let (_folder, manifest) = manifest(PLAIN);
        assert!(!manifest.has_members(&folders), "it is no workspace");
    }

    #[test]
    fn a_folder_that_was_excluded_is_forgotten_and_the_rest_is_as_it_was() {
        for before in [
            "[workspace]\nmembers = [\"*\"] # all\n\n[workspace.package]\nedition = \"2021\"\n",
            "[workspace]\nexclude = [\"old\"]\nmembers = [\"*\"]\n",
            "[workspace]\nmembers = [\"*\"]\nexclude = [\n    \"old\", # why\n    \"older\",\n]\n",
            "[workspace]\nmembers = [\"*\"]\nexclude = [\n    \"old\"\n]\n",
            "[workspace]\nmembers = [\"*\"]\nexclude = [\n    \"old\", # why\n]\n",
            "[workspace]\nmembers = [\"*\"]\nexclude = [\n    \"old\", # why\n    # end\n]\n",
            "[workspace]\nmembers = [\"*\"]\nexclude = [ \"old\", ]\n",
            "[workspace]\nmembers = [\"*\"]\nexclude = [\n    \"old\" # why\n]\n",
            "workspace = { members = [\"*\"] }\n",
            "workspace.members = [\"*\"]\n",
        ] {
            let (_folder, mut manifest) = manifest(before);
            manifest.exclude(".tack-patch").unwrap();
            manifest.exclude(".tack-patch").unwrap();
            manifest.write().unwrap();
            let mut again = Manifest::read(manifest.path()).unwrap();
            let excluded: Vec<_> = again.workspace_list("exclude").collect();
            assert_eq!(excluded.iter().filter(|name| **name == ".tack-patch").count(), 1);
            assert_eq!(excluded.last(), Some(&".tack-patch"), "{}", again.text);
            again.forget(".tack-patch");
            again.write().unwrap();
            assert_eq!(fs::read_to_string(again.path()).unwrap(), before);
        }
    }

    #[test]
    fn a_folder_is_excluded_on_a_line_of_its_own_where_the_others_are() {
        for (before, after) in [
            ("[ \"old\" ]", "[ \"old\", \"new\" ]"),
            ("[\n  \"old\"\n]", "[\n  \"old\",\n  \"new\"\n]"),
            ("[\n  \"old\", # why\n]", "[\n  \"old\", # why\n  \"new\",\n]"),
        ] {
            let (_folder, mut manifest) =
                manifest(&format!("[workspace]\nexclude = {before}\n"));
            manifest.exclude("new").unwrap();
            assert_eq!(
                manifest.document.to_string(),
                format!("[workspace]\nexclude = {after}\n")
            );
        }
    }

    #[test]
    fn a_folder_within_an_excluded_one_needs_no_entry() {
        let text = "[workspace]\nmembers = [\"*\"]\nexclude = [\"other\"]\n";
        let (_folder, mut manifest) = manifest(text);
        manifest.exclude("other/copies").unwrap();
        assert_eq!(manifest.document.to_string(), text);
    }

    #[test]
    fn line_ends_are_those_of_the_manifest() {
        let before = PLAIN.replace('\n', "\r\n");
        let (_folder, mut manifest) = manifest(&before);
        manifest.insert(".tack-patch/quiche").unwrap();
        manifest.write().unwrap();
        let text = fs::read_to_string(manifest.path()).unwrap();
        assert_eq!(text.matches('\n').count(), text.matches("\r\n").count(), "{text:?}");
        assert!(text.contains("quiche = { path = "), "{text:?}");
        manifest.remove();
        manifest.write().unwrap();
        assert_eq!(fs::read_to_string(manifest.path()).unwrap(), before);
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
