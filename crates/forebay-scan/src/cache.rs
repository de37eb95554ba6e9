//! Compiled sets on disk.
//!
//! What takes the time of compiling is to choose the bytes that each literal is found by
//! (`simd/plan.rs`). A file of the cache has these places and nothing else: tables are built of
//! the literals at hand and of the places that suit them. So a file can make a scan slow, but no
//! file, damaged or forged, can make it miss a match or read out of bounds.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use forebay_packet::Vectors;
use rustix::fs::OFlags;
use sha1::{Digest as _, Sha1};

use crate::literal::LiteralSet;
use crate::scanner::{Engine, ScanError, Scanner};
use crate::simd::{Places, TrafficModel};

/// The version of the format and of the choice of places. A file of another one is not read.
const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"FBPLACES";

/// Bytes of a digest (SHA-1: damage is detected, and a forged file does no harm).
const DIGEST: usize = 20;

/// Bytes in front of the places: the magic, the version, the key.
const HEADER: usize = MAGIC.len() + 4 + DIGEST;

/// The end of the names of files.
const SUFFIX: &str = ".places";

/// The most files of a folder; beyond that the one written first is removed.
pub const MOST_FILES: usize = 64;

/// The most entries of a folder that are examined for this.
const MOST_ENTRIES: usize = 10_000;

/// A folder of files, one for each set that was compiled with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetCache {
    folder: PathBuf,
}

/// What the cache was good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheUse {
    /// The places were read.
    Read,
    /// They were chosen and written.
    Written,
    /// They were chosen, and could not be written.
    Unwritten,
}

impl CacheUse {
    /// The name that reports have.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Written => "written",
            Self::Unwritten => "unwritten",
        }
    }
}

/// A file of the cache that is not usable.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// It cannot be read or written.
    #[error("cache {}: {source}", path.display())]
    Io {
        /// The file, or the folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// It is not what was written.
    #[error("cache {}: {what}; the set is compiled anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
}

/// A compiled set, and how the cache took part.
#[derive(Debug)]
pub struct CachedScanner {
    /// The set.
    pub scanner: Scanner,
    /// What the cache was good for, if there was one.
    pub cache: Option<CacheUse>,
    /// Why files were not used or not written.
    pub errors: Vec<CacheError>,
}

impl CachedScanner {
    /// Compiles a set with a cache, if there is one and the engine is [`Engine::Simd`]: the other
    /// one has none.
    ///
    /// # Errors
    /// The engine has no room for the set. Errors of the cache are part of the result.
    pub fn compile(
        set: &LiteralSet,
        engine: Engine,
        vectors: Vectors,
        model: &TrafficModel,
        cache: Option<&SetCache>,
    ) -> Result<Self, ScanError> {
        match cache {
            Some(cache) if engine == Engine::Simd => cache.compile(set, vectors, model),
            _ => {
                let scanner = Scanner::compile_with(set, engine, vectors, model)?;
                Ok(Self { scanner, cache: None, errors: Vec::new() })
            }
        }
    }
}

impl SetCache {
    /// A cache in a folder, which exists.
    #[must_use]
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// Compiles a set with the places of its file, which is written if there is none or none that is
    /// usable.
    fn compile(
        &self,
        set: &LiteralSet,
        vectors: Vectors,
        model: &TrafficModel,
    ) -> Result<CachedScanner, ScanError> {
        let key = key(set, model);
        let path = self.folder.join(format!("{}{SUFFIX}", hex(&key)));
        let mut errors = Vec::new();
        let found = read(&path, most_bytes(set.len())).unwrap_or_else(|source| {
            errors.push(CacheError::Io { path: path.clone(), source });
            None
        });
        let places = found.and_then(|bytes| {
            decode(&bytes, &key)
                .map_err(|what| errors.push(CacheError::Damaged { path: path.clone(), what }))
                .ok()
        });
        if let Some(places) = places {
            if let Some(scanner) = Scanner::compile_at(set, vectors, model, &places)? {
                return Ok(CachedScanner { scanner, cache: Some(CacheUse::Read), errors });
            }
            let what = "its places do not suit the literals";
            errors.push(CacheError::Damaged { path: path.clone(), what });
        }
        let (scanner, places) = Scanner::compile_and_place(set, vectors, model)?;
        let folder = |source| CacheError::Io { path: self.folder.clone(), source };
        let cache = match self.write(&path, &encode(&places, &key)) {
            Ok(()) => {
                errors.extend(self.trim(&path).err().map(folder));
                CacheUse::Written
            }
            Err(source) => {
                errors.push(folder(source));
                CacheUse::Unwritten
            }
        };
        Ok(CachedScanner { scanner, cache: Some(cache), errors })
    }

