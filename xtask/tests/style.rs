//! The workspace keeps its own house rules.
#![forbid(unsafe_code)]

use std::fs;
use std::path::Path;

use xtask::style;

#[test]
fn the_workspace_keeps_the_house_rules() {
    let findings = style::check(&xtask::workspace_root()).expect("the workspace can be read");
    let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(list.is_empty(), "{} finding(s):\n{}", list.len(), list.join("\n"));
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_workspace_that_breaks_them_is_told_where() {
    let root = tempfile::tempdir().unwrap();
    let library = "//! Docs.\n#![forbid(unsafe_code)]\n#[cfg(test)]\nmod oracle;\npub mod bad;\n";
    write(root.path(), "crates/forebay-gen/src/lib.rs", library);
    write(root.path(), "crates/forebay-gen/src/oracle.rs", "//! Docs.\nfn f() { g().unwrap() }\n");
    write(root.path(), "crates/forebay-gen/src/bad.rs", "//! Docs.\nfn f() { g().unwrap() }\n");
    let manifest = "[dependencies]\nforebay-balance.workspace = true\n";
    write(root.path(), "crates/forebay-gen/Cargo.toml", manifest);
    let findings = style::check(root.path()).unwrap();
    let places: Vec<_> =
        findings.iter().map(|f| format!("{}:{}: {}", f.path, f.line, f.rule)).collect();
    assert_eq!(
        places,
        ["crates/forebay-gen/Cargo.toml:2: layers", "crates/forebay-gen/src/bad.rs:2: banned"]
    );
}

#[test]
fn an_empty_folder_is_no_pass() {
    let root = tempfile::tempdir().unwrap();
    assert!(matches!(style::check(root.path()), Err(style::Error::Nothing(_))));
}
