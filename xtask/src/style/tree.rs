//! Reads the tree, and checks the rule for all text files.

use std::path::Path;
use std::{fs, io};

use super::finding::{Error, Finding};
use super::policy;

/// Folders with build results, downloads or findings, never source.
const SKIPPED: &[&str] = &[".git", "target", "demo-out", "corpus", "artifacts", "coverage"];

/// The text files below `root` as (path relative to it, contents), sorted.
pub(super) fn read(root: &Path) -> Result<Vec<(String, String)>, Error> {
    let mut texts = Vec::new();
    read_folder(root, "", &mut texts)?;
    texts.sort();
    Ok(texts)
}

fn read_folder(root: &Path, below: &str, texts: &mut Vec<(String, String)>) -> Result<(), Error> {
    let folder = root.join(below);
    let failed = |source| Error::Read { path: folder.clone(), source };
    for entry in fs::read_dir(&folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        // `file_type` does not follow links, so links out of the tree are ignored.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() {
            if !SKIPPED.contains(&name.as_str()) {
                read_folder(root, &path, texts)?;
            }
        } else if kind.is_file() {
            match fs::read_to_string(entry.path()) {
                Ok(text) => texts.push((path, text)),
                Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
                Err(source) => return Err(Error::Read { path: entry.path(), source }),
            }
        }
    }
    Ok(())
}

/// Finds absolute paths into folders that differ from machine to machine.
pub(super) fn check_paths(path: &str, text: &str, findings: &mut Vec<Finding>) {
    for (number, line) in text.lines().enumerate() {
        for folder in policy::MACHINE_FOLDERS {
            if has_machine_path(line, folder) {
                findings.push(Finding {
                    path: path.to_owned(),
                    line: number + 1,
                    rule: "machine-path",
                    advice: format!(
                        "a path below the top folder `{folder}` exists on one machine only: use a \
                         path relative to the workspace, or an environment variable"
                    ),
                });
            }
        }
    }
}

/// Whether `line` has `/folder/` where an absolute path can start.
fn has_machine_path(line: &str, folder: &str) -> bool {
    let pattern = format!("/{folder}/");
    line.match_indices(&pattern).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        !before.is_some_and(|c| c.is_alphanumeric() || "_-.~}/*".contains(c))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_found_and_relative_ones_are_not() {
        for folder in policy::MACHINE_FOLDERS {
            assert!(has_machine_path(&format!("see \"/{folder}/x\""), folder));
            assert!(has_machine_path(&format!("/{folder}/x"), folder));
            assert!(has_machine_path(&format!("-L=/{folder}/x"), folder));
            assert!(!has_machine_path(&format!("src/{folder}/x"), folder));
            assert!(!has_machine_path(&format!("../{folder}/x"), folder));
            assert!(!has_machine_path(&format!("${{HOME}}/{folder}/x"), folder));
            assert!(!has_machine_path(&format!("/{folder}ed/x"), folder));
        }
    }

    #[test]
    fn the_finding_names_file_and_line() {
        let mut findings = Vec::new();
        check_paths("notes.md", &format!("one\ntwo /{}/me\n", "home"), &mut findings);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].to_string().starts_with("notes.md:2: machine-path: "));
    }

    #[test]
    fn generated_folders_and_binary_files_are_not_read() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("target/debug")).unwrap();
        fs::create_dir_all(root.path().join("src")).unwrap();
        fs::write(root.path().join("target/debug/a.rs"), "x").unwrap();
        fs::write(root.path().join("src/a.rs"), "y").unwrap();
        fs::write(root.path().join("src/a.bin"), [0xff, 0xfe, 0x00]).unwrap();
        let texts = read(root.path()).unwrap();
        assert_eq!(texts, [("src/a.rs".to_owned(), "y".to_owned())]);
    }

    #[test]
    fn a_folder_that_is_not_there_is_an_error_that_names_it() {
        let error = read(Path::new("no-such-folder")).unwrap_err();
        assert!(error.to_string().contains("no-such-folder"), "{error}");
    }
}
