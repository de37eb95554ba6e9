//! The kernel programs in C: `crates/forebay-bpf/programs/NAME.bpf.c`, compiled to
//! `NAME.bpf.o` beside it. Objects are committed, so that only a change of a program takes
//! clang.

mod header;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

/// The programs' folder, and the Rust file with the layouts that they share.
const PROGRAMS: &str = "crates/forebay-bpf/programs";
const LAYOUT: &str = "crates/forebay-bpf/src/sys/layout.rs";

/// The version of clang that objects are compiled with, that of Debian 12. Another compiles
/// other code, whose bytes say nothing about the source.
const CLANG: &str = "14.0.6";

/// The attribute of structures whose members the loader finds in the kernel's types.
const TYPES: &[u8] = b"preserve_access_index";

/// Why programs are not compiled, or not as committed.
#[derive(Debug, thiserror::Error)]
pub enum BpfError {
    /// A file cannot be accessed, or a program not be started.
    #[error("{0}: {1}")]
    Io(String, io::Error),
    /// A program fails.
    #[error("`{0}` fails: {1}")]
    Failed(String, String),
    /// The layout has something that C cannot have.
    #[error("{LAYOUT}: {0}")]
    Layout(String),
    /// Another version of clang.
    #[error(
        "the objects in {PROGRAMS} are compiled with clang {CLANG} (Debian 12), and this is \
         {0}: they are neither compiled nor compared"
    )]
    OtherClang(String),
    /// A file is not what its source gives.
    #[error("{PROGRAMS}/{0} is not what its source compiles to: run `cargo xtask bpf`")]
    Outdated(String),
}

/// Compiles the programs and makes the header of their layouts.
///
/// # Errors
/// No clang of the right version, or a program that it does not compile.
pub fn compile(root: &Path) -> Result<(), BpfError> {
    // Before the header is changed, which must not be newer than the objects.
    check_clang()?;
    let header = header(root)?;
    let programs = root.join(PROGRAMS);
    write(&programs.join("layout.h"), header.as_bytes())?;
    for source in sources(&programs)? {
        write(&source.with_extension("o"), &object(&source)?)?;
    }
    Ok(())
}

/// Compares the committed files with what their sources give.
///
/// # Errors
/// As for [`compile`], or a file differs.
pub fn check(root: &Path) -> Result<(), BpfError> {
    let programs = root.join(PROGRAMS);
    let header = header(root)?;
    compare(&programs.join("layout.h"), header.as_bytes())?;
    check_clang()?;
    sources(&programs)?
        .iter()
        .try_for_each(|source| compare(&source.with_extension("o"), &object(source)?))
}

/// The header of the layouts.
fn header(root: &Path) -> Result<String, BpfError> {
    header::generate(&read(&root.join(LAYOUT))?).map_err(BpfError::Layout)
}

fn compare(path: &Path, expected: &[u8]) -> Result<(), BpfError> {
    let outdated = || BpfError::Outdated(file_name(path));
    if read(path)? == expected { Ok(()) } else { Err(outdated()) }
}

fn check_clang() -> Result<(), BpfError> {
    let said = run(Command::new("clang").arg("--version"))?;
    let said = String::from_utf8_lossy(&said).lines().next().unwrap_or_default().to_owned();
    if said.split(' ').any(|word| word == CLANG) { Ok(()) } else { Err(BpfError::OtherClang(said)) }
}

/// The programs' C files, sorted.
fn sources(programs: &Path) -> Result<Vec<PathBuf>, BpfError> {
    let failed = |error| BpfError::Io(programs.display().to_string(), error);
    let entries = fs::read_dir(programs).map_err(failed)?;
    let paths: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.path())).collect();
    let mut paths = paths.map_err(failed)?;
    paths.retain(|path| file_name(path).ends_with(".bpf.c"));
    paths.sort();
    Ok(paths)
}

/// The compiled program, without debugging information.
fn object(source: &Path) -> Result<Vec<u8>, BpfError> {
    let name = file_name(source);
    let folder = source.parent().unwrap_or(source);
    let out = std::env::temp_dir().join(format!("forebay-{}-{name}.o", std::process::id()));
    // Debian has `asm/types.h` in a folder of the machine.
    let headers = format!("/usr/include/{}-linux-gnu", std::env::consts::ARCH);
    // Types are needed only to find members of the kernel's structures.
    let types = read(source)?.windows(TYPES.len()).any(|text| text == TYPES);
    let flags =
        "-target bpf -mcpu=v3 -O2 -fno-strict-aliasing -Wall -Werror -fdebug-compilation-dir=.";
    // Kernels before 6.3 refuse a loop whose last instruction falls through to its first.
    let placement = ["-mllvm", "-disable-block-placement"];
    let compiled = run(Command::new("clang")
        .current_dir(folder)
        .args(flags.split(' '))
        .args(placement)
        .args(types.then_some("-g"))
        .args(["-idirafter", &headers, "-c", &name, "-o"])
        .arg(&out));
    let stripped = compiled.and_then(|_| run(Command::new("llvm-strip").arg("-g").arg(&out)));
    let object = stripped.and_then(|_| read(&out));
    let _ = fs::remove_file(&out);
    object
}

fn run(command: &mut Command) -> Result<Vec<u8>, BpfError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| BpfError::Io(name.clone(), error))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(BpfError::Failed(name, String::from_utf8_lossy(&output.stderr).into_owned()))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn read(path: &Path) -> Result<Vec<u8>, BpfError> {
    fs::read(path).map_err(|error| BpfError::Io(path.display().to_string(), error))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), BpfError> {
    fs::write(path, bytes).map_err(|error| BpfError::Io(path.display().to_string(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_that_of_the_layouts() {
        let root = crate::workspace_root();
        let header = header::generate(&read(&root.join(LAYOUT)).unwrap()).unwrap();
        compare(&root.join(PROGRAMS).join("layout.h"), header.as_bytes()).unwrap();
    }
}
