//! The patch in force, in a program over a registry of a few small crates.

#![allow(clippy::unwrap_used)] // a test that cannot be set up has failed

mod registry;

use std::process::Command;

use cargo_tack_patch::{Check, Error, Patch, Tool};
use registry::{PATCH, World, is_gone};

const BEFORE: &str = "plain quiche, plain quiche";
const AFTER: &str = "TACK over plain quiche, TACK over plain quiche";

fn reason(tool: &Tool<'_>) -> String {
    match tool.check().unwrap() {
        Check::NotInForce { reason } => reason,
        Check::InForce { folder } => panic!("in force in {}", folder.display()),
    }
}

#[test]
fn a_program_and_its_dependencies_get_what_takes_quiches_place() {
    let world = World::new();
    assert_eq!(world.run(), BEFORE);
    let applied = world.tool().apply().unwrap();
    assert_eq!(applied.folder, world.path("program/.tack-patch"));
    assert!(!applied.was_in_force);
    assert_eq!(world.run(), AFTER);
    let folder = applied.folder;
    assert_eq!(world.tool().check().unwrap(), Check::InForce { folder });
}

#[test]
fn a_workspace_that_was_never_built_can_be_patched() {
    let world = World::new();
    assert!(is_gone(&world.path("program/Cargo.lock")));
    world.tool().apply().unwrap();
    assert_eq!(world.run(), AFTER);
}

#[test]
fn the_program_of_a_workspace_gets_what_takes_quiches_place() {
    let world = World::in_workspace();
    assert_eq!(world.run(), BEFORE);
    let before = world.program();
    assert_eq!(world.tool().apply().unwrap().folder, world.path("program/.tack-patch"));
    assert_eq!(world.run(), AFTER);
    assert!(matches!(world.tool().check().unwrap(), Check::InForce { .. }));
    world.tool().remove().unwrap();
    assert!(world.program() == before);
    assert_eq!(world.run(), BEFORE);
}

/// A workspace of all folders in it.
fn in_workspace_of_all(members: &str) -> World {
    let world = World::in_workspace();
    let manifest = world.read("program/Cargo.toml").replace("[\"app\"]", members);
    assert!(manifest.contains(members), "{manifest}");
    // Cargo wants a package in every folder.
    world.write("program/Cargo.toml", &format!("{manifest}exclude = [\".cargo\"]\n"));
    world
}

#[test]
fn a_workspace_of_all_folders_does_not_take_the_copies_for_members() {
    for members in ["[\"*\"]", "[\"[a.]*\"]"] {
        let world = in_workspace_of_all(members);
        assert_eq!(world.run(), BEFORE);
        let before = world.program();
        let old = Patch { workspace: &format!("{}\n# older", PATCH.workspace), ..PATCH };
        Tool { patch: old, ..world.tool() }.apply().unwrap();
        assert_eq!(world.run(), AFTER, "{members}");
        // Also where old copies give way to new ones.
        assert!(!world.tool().apply().unwrap().was_in_force);
        assert_eq!(world.run(), AFTER, "{members}");
        assert!(matches!(world.tool().check().unwrap(), Check::InForce { .. }));
        world.tool().remove().unwrap();
        assert!(world.program() == before, "{}", world.read("program/Cargo.toml"));
        assert_eq!(world.run(), BEFORE);
    }
}

#[test]
fn a_patch_that_is_in_force_is_left_as_it_is() {
    let world = World::new();
    world.tool().apply().unwrap();
    let before = world.program();
    assert!(world.tool().apply().unwrap().was_in_force);
    assert!(world.program() == before);
}

#[test]
fn what_was_removed_leaves_nothing_behind() {
    let world = World::new();
    world.run();
    let before = world.program();
    world.tool().apply().unwrap();
    assert!(world.program() != before);
    assert_eq!(world.tool().remove().unwrap(), Some(world.path("program/.tack-patch")));
    let names = |files: &[(std::path::PathBuf, Vec<u8>)]| {
        files.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(&world.program()), names(&before));
    assert!(world.program() == before, "{}", world.read("program/Cargo.lock"));
    assert_eq!(world.run(), BEFORE);
    assert_eq!(world.tool().remove().unwrap(), None);
}

