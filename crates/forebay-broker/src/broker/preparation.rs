//! Changed configurations, prepared while the broker runs.
//!
//! A file is read, its filters compiled and its rule lists built by a thread of their own:
//! that can take seconds, in which the broker goes on to look after its sensors.
//!
//! A preparation has a budget of memory, and leaves some to all else: one that would take
//! more ends with a message, and everything stays as it is. One that is overtaken by another
//! request, or by the broker's end, is cancelled.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use std::{mem, thread};

use forebay_io::text::MOST_RULES;
use forebay_packet::cancel::{Cancel, Stopped};

use crate::compiled::{CodeOptions, CompiledConfig, InUse};
use crate::config::Config;
use crate::control::{Answer, ControlRequest};
use crate::memory;
use crate::trim::trim;

/// Who may wait for a change: the control socket has so many clients at once, and others
/// have questions.
const MOST_WAITING: usize = 16;

/// How long the clients of a preparation wait for it, and the next preparation does.
const LONG: Duration = Duration::from_secs(60);

/// Preparations that may be under way besides the last, each cancelled and not at its end
/// yet: libpcap, and a file system that hangs, end in their own time.
const MOST_OVERTAKEN: usize = 4;

/// Preparations in a row that are cancelled because another is asked for. The next comes to
/// its end, or changes that are asked for without a pause would never come into force.
const MOST_CANCELLED: u32 = 3;

/// Bytes of memory that each byte of a list of rules comes to at least, when it is parsed.
const LEAST_FOR_RULES: u64 = 4;

const OTHERS_WAIT: &str =
    "a change is being prepared, and others wait: the file is read again then";
const OVERTAKEN: &str = "another change was asked for in the meantime";
const LATE: &str = "reading the file and what it names takes more than a minute; it is taken \
                    over when that ends, unless another change is asked for";

/// A configuration that only has to be taken over.
pub(super) struct Prepared {
    pub(super) config: Config,
    pub(super) compiled: CompiledConfig,
}

impl Prepared {
    fn read(path: &Path, options: &CodeOptions, most: u64, in_use: &InUse) -> Result<Self, String> {
        let config = Config::read(path).map_err(|error| error.to_string())?;
        if let Some(rules) = &config.rules {
            // One that is too long is refused when it is read.
            let len = std::fs::metadata(rules).map_or(0, |metadata| metadata.len());
            let need = len.min(MOST_RULES) * LEAST_FOR_RULES;
            let refused = |why| format!("{}: {why}", rules.display());
            memory::suffices(need, most, memory::KEY).map_err(refused)?;
        }
        let compiled =
            CompiledConfig::new(&config, options, in_use).map_err(|error| error.to_string())?;
        Ok(Self { config, compiled })
    }

    /// Notices for when it is in force.
    pub(super) fn notices(&self) -> Vec<String> {
        self.compiled.notices.clone()
    }
}

/// What is done about requests to read the configuration again.
#[derive(Default)]
pub(super) struct Reloads {
    /// Who has asked since the file was last opened: what they want may be newer than
    /// what is being prepared.
    waiting: Vec<ControlRequest>,
    asked: bool,
    under_way: Option<Preparation>,
    /// Those that were cancelled when the next began. Nobody takes what comes of them.
    overtaken: Vec<JoinHandle<()>>,
    /// How many there were since the last that came to its end.
    cancelled: u32,
}

struct Preparation {
    cancel: Cancel,
    prepared: mpsc::Receiver<Result<Prepared, String>>,
    /// None where the system has none to give.
    thread: Option<JoinHandle<()>>,
    requests: Vec<ControlRequest>,
    begun: Instant,
    /// It took too long, and its clients have an answer that says so.
    is_late: bool,
}

/// What came of a request.
pub(super) enum Begun {
    /// It waits, or there was none.
    Nothing,
    /// The file is being read.
    Another,
    /// Too many preparations do not end; these are not to wait any more.
    TooMany(Vec<ControlRequest>),
}

