//! Records of flows, from the workers to files or a stream.
//!
//! Each worker has a queue for each group whose records are exported. Its memory is allocated when
//! it is made. A worker appends the records that end by a batch, and never waits for room: what
//! does not fit is counted. One thread takes all queues, some dozen times a second, and writes.
//! While the reader of a stream takes nothing, that thread waits, and records stay in the queues.
//! When a stage ends, its whole table is handed over, so that open records are written too.

mod queue;

use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use forebay_export::{Origin, RecordFiles, RecordOutput, RecordStream, Row, Waiting};
use forebay_flow::{FlowRecord, FlowTable};
use forebay_io::Losses;
use forebay_pipeline::RecordExport;

use crate::config::{Export, ExportTarget};
use crate::group::LiveGroup;
use crate::report::add_all;
use queue::{Content, Queue};

/// Time between two passes over the queues.
const PASS: Duration = Duration::from_millis(20);

/// Time between two attempts after a failed write.
const PAUSE: Duration = Duration::from_secs(1);

/// Records of a table that are written together, before the queues have their turn.
const STEP: usize = 1_024;

/// Notices that wait for the broker's thread.
const MOST_NOTICES: usize = 16;

/// The causes of lost records.
const QUEUE_FULL: &str = "queue_full";
const DISK_FULL: &str = "disk_full";
const WRITE_FAILED: &str = "write_failed";
const NO_READER: &str = "no_reader";
const SLOW_READER: &str = "slow_reader";

/// How long a reader that takes nothing is waited for when the broker ends.
const LAST_WAIT: Duration = Duration::from_secs(5);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Contents are in order between any two operations.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What became of records.
#[derive(Clone, Debug, Default)]
pub struct Exported {
    /// The name from the configuration.
    pub path: PathBuf,
    /// The present file.
    pub file: Option<PathBuf>,
    /// Records in files, or that a stream's reader can read.
    pub written: u64,
    /// Records in queues, buffered, or in a file that cannot be read before it is complete.
    pub held: u64,
    /// Records lost, by cause.
    pub lost: Losses,
    /// Files begun, or connections to readers; and files removed for newer ones.
    pub files: (u64, u64),
    /// Why records cannot be written at present.
    pub fault: Option<String>,
}

/// What the writing thread and the broker's share.
#[derive(Default)]
struct Shared {
    queues: Mutex<Vec<Arc<Queue>>>,
    exported: Mutex<Exported>,
    /// Records taken out of queues and not shown yet as written, held or lost. It changes while
    /// their queue, or `exported`, is locked.
    in_hand: AtomicU64,
    stop: AtomicBool,
    /// A notice about records lost for want of room was sent.
    has_told_of_queues: AtomicBool,
}

impl Shared {
    /// Records lost in queues that are in use; sends a notice of the first, or of those that were
    /// lost in queues that there are no more.
    fn lost_in_queues(&self, lost_before: u64, tell: &SyncSender<String>) -> u64 {
        let lost: u64 = lock(&self.queues).iter().map(|queue| queue.content().lost).sum();
        if lost_before + lost > 0 && !self.has_told_of_queues.swap(true, Ordering::Relaxed) {
            let what = "export: records are lost, as they end faster than they are written \
                        (queue_full): `queue` makes room for more";
            let _ = tell.try_send(what.to_owned());
        }
        lost
    }
}

/// What is done while the reader of a stream takes nothing: losses in queues are reported, and when
/// the broker ends, waiting does too.
fn waiting(shared: Arc<Shared>, tell: SyncSender<String>) -> Waiting {
    let mut stopped: Option<Instant> = None;
    Box::new(move || {
        shared.lost_in_queues(0, &tell);
        shared.stop.load(Ordering::Acquire)
            && stopped.get_or_insert_with(Instant::now).elapsed() >= LAST_WAIT
    })
}

/// Writes the records of a broker's groups.
pub(crate) struct Exporter {
    config: Export,
    shared: Arc<Shared>,
    /// Until it is started.
    writing: Option<Writing>,
    thread: Option<JoinHandle<()>>,
    notices: Receiver<String>,
}

impl Exporter {
    pub(crate) fn new(config: &Export) -> Self {
        let (tell, notices) = sync_channel(MOST_NOTICES);
        let shared = Arc::new(Shared::default());
        lock(&shared.exported).path = config.target.path().to_owned();
        let output = match &config.target {
            ExportTarget::Files(files) => {
                RecordOutput::Files(Box::new(RecordFiles::new(files.clone())))
            }
            ExportTarget::Stream(target, format) => {
                let waiting = waiting(Arc::clone(&shared), tell.clone());
                RecordOutput::Stream(RecordStream::new(target.clone(), *format, waiting))
            }
        };
        let writing = Writing::new(output, config.queue, Arc::clone(&shared), tell);
        let (config, writing) = (config.clone(), Some(writing));
        Self { config, shared, writing, thread: None, notices }
    }