#[test]
fn a_removed_patch_leaves_the_release_that_was_in_use_before() {
    let world = World::new();
    world.run();
    let before = world.read("program/Cargo.lock");
    world.tool().apply().unwrap();
    world.publish_newer_quiche();
    world.tool().remove().unwrap();
    assert_eq!(world.read("program/Cargo.lock"), before);
}

#[test]
fn a_patch_stays_if_cargo_cannot_do_without_it() {
    let world = World::new();
    world.tool().apply().unwrap();
    std::fs::remove_dir_all(world.path("vendor/quiche")).unwrap();
    let before = world.program();
    let error = world.tool().remove().unwrap_err();
    assert!(matches!(error, Error::NotVendored { .. }), "{error}");
    assert!(world.program() == before);
    assert_eq!(world.run(), AFTER);
}

#[test]
fn the_copies_can_be_elsewhere() {
    let world = World::new();
    for named in ["copies", "copies/"] {
        let tool = Tool { folder: Some(world.path(named)), ..world.tool() };
        tool.apply().unwrap();
        assert!(tool.apply().unwrap().was_in_force);
        assert_eq!(world.run(), AFTER);
        // Where they are is in the manifest.
        let folder = world.path("copies");
        assert_eq!(world.tool().check().unwrap(), Check::InForce { folder: folder.clone() });
        assert_eq!(world.tool().remove().unwrap(), Some(folder.clone()));
        assert!(is_gone(&folder));
    }
}

#[cfg(unix)]
#[test]
fn copies_in_the_workspace_have_a_relative_path_however_they_are_named() {
    let world = in_workspace_of_all("[\"*\"]");
    std::os::unix::fs::symlink("program", world.path("link")).unwrap();
    world.write("program/app/.keep", "");
    for named in ["link/copies", "program/app/../copies", "link/app/../../program/copies"] {
        let tool = Tool { folder: Some(world.path(named)), ..world.tool() };
        assert_eq!(tool.apply().unwrap().folder, world.path("program/copies"), "{named}");
        let manifest = world.read("program/Cargo.toml");
        assert!(manifest.contains("quiche = { path = \"copies/quiche\" }"), "{manifest}");
        assert_eq!(world.run(), AFTER);
        world.tool().remove().unwrap();
    }
}

#[test]
fn copies_that_are_elsewhere_are_renewed_and_made_anew_there() {
    let world = World::new();
    let elsewhere = |named: &str| Tool { folder: Some(world.path(named)), ..world.tool() };
    let old = Patch { workspace: &format!("{}\n# older", PATCH.workspace), ..PATCH };
    Tool { patch: old, ..elsewhere("copies") }.apply().unwrap();
    assert!(reason(&world.tool()).contains("another build"));
    for _ in ["renewed", "made anew"] {
        let applied = world.tool().apply().unwrap();
        assert!(!applied.was_in_force && applied.folder == world.path("copies"));
        assert_eq!(world.run(), AFTER);
        assert!(is_gone(&world.path("program/.tack-patch")));
        std::fs::remove_dir_all(world.path("copies")).unwrap();
    }
    world.tool().apply().unwrap();
    let error = elsewhere("other").apply().unwrap_err();
    assert!(matches!(&error, Error::OtherFolder(_)), "{error}");
    assert!(error.to_string().contains("`cargo tack-patch --remove`"), "{error}");
    assert!(is_gone(&world.path("other")));
    assert_eq!(world.run(), AFTER);
}

/// What the tool has written into the manifest, in another form.
fn rewrite_entry(world: &World, entry: &str) {
    let manifest = world.read("program/Cargo.toml");
    let (rest, _) = manifest.split_once("[patch.crates-io]").unwrap();
    world.write("program/Cargo.toml", &format!("{rest}{entry}"));
}

#[test]
fn a_patch_that_is_written_in_another_form_is_removed_with_its_copies() {
    for entry in [
        "[patch]\ncrates-io = { quiche = { path = \".tack-patch/quiche\" } }\n",
        "[patch.\"https://github.com/rust-lang/crates.io-index\"]\n\
         quiche = { path = \".tack-patch/quiche\" }\n",
    ] {
        let world = World::new();
        world.run();
        let before = world.program();
        world.tool().apply().unwrap();
        rewrite_entry(&world, entry);
        assert_eq!(world.run(), AFTER, "{entry}");
        assert_eq!(world.tool().remove().unwrap(), Some(world.path("program/.tack-patch")));
        assert!(world.program() == before, "{}", world.read("program/Cargo.toml"));
        assert_eq!(world.run(), BEFORE, "{entry}");
    }
}