impl Preparation {
    fn begin(
        path: PathBuf,
        options: CodeOptions,
        most: u64,
        in_use: InUse,
        requests: Vec<ControlRequest>,
    ) -> Self {
        let (done, prepared) = mpsc::channel();
        let cancel = Cancel::watched(memory::watch(most, memory::KEY));
        let prepare = {
            let (done, cancel) = (done.clone(), cancel.clone());
            move || {
                let prepared = cancel.run(|| Prepared::read(&path, &options, most, &in_use));
                if !matches!(prepared, Ok(Ok(_))) {
                    trim();
                }
                let prepared = prepared.unwrap_or_else(|stopped| match stopped {
                    Stopped::Refused(why) => Err(why),
                    Stopped::Cancelled => Err(OVERTAKEN.to_owned()),
                });
                // Nobody waits for it when the broker ends, or it was overtaken.
                let _ = done.send(prepared);
            }
        };
        let thread = thread::Builder::new().name("forebay-reload".to_owned()).spawn(prepare);
        if let Err(error) = &thread {
            let _ = done.send(Err(format!("there is no thread for it: {error}")));
        }
        let begun = Instant::now();
        Self { cancel, prepared, thread: thread.ok(), requests, begun, is_late: false }
    }
}

impl Drop for Preparation {
    /// Its result is of no use any more: it was overtaken, perhaps by the broker's end.
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Reloads {
    /// Takes a request, whose client waits unless too many wait already.
    pub(super) fn ask(&mut self, request: Option<ControlRequest>) {
        self.asked = true;
        let already = self.under_way.as_ref().map_or(0, |last| last.requests.len());
        if already + self.waiting.len() < MOST_WAITING {
            self.waiting.extend(request);
        } else if let Some(request) = request {
            request.answer(Answer::Refused(OTHERS_WAIT.to_owned()));
        }
    }

    /// Begins the requested preparation, and cancels the one under way, which it replaces.
    /// Clients of the old one get the result of the new one. `most` is the memory that it may
    /// take, in bytes; `in_use` is what workers use.
    pub(super) fn begin(
        &mut self,
        path: PathBuf,
        options: CodeOptions,
        most: u64,
        in_use: InUse,
    ) -> Begun {
        if !self.asked {
            return Begun::Nothing;
        }
        self.overtaken.retain(|thread| !thread.is_finished());
        if let Some(last) = &self.under_way {
            let too_many = self.overtaken.len() >= MOST_OVERTAKEN;
            if !last.is_late && (too_many || self.cancelled >= MOST_CANCELLED) {
                return Begun::Nothing;
            }
            if too_many {
                self.asked = false;
                return Begun::TooMany(mem::take(&mut self.waiting));
            }
            self.cancelled += 1;
        }
        self.asked = false;
        let mut requests = mem::take(&mut self.waiting);
        let last = self.under_way.take();
        if let Some(mut last) = last {
            requests.append(&mut last.requests);
            self.overtaken.extend(last.thread.take());
        }
        self.under_way = Some(Preparation::begin(path, options, most, in_use, requests));
        Begun::Another
    }

    /// What has been prepared, once, with the requests that wait for it; or that it is late.
    pub(super) fn prepared(&mut self) -> Option<(Result<Prepared, String>, Vec<ControlRequest>)> {
        let under_way = self.under_way.as_mut()?;
        let prepared = match under_way.prepared.try_recv() {
            Ok(prepared) => prepared,
            Err(TryRecvError::Empty) => {
                if under_way.is_late || under_way.begun.elapsed() < LONG {
                    return None;
                }
                under_way.is_late = true;
                return Some((Err(LATE.to_owned()), mem::take(&mut under_way.requests)));
            }
            Err(TryRecvError::Disconnected) => Err("its preparation broke down".to_owned()),
        };
        let mut last = self.under_way.take();
        let requests = last.as_mut().map(|last| mem::take(&mut last.requests)).unwrap_or_default();
        self.cancelled = 0;
        Some((prepared, requests))
    }
}

#[cfg(test)]
mod tests;