    /// Opens the first file, or the stream if it has a reader.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub(crate) fn begin(&mut self) -> io::Result<()> {
        self.writing.as_mut().map_or(Ok(()), |writing| writing.output.begin())
    }

    /// Starts to write.
    ///
    /// # Errors
    /// If there is no thread.
    pub(crate) fn start(&mut self) -> io::Result<()> {
        let Some(writing) = self.writing.take() else { return Ok(()) };
        let thread = thread::Builder::new().name("forebay-export".to_owned());
        self.thread = Some(thread.spawn(move || writing.run())?);
        Ok(())
    }

    /// The setting of a worker's chain of a group: its queue, if the group's records are exported.
    pub(crate) fn setting(&self, live: &LiveGroup, worker: usize) -> RecordExport {
        let group = &live.config;
        if !self.config.has(group) {
            return RecordExport(None);
        }
        let mut queues = lock(&self.shared.queues);
        let known = |queue: &&Arc<Queue>| queue.group == group.name && queue.worker == worker;
        let queue = queues.iter().find(known).cloned().unwrap_or_else(|| {
            let records = Vec::with_capacity(self.config.queue);
            let queue = Arc::new(Queue {
                group: group.name.clone(),
                worker,
                records: self.config.queue,
                content: Mutex::new(Content { records, ..Content::default() }),
                sensors: Mutex::default(),
            });
            queues.push(Arc::clone(&queue));
            queue
        });
        let mut sensors = lock(&queue.sensors);
        let named = Arc::make_mut(&mut sensors);
        for (index, sensor) in live.indices() {
            let index = usize::from(index);
            if index >= named.len() {
                named.resize(index + 1, None);
            }
            named[index] = Some(sensor.name.clone());
        }
        drop(sensors);
        RecordExport(Some(queue))
    }

    /// What became of records so far.
    pub(crate) fn exported(&self) -> Exported {
        let queues = lock(&self.shared.queues).clone();
        // Locked together, so that no record is between a queue and what was taken.
        let contents: Vec<_> = queues.iter().map(|queue| queue.content()).collect();
        let shown = lock(&self.shared.exported);
        let mut exported = shown.clone();
        exported.held += self.shared.in_hand.load(Ordering::Relaxed);
        drop(shown);
        for content in contents {
            exported.held += content.records.len() as u64;
            exported.held += content.table.as_ref().map_or(0, |table| table.open() as u64);
            add_all(&mut exported.lost, vec![(QUEUE_FULL, content.lost)]);
        }
        exported.lost.retain(|(_, records)| *records > 0);
        exported
    }

    /// Notices for operators.
    pub(crate) fn notices(&self) -> impl Iterator<Item = String> {
        self.notices.try_iter()
    }

    /// Writes what is left, when all workers have ended, and completes the file.
    pub(crate) fn finish(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic there was printed there; the numbers are the last.
            let _ = thread.join();
        }
    }
}

impl Drop for Exporter {
    /// Removes the first file of an exporter that was not started: no record came.
    fn drop(&mut self) {
        if let Some(Writing { output: RecordOutput::Files(files), .. }) = &mut self.writing {
            // The failure that ended the broker is reported.
            let _ = files.discard_empty();
        }
    }
}

/// The present cause of losses.
struct Fault {
    name: &'static str,
    what: String,
    /// When writing is tried again.
    until: Instant,
    /// Records in files when the last attempt failed: with more of them a second after `until`, it
    /// is over.
    written: u64,
}

/// The thread that writes.
struct Writing {
    output: RecordOutput,
    shared: Arc<Shared>,
    tell: SyncSender<String>,
    /// What is taken from a queue at once, in exchange for this memory.
    taken: Vec<FlowRecord>,
    /// Records that were given to the files, or lost in their place.
    given: u64,
    /// Of these, those that were shown as written, held or lost.
    shown: u64,
    /// Those lost by a failed write.
    lost: Losses,
    /// Records lost for want of room in queues that there are no more.
    lost_in_queues: u64,
    fault: Option<Fault>,
}

impl Writing {
    fn new(
        output: RecordOutput,
        queue: usize,
        shared: Arc<Shared>,
        tell: SyncSender<String>,
    ) -> Self {
        Self {
            output,
            shared,
            tell,
            taken: Vec::with_capacity(queue),
            given: 0,
            shown: 0,
            lost: Losses::new(),
            lost_in_queues: 0,
            fault: None,
        }
    }

    fn run(mut self) {
        loop {
            // Read first: what is in the queues when it is set is written.
            let is_last = self.shared.stop.load(Ordering::Acquire);
            self.take_all();
            if is_last {
                break;
            }
            self.settle(RecordOutput::flush);
            self.show();
            thread::park_timeout(PASS);
        }
        // At once, also after a failure; but no other reader of a stream is searched for.
        if let Some(fault) = &mut self.fault {
            fault.until -= 2 * PAUSE;
        }
        match self.output.stream().is_some_and(|stream| !stream.is_open()) {
            true => self.lose(self.fault.as_ref().map_or(NO_READER, |fault| fault.name)),
            false => self.settle(RecordOutput::finish),
        }
        self.show();
    }