#[test]
fn the_copies_stay_while_the_manifest_replaces_quiche_elsewhere_too() {
    let world = World::new();
    world.tool().apply().unwrap();
    rewrite_entry(
        &world,
        "[patch.crates-io]\nquiche = { path = \".tack-patch/quiche\" }\n\
         [patch.\"https://github.com/rust-lang/crates.io-index\"]\n\
         quiche = { path = \"../ours/quiche\" }\n",
    );
    world.write(
        "ours/quiche/Cargo.toml",
        "[package]\nname = \"quiche\"\nversion = \"0.30.0\"\n",
    );
    world.write("ours/quiche/src/lib.rs", "");
    let before = world.program();
    let error = world.tool().remove().unwrap_err();
    assert!(
        matches!(&error, Error::OtherPatch { entry, .. } if entry == "../ours/quiche"),
        "{error}"
    );
    assert!(world.program() == before);
}

#[test]
fn copies_of_another_build_are_told_and_replaced() {
    let world = World::new();
    let old = Patch { workspace: &format!("{}\n# older", PATCH.workspace), ..PATCH };
    Tool { patch: old, ..world.tool() }.apply().unwrap();
    assert!(reason(&world.tool()).contains("another build"));
    assert!(!world.tool().apply().unwrap().was_in_force);
    assert!(matches!(world.tool().check().unwrap(), Check::InForce { .. }));
}

#[test]
fn copies_that_are_gone_are_told() {
    let world = World::new();
    world.tool().apply().unwrap();
    std::fs::remove_dir_all(world.path("program/.tack-patch")).unwrap();
    assert!(reason(&world.tool()).contains("has no copies: run `cargo tack-patch`"));
}

/// Applies a patch that Cargo cannot resolve.
fn apply_unresolvable(world: &World) -> Error {
    let mut files = PATCH.files.to_vec();
    let manifest = files[2].1.replace("[lints]", "nowhere.workspace = true\n[lints]");
    files[2].1 = &manifest;
    let tool = Tool { patch: Patch { files: &files, ..PATCH }, ..world.tool() };
    let error = tool.apply().unwrap_err();
    assert!(error.to_string().contains("nowhere"), "{error}");
    error
}

#[test]
fn a_patch_that_cargo_cannot_resolve_is_taken_back() {
    let world = World::new();
    world.run();
    let before = world.program();
    let error = apply_unresolvable(&world);
    assert!(matches!(error, Error::NotVendored { .. }), "{error}");
    assert!(world.program() == before);
}

#[test]
fn copies_of_another_build_stay_if_cargo_cannot_resolve_the_new_ones() {
    let world = World::new();
    world.tool().apply().unwrap();
    assert_eq!(world.run(), AFTER);
    let before = world.program();
    let error = apply_unresolvable(&world);
    assert!(matches!(error, Error::NotVendored { .. }), "{error}");
    assert!(world.program() == before);
    assert_eq!(world.run(), AFTER);
}

#[test]
fn a_program_without_quiche_is_left_alone() {
    let world = World::with_program("[package]\nname = \"program\"\nedition = \"2021\"\n");
    let error = world.tool().apply().unwrap_err();
    assert!(matches!(error, Error::NoQuiche { .. }), "{error}");
    assert!(is_gone(&world.path("program/.tack-patch")));
}

#[test]
fn another_release_is_refused() {
    let world = World::new();
    let tool = Tool { patch: Patch { quiche_version: "0.31.0", ..PATCH }, ..world.tool() };
    let error = tool.apply().unwrap_err().to_string();
    assert!(error.contains("uses quiche 0.30.0"), "{error}");
    assert!(error.contains("`quiche = \"0.31.0\"`"), "{error}");
    assert!(is_gone(&world.path("program/.tack-patch")));
}

#[test]
fn a_release_with_another_checksum_is_refused() {
    let world = World::new();
    let tool = Tool { patch: Patch { quiche_checksum: "f00", ..PATCH }, ..world.tool() };
    let error = tool.apply().unwrap_err();
    assert!(
        matches!(&error, Error::Checksum { path, .. } if path.ends_with("Cargo.lock")),
        "{error}"
    );
}