    /// Writes a file beside and renames it.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        static WRITTEN: AtomicU64 = AtomicU64::new(0);
        let number = WRITTEN.fetch_add(1, Ordering::Relaxed);
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let name = format!("{}-{number}-{}{SUFFIX}", process::id(), now.subsec_nanos());
        let beside = path.with_extension(name);
        // It is new, so that a link that someone put there is not followed.
        let mut file = File::create_new(&beside)?;
        let written = file.write_all(bytes).and_then(|()| fs::rename(&beside, path));
        if written.is_err() {
            let _ = fs::remove_file(&beside);
        }
        written
    }

    /// Removes the oldest files beyond [`MOST_FILES`], among them those that killed processes left,
    /// but not `newest`.
    fn trim(&self, newest: &Path) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf)> = Vec::new();
        for entry in fs::read_dir(&self.folder)?.take(MOST_ENTRIES) {
            let entry = entry?;
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name();
            if entry.path() == newest || is_folder || !is_ours(name.as_encoded_bytes()) {
                continue;
            }
            // Another process may have removed it.
            if let Ok(time) = entry.metadata().and_then(|metadata| metadata.modified()) {
                files.push((time, entry.path()));
            }
        }
        files.sort_unstable();
        let mut beyond = (files.len() + 1).saturating_sub(MOST_FILES);
        let mut failed = None;
        for (_, path) in &files {
            if beyond == 0 {
                break;
            }
            match fs::remove_file(path) {
                // Others may be removable: it can be that only this one is another user's.
                Err(error) if error.kind() != io::ErrorKind::NotFound => failed = Some(error),
                _ => beyond -= 1,
            }
        }
        failed.filter(|_| beyond > 0).map_or(Ok(()), Err)
    }
}

/// Whether a file has a name that the cache gives.
fn is_ours(name: &[u8]) -> bool {
    let key = name.split_first_chunk::<{ 2 * DIGEST }>().map(|(key, _)| key);
    key.is_some_and(|key| key.iter().all(u8::is_ascii_hexdigit))
        && name.ends_with(SUFFIX.as_bytes())
}

/// The digest of all that the choice of places depends on.
fn key(set: &LiteralSet, model: &TrafficModel) -> [u8; DIGEST] {
    let mut digest = Sha1::new();
    digest.update(VERSION.to_le_bytes());
    digest.update(model.counts());
    for literal in set.literals() {
        digest.update((literal.bytes.len() as u32).to_le_bytes());
        digest.update([literal.nocase.into()]);
        digest.update(&literal.bytes);
    }
    digest.finalize().into()
}

/// The bytes of a file of so many places.
fn most_bytes(places: usize) -> usize {
    HEADER + places * Places::BYTES + DIGEST
}

/// The regular file, if there is one; of a longer one than expected one byte more.
fn read(path: &Path, most: usize) -> io::Result<Option<Vec<u8>>> {
    // A link is not followed, so that no device is opened, and a FIFO is not waited for.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = flags.bits().cast_signed();
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut bytes = Vec::new();
    file.take(most as u64 + 1).read_to_end(&mut bytes)?;
    Ok(Some(bytes))
}

/// The start of the file of a set.
fn header(key: &[u8; DIGEST]) -> [u8; HEADER] {
    let mut header = [0; HEADER];
    header[..8].copy_from_slice(MAGIC);
    header[8..12].copy_from_slice(&VERSION.to_le_bytes());
    header[12..].copy_from_slice(key);
    header
}

fn encode(places: &Places, key: &[u8; DIGEST]) -> Vec<u8> {
    let mut bytes = header(key).to_vec();
    bytes.extend(places.to_bytes());
    let digest = Sha1::digest(&bytes);
    bytes.extend_from_slice(&digest);
    bytes
}

fn decode(bytes: &[u8], key: &[u8; DIGEST]) -> Result<Places, &'static str> {
    let (content, digest) = bytes.split_last_chunk::<DIGEST>().ok_or("it is too short")?;
    if Sha1::digest(content)[..] != digest[..] {
        return Err("its digest does not fit its content");
    }
    let places = content.strip_prefix(&header(key)).ok_or("it is of another set or version")?;
    Places::from_bytes(places).ok_or("a place in it is none")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