    /// Writes what is in the queues.
    fn take_all(&mut self) {
        let queues = lock(&self.shared.queues).clone();
        for queue in &queues {
            let mut content = queue.content();
            let table = content.table.take();
            self.take_in_hand(table.as_ref().map_or(0, FlowTable::open));
            drop(content);
            self.take_records(queue);
            if let Some(table) = table {
                for (written, record) in table.records().enumerate() {
                    if written % STEP == STEP - 1 {
                        self.settle(RecordOutput::flush);
                        queues.iter().for_each(|queue| self.take_records(queue));
                    }
                    self.write(record, queue);
                }
                drop(table);
                queue.content().has_table = false;
            }
        }
        drop(queues);
        // A queue that no chain has any more.
        let lost_in_queues = &mut self.lost_in_queues;
        lock(&self.shared.queues).retain(|queue| {
            let content = queue.content();
            let is_used =
                Arc::strong_count(queue) > 1 || !content.records.is_empty() || content.has_table;
            *lost_in_queues += if is_used { 0 } else { content.lost };
            is_used
        });
    }

    /// Writes the records in a queue.
    fn take_records(&mut self, queue: &Queue) {
        let mut taken = std::mem::take(&mut self.taken);
        let mut content = queue.content();
        std::mem::swap(&mut content.records, &mut taken);
        self.take_in_hand(taken.len());
        drop(content);
        for record in &taken {
            self.write(record, queue);
        }
        taken.clear();
        self.taken = taken;
    }

    /// Records are taken out of a queue that is locked.
    fn take_in_hand(&self, records: usize) {
        self.shared.in_hand.fetch_add(records as u64, Ordering::Relaxed);
    }

    fn write(&mut self, record: &FlowRecord, queue: &Queue) {
        self.given += 1;
        // Not locked while the stream waits.
        let sensors = Arc::clone(&lock(&queue.sensors));
        let sensor = record.output().and_then(|output| sensors.get(usize::from(output)));
        let sensor = sensor.and_then(Option::as_deref);
        let origin = Origin { group: &queue.group, sensor };
        let row = Row::new(record, 0, Some(origin));
        self.settle(|output| output.write(&row));
    }

    /// Writes, unless the last attempt failed less than a second ago, and accounts for what is
    /// lost.
    fn settle(&mut self, write: impl FnOnce(&mut RecordOutput) -> io::Result<()>) {
        if let Some(Fault { name, until, .. }) = self.fault
            && Instant::now() < until
        {
            self.lose(name);
            return;
        }
        match write(&mut self.output) {
            Ok(()) => {
                let written = self.output.written();
                let is_read = self.output.stream().is_some_and(RecordStream::is_open);
                // A full disk takes a few more records at times: it writes again when writing did
                // not fail for a second.
                let goes_on = |fault: &mut Fault| {
                    (is_read || written > fault.written) && fault.until.elapsed() >= PAUSE
                };
                if self.fault.take_if(goes_on).is_some() {
                    let lost: u64 = self.lost.iter().map(|(_, records)| records).sum();
                    let what = format!("export: writes again; {lost} records were lost by now");
                    // Where too many wait, numbers say the same.
                    let _ = self.tell.try_send(what);
                }
            }
            Err(error) => {
                let is_stream = self.output.stream().is_some();
                let name = match error.kind() {
                    ErrorKind::TimedOut if is_stream => SLOW_READER,
                    _ if is_stream && RecordStream::is_without_reader(&error) => NO_READER,
                    ErrorKind::FileTooLarge | ErrorKind::QuotaExceeded | ErrorKind::StorageFull => {
                        DISK_FULL
                    }
                    _ => WRITE_FAILED,
                };
                self.lose(name);
                let path = lock(&self.shared.exported).path.display().to_string();
                let what = format!("cannot write {path}: {error}");
                if self.fault.is_none() {
                    let then = "tries again every second";
                    let _ = self.tell.try_send(format!("export: {what}: {then}"));
                }
                let (until, written) = (Instant::now() + PAUSE, self.output.written());
                self.fault = Some(Fault { name, what, until, written });
            }
        }
    }

    /// Counts records that were given and are in no file as lost.
    fn lose(&mut self, name: &'static str) {
        let known: u64 = self.lost.iter().map(|(_, records)| records).sum();
        let kept = self.output.written() + self.output.held();
        add_all(&mut self.lost, vec![(name, self.given.saturating_sub(kept + known))]);
    }

    /// Shows the broker's thread how it stands.
    fn show(&mut self) {
        // The broker's thread adds those in queues.
        self.shared.lost_in_queues(self.lost_in_queues, &self.tell);
        let shown = std::mem::replace(&mut self.shown, self.given);
        let mut exported = lock(&self.shared.exported);
        exported.file = self.output.current().map(PathBuf::from);
        self.shared.in_hand.fetch_sub(self.given - shown, Ordering::Relaxed);
        exported.written = self.output.written();
        exported.held = self.output.held();
        exported.lost.clone_from(&self.lost);
        add_all(&mut exported.lost, vec![(QUEUE_FULL, self.lost_in_queues)]);
        exported.files = self.output.files();
        exported.fault = self.fault.as_ref().map(|fault| fault.what.clone());
    }
}