#[test]
fn a_vendored_file_that_was_changed_is_refused() {
    let world = World::new();
    world.run();
    world
        .write("vendor/quiche/src/lib.rs", "pub fn transport() -> String { \"other\".into() }");
    let before = world.program();
    let error = world.tool().apply().unwrap_err();
    assert!(
        matches!(&error, Error::Checksum { path, .. } if path.ends_with("lib.rs")),
        "{error}"
    );
    assert!(world.program() == before);
}

#[test]
fn another_patch_of_quiche_is_neither_replaced_nor_removed() {
    let world = World::new();
    let manifest = world.read("program/Cargo.toml");
    let patched =
        format!("{manifest}\n[patch.crates-io]\nquiche = {{ path = \"../ours/quiche\" }}\n");
    world.write("program/Cargo.toml", &patched);
    world.write(
        "ours/quiche/Cargo.toml",
        "[package]\nname = \"quiche\"\nversion = \"0.30.0\"\n",
    );
    world.write("ours/quiche/src/lib.rs", "");
    for error in [world.tool().apply().unwrap_err(), world.tool().remove().unwrap_err()] {
        assert!(matches!(error, Error::OtherPatch { .. }), "{error}");
    }
    assert!(reason(&world.tool()).contains("replaces quiche already (`../ours/quiche`)"));
    assert_eq!(world.read("program/Cargo.toml"), patched);
    assert!(world.path("ours/quiche/src/lib.rs").exists());
}

#[test]
fn a_workspace_that_patches_something_else_by_the_url_of_crates_io_gets_what_takes_quiches_place()
 {
    for registry in ["https://github.com/rust-lang/crates.io-index", "crates-io"] {
        let world = World::new();
        let manifest = world.read("program/Cargo.toml");
        let patch = format!("[patch.\"{registry}\"]\ndependent = {{ path = \"../ours\" }}\n");
        world.write("program/Cargo.toml", &format!("{manifest}\n{patch}"));
        let ours = world.read("vendor/dependent/Cargo.toml");
        world.write("ours/Cargo.toml", &ours);
        world.write("ours/src/lib.rs", "pub fn transport() -> String { \"ours\".into() }");
        assert_eq!(world.run(), "plain quiche, ours");
        let before = world.program();
        world.tool().apply().unwrap();
        assert_eq!(world.run(), "TACK over plain quiche, ours", "{registry}");
        assert!(matches!(world.tool().check().unwrap(), Check::InForce { .. }));
        world.tool().remove().unwrap();
        assert!(world.program() == before, "{}", world.read("program/Cargo.toml"));
    }
}

/// Has the configuration of Cargo replace quiche by another folder.
fn patch_by_configuration(world: &World) {
    world.write(
        "ours/quiche/Cargo.toml",
        "[package]\nname = \"quiche\"\nversion = \"0.30.0\"\n",
    );
    world.write("ours/quiche/src/lib.rs", "pub fn transport() -> String { \"ours\".into() }");
    let config = world.read("program/.cargo/config.toml");
    let patch = "[patch.crates-io]\nquiche = { path = \"../ours/quiche\" }\n";
    world.write("program/.cargo/config.toml", &format!("{config}{patch}"));
}

#[test]
fn a_patch_of_quiche_in_the_configuration_is_told_with_its_folder() {
    let world = World::new();
    world.tool().apply().unwrap();
    patch_by_configuration(&world);
    assert_eq!(world.run(), "ours, ours");
    let before = world.program();
    let told = reason(&world.tool());
    let ours = world.path("ours/quiche");
    assert!(told.contains(&ours.display().to_string()), "{told}");
    assert!(told.contains(".cargo/config.toml"), "{told}");
    let error = world.tool().apply().unwrap_err();
    assert!(matches!(&error, Error::PatchedElsewhere(found) if *found == ours), "{error}");
    assert!(world.program() == before);
}

#[test]
fn a_patch_of_quiche_in_the_configuration_keeps_the_workspace_as_it_was() {
    let world = World::new();
    world.run();
    patch_by_configuration(&world);
    let before = world.program();
    let ours = world.path("ours/quiche").display().to_string();
    let error = world.tool().apply().unwrap_err();
    assert!(
        matches!(&error, Error::OtherSource { source_id, .. } if *source_id == ours),
        "{error}"
    );
    assert!(world.program() == before);
}

