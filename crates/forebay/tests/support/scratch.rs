//! A folder for one test, with a capture in it to work on.
#![allow(dead_code, reason = "each test file uses a part")]

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use forebay_testkit::make::{self, ETHERNET, Pcap};

/// A folder that goes with the value, and the name of a good capture in it.
pub struct Scratch {
    pub folder: TempDir,
    pub input: String,
}

impl Scratch {
    /// A folder with a capture of that many datagrams.
    pub fn with_packets(packets: u16) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let input = folder.path().join("in.pcap");
        fs::write(&input, Pcap::of(ETHERNET).file(&make::datagrams(packets))).unwrap();
        Self { input: input.to_str().unwrap().to_owned(), folder }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn text(&self, name: &str) -> String {
        self.path(name).to_str().unwrap().to_owned()
    }

    /// Writes a file into the folder and returns its name.
    pub fn file(&self, name: &str, bytes: &[u8]) -> String {
        fs::write(self.path(name), bytes).unwrap();
        self.text(name)
    }
}
