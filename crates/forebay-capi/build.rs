//! Sets the shared library's SONAME, which programs record when they are linked.
//!
//! A program runs with any library of the same SONAME. Before version 1.0, versions that
//! differ in their second number are incompatible.

use std::env;

fn main() {
    let part = |name: &str| env::var(name).expect("Cargo sets the parts of the version");
    let (major, minor) = (part("CARGO_PKG_VERSION_MAJOR"), part("CARGO_PKG_VERSION_MINOR"));
    let version = if major == "0" { format!("0.{minor}") } else { major };
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.{version}");
    println!("cargo::rerun-if-changed=build.rs");
}