#[test]
fn a_check_writes_nothing_and_tells_a_lock_file_that_is_out_of_date() {
    let world = World::new();
    world.tool().apply().unwrap();
    let manifest = world.read("program/Cargo.toml");
    world.write(
        "program/Cargo.toml",
        &manifest.replacen(
            "[dependencies]\n",
            "[dependencies]\nlocal = { path = \"local\" }\n",
            1,
        ),
    );
    world.write(
        "program/local/Cargo.toml",
        "[package]\nname = \"local\"\nversion = \"1.0.0\"\nedition = \"2021\"\n",
    );
    world.write("program/local/src/lib.rs", "");
    let before = world.program();
    let told = reason(&world.tool());
    assert!(
        told.contains("Cargo.lock is not what manifests and configuration ask for: build once"),
        "{told}"
    );
    assert!(world.program() == before);
    assert_eq!(world.run(), AFTER);
    assert!(matches!(world.tool().check().unwrap(), Check::InForce { .. }));
}

#[test]
fn an_apply_that_fails_leaves_no_lock_file_that_was_not_there() {
    let world = World::new();
    let before = world.program();
    let refused: [Patch<'_>; 2] = [
        Patch { quiche_version: "0.31.0", ..PATCH },
        Patch { quiche_checksum: "f00", ..PATCH },
    ];
    for patch in refused {
        Tool { patch, ..world.tool() }.apply().unwrap_err();
        assert!(world.program() == before, "{}", patch.quiche_version);
    }
    apply_unresolvable(&world);
    assert!(world.program() == before);
}

#[cfg(unix)]
#[test]
fn linked_manifests_stay_links_and_keep_their_modes() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let world = World::new();
    world.run();
    let before = world.program();
    for name in ["Cargo.toml", "Cargo.lock"] {
        let (file, link) = (world.path("shared").join(name), world.path("program").join(name));
        world.write(&format!("shared/{name}"), &world.read(&format!("program/{name}")));
        std::fs::remove_file(&link).unwrap();
        symlink(&file, &link).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o660)).unwrap();
    }
    world.tool().apply().unwrap();
    assert_eq!(world.run(), AFTER);
    world.tool().remove().unwrap();
    for name in ["Cargo.toml", "Cargo.lock"] {
        assert!(world.path("program").join(name).is_symlink(), "{name}");
        let mode = world.path("shared").join(name).metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o660, "{name}");
    }
    assert!(world.program() == before);
    assert_eq!(world.run(), BEFORE);
}

#[cfg(unix)]
#[test]
fn a_manifest_that_nobody_may_write_to_stays_as_it_is() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    world.run();
    let before = world.program();
    let manifest = world.path("program/Cargo.toml");
    std::fs::set_permissions(&manifest, std::fs::Permissions::from_mode(0o444)).unwrap();
    let error = world.tool().apply().unwrap_err();
    assert!(matches!(&error, Error::ReadOnly(path) if path.ends_with("Cargo.toml")), "{error}");
    assert!(world.program() == before);
}

#[test]
fn a_folder_of_the_users_is_not_written_to() {
    let world = World::new();
    world.write("thesis/thesis.tex", "");
    let tool = Tool { folder: Some(world.path("thesis")), ..world.tool() };
    let error = tool.apply().unwrap_err();
    assert!(matches!(error, Error::ForeignFolder(_)), "{error}");
    assert_eq!(std::fs::read_dir(world.path("thesis")).unwrap().count(), 1);
}

#[test]
fn the_command_says_what_is_and_by_its_exit_code_whether_the_patch_is_in_force() {
    let world = World::new();
    let check = || {
        Command::new(env!("CARGO_BIN_EXE_cargo-tack-patch"))
            .args(["tack-patch", "--check"])
            .current_dir(world.path("program"))
            .output()
            .unwrap()
    };
    let output = check();
    assert_eq!(output.status.code(), Some(1));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("not in force: "), "{printed}");
    assert!(printed.trim_end().ends_with("run `cargo tack-patch`"), "{printed}");
    // The program's copies are not those of the patch of these tests.
    world.tool().apply().unwrap();
    let printed = String::from_utf8(check().stdout).unwrap();
    assert!(printed.contains("another build"), "{printed}");
}
