//! Capture files as ports of a live broker: for playback and for recording.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_packet::{Annotation, Arena, Batch, Interface, LiveMask, Rewrite, Rewrites};

use crate::error::Error;
use crate::frame::{rewrite_of, write_frame};
use crate::port::{Losses, Received, Recorded, Rx, RxCounters, Tx, TxCounters};
use crate::reader::Reader;
use crate::series::Series;

/// Plays a capture, as fast as it is polled.
pub struct CaptureRx {
    reader: Reader,
    counters: RxCounters,
}

impl CaptureRx {
    /// Plays the packets of `reader`.
    #[must_use]
    pub fn new(reader: Reader) -> Self {
        Self { reader, counters: RxCounters::default() }
    }
}

impl Rx for CaptureRx {
    fn receive(&mut self) -> Result<Received, Error> {
        let Some(batch) = self.reader.receive()? else { return Ok(Received::End) };
        self.counters.packets += batch.live().count() as u64;
        self.counters.bytes += batch.wire_bytes();
        Ok(Received::Batch(batch))
    }

    fn counters(&mut self) -> Result<RxCounters, Error> {
        Ok(self.counters.clone())
    }
}

/// The behaviour of a recorder after a write error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFull {
    /// Retry every second; packets in between are lost.
    #[default]
    Retry,
    /// Stop permanently.
    Stop,
}

/// The interval between retries of a failed write, and how long writes must succeed before
/// that is reported.
const PAUSE: Duration = Duration::from_secs(1);

/// The state of writing.
enum RecordingState {
    Recording,
    /// Nothing is written until this time.
    Waiting(Instant),
    /// Writing was retried, and has succeeded since this time.
    Trying(Instant),
    Stopped,
}

/// A recorder: writes packets to captures. If they come from several inputs, each input has
/// its own interfaces in the file. Packets whose interface is beyond the 65,536th of the
/// file are lost as `too_many_interfaces`.
///
/// Packets count as sent when the system has accepted them. If a write fails, the file ends
/// with its last complete packet; other packets are lost as `disk_full` or `write_failed`.
/// A file that cannot be truncated there is left as `NAME.partial` or `NAME.partial.old`,
/// and a new one is started.
pub struct CaptureTx {
    series: Series,
    on_full: OnFull,
    state: RecordingState,
    /// The cause of present losses, as a name and as text.
    fault: Option<(&'static str, String)>,
    /// Packets lost for it.
    lost: u64,
    losses: Losses,
    tell: Box<dyn FnMut(String) + Send>,
    /// The interfaces of all inputs, in the order of their first appearance.
    interfaces: Arc<Vec<Interface>>,
    inputs: Vec<Input>,
    frame: Vec<u8>,
}

/// The interfaces of an input; more may be added.
#[derive(Default)]
struct Input {
    interfaces: Arc<Vec<Interface>>,
    /// Their numbers in the file, as far as they fit.
    numbers: Vec<u16>,
    /// Whether some have other numbers in the file than in the batches, or none.
    is_renumbered: bool,
}

/// The most interfaces of a file: packets have 16-bit interface numbers.
const MOST_INTERFACES: usize = 1 << 16;

impl CaptureTx {
    /// Records packets to the captures of `series`, which are pcapng. `tell` receives
    /// messages for operators: writing fails, or continues.
    #[must_use]
    pub fn new(series: Series, on_full: OnFull, tell: Box<dyn FnMut(String) + Send>) -> Self {
        Self {
            series,
            on_full,
            state: RecordingState::Recording,
            fault: None,
            lost: 0,
            losses: Losses::new(),
            tell,
            interfaces: Arc::default(),
            inputs: Vec::new(),
            frame: Vec::new(),
        }
    }

    /// Adds the interfaces of `batch`; returns the number of its input, unless the file can
    /// have none of them.
    fn input_of(&mut self, batch: &Batch) -> Option<usize> {
        let room = MOST_INTERFACES - self.interfaces.len();
        let theirs = batch.interfaces();
        let is_of = |input: &Input| {
            let known = &input.interfaces;
            Arc::ptr_eq(known, theirs) || known.starts_with(theirs) || theirs.starts_with(known)
        };
        let at = match self.inputs.iter().position(is_of) {
            Some(at) => at,
            None if room == 0 => return None,
            None => {
                self.inputs.push(Input::default());
                self.inputs.len() - 1
            }
        };
        let input = &mut self.inputs[at];
        let known = input.interfaces.len();
        if theirs.len() >= known {
            input.interfaces = Arc::clone(theirs);
        }
        let new = theirs.get(known..).unwrap_or_default();
        let new = &new[..new.len().min(room)];
        if !new.is_empty() {
            let first = self.interfaces.len();
            Arc::make_mut(&mut self.interfaces).extend_from_slice(new);
            // There is room for them.
            input.numbers.extend((first..self.interfaces.len()).map(|number| number as u16));
            input.is_renumbered |= first != known;
        }
        input.is_renumbered |= input.numbers.len() < input.interfaces.len();
        Some(at)
    }

    /// Writes the packets of `batch`, which are of input `input` and have interfaces in the
    /// file.
    fn write(
        &mut self,
        batch: &Batch,
        which: &LiveMask,
        rewrites: &Rewrites,
        input: usize,
    ) -> Result<(), Error> {
        let is_whole = |i: usize| {
            let rewrite = rewrite_of(batch, i, rewrites);
            *rewrite == Rewrite::NONE || *rewrite == COMMENTED
        };
        if self.inputs[input].is_renumbered || !which.iter().all(is_whole) {
            return self.write_copies(batch, which, rewrites, input);
        }
        let mut marked = LiveMask::EMPTY;
        let is_marked = |&i: &usize| has_comment(batch, i, rewrites);
        which.iter().filter(is_marked).for_each(|i| marked.insert(i));
        self.series.write_marked(batch, which, &marked)
    }

    /// Writes packets that are rewritten, or whose interfaces have other numbers.
    fn write_copies(
        &mut self,
        batch: &Batch,
        which: &LiveMask,
        rewrites: &Rewrites,
        input: usize,
    ) -> Result<(), Error> {
        let len = |i: usize| rewrite_of(batch, i, rewrites).len_of(batch.packet(i));
        let longest = which.iter().map(len).max().unwrap_or(0);
        let numbers = &self.inputs[input].numbers;
        let copies = Arena::new(which.count(), longest).map(|mut arena| {
            for i in which.iter() {
                let (packet, rewrite) = (batch.packet(i), rewrite_of(batch, i, rewrites));
                self.frame.resize(rewrite.len_of(packet), 0);
                // The buffer has the right length.
                let _ = write_frame(rewrite, packet, &mut self.frame);
                // Pushed headers add to the length on the wire; slicing does not change it;
                // stripping reduces it.
                let left = batch.wire_len(i).saturating_sub(rewrite.stripped_off(packet) as u32);
                let wire_len = left.max(self.frame.len() as u32);
                let interface = numbers[usize::from(batch.interface_id(i))];
                arena.push(&self.frame, wire_len, batch.ticks(i), interface);
            }
            arena.into_batches(&self.interfaces)
        });
        let name = self.series.name().display().to_string();
        let mut originals = which.iter();
        for copy in copies.map_err(|source| Error::Write { file: name, source })? {
            let mut marked = LiveMask::EMPTY;
            for (i, original) in copy.live().iter().zip(&mut originals) {
                if has_comment(batch, original, rewrites) {
                    marked.insert(i);
                }
            }
            self.series.write_marked(&copy, &copy.live(), &marked)?;
        }
        Ok(())
    }

    /// Packets in the files, and buffered for them.
    fn accepted(&self) -> u64 {
        self.series.written().packets + self.series.held()
    }

    fn lose(&mut self, name: &'static str, packets: u64) {
        match self.losses.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += packets,
            None if packets > 0 => self.losses.push((name, packets)),
            None => {}
        }
        self.lost += packets;
    }

    /// Handles the result of writing, after which `expected` packets should be accepted.
    fn settle(&mut self, outcome: Result<(), Error>, expected: u64) -> Result<(), Error> {
        let Err(error) = outcome else {
            self.go_on();
            return Ok(());
        };
        let lost = expected.saturating_sub(self.accepted());
        if matches!(error, Error::DoesNotFit { .. }) {
            self.lose("does_not_fit", lost);
            return Err(error);
        }
        let name = name_of(&error);
        let is_news = self.fault.is_none();
        if is_news {
            self.lost = 0;
        }
        self.lose(name, lost);
        let stops = self.on_full == OnFull::Stop;
        if is_news {
            let Self { lost, series, .. } = self;
            let kept = series.written().packets;
            let then = if stops { "records no more" } else { "tries again every second" };
            let told =
                format!("{error}: {lost} packets lost, {kept} are whole in its files; {then}");
            (self.tell)(told);
        }
        self.fault = Some((name, error.to_string()));
        if stops {
            self.state = RecordingState::Stopped;
            return Err(error);
        }
        self.state = RecordingState::Waiting(Instant::now() + PAUSE);
        Ok(())
    }

    /// Records that writing succeeds, and reports it after a while.
    fn go_on(&mut self) {
        match self.state {
            RecordingState::Trying(since) if since.elapsed() >= PAUSE => {
                self.state = RecordingState::Recording;
                self.fault = None;
                let (file, lost) = (self.series.name(), self.lost);
                let file = self.series.current().unwrap_or(file);
                (self.tell)(format!(
                    "records to {} again; {lost} packets were lost in between",
                    file.display()
                ));
            }
            RecordingState::Waiting(_) => self.state = RecordingState::Trying(Instant::now()),
            RecordingState::Recording | RecordingState::Trying(_) | RecordingState::Stopped => {}
        }
    }

    /// The cause of the present pause, by name.
    fn pause(&self) -> Option<&'static str> {
        let is_paused = match self.state {
            RecordingState::Waiting(until) => Instant::now() < until,
            RecordingState::Stopped => true,
            RecordingState::Recording | RecordingState::Trying(_) => false,
        };
        self.fault.as_ref().filter(|_| is_paused).map(|(name, _)| *name)
    }
}

/// Nothing is changed but for a comment.
const COMMENTED: Rewrite = Rewrite { annotation: Some(Annotation::Comment), ..Rewrite::NONE };

/// Whether packet `i` is of a suspect flow, and its output marks it by a comment.
fn has_comment(batch: &Batch, i: usize, rewrites: &Rewrites) -> bool {
    let annotation = rewrite_of(batch, i, rewrites).annotation;
    batch.suspect.contains(i) && annotation == Some(Annotation::Comment)
}

/// The name of losses for lack of disk space.
const DISK_FULL: &str = "disk_full";

/// The name of losses caused by an error.
fn name_of(error: &Error) -> &'static str {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    match error {
        Error::Write { source, .. } | Error::Create { source, .. } => match source.kind() {
            FileTooLarge | QuotaExceeded | StorageFull => DISK_FULL,
            _ => "write_failed",
        },
        _ => "write_failed",
    }
}

impl Tx for CaptureTx {
    fn begin(&mut self) -> Result<(), Error> {
        // Create a capture at once, even without packets, so that it can be seen.
        let outcome = self.series.open(&self.interfaces).and_then(|()| self.series.flush());
        match outcome {
            // There may be space later. Every other error fails the start.
            Err(error) if name_of(&error) == DISK_FULL => self.settle(Err(error), 0),
            outcome => outcome,
        }
    }

    fn send(&mut self, batch: &Batch, which: &LiveMask, rewrites: &Rewrites) -> Result<(), Error> {
        let which = batch.live().and(which);
        let given = which.count() as u64;
        if let Some(name) = self.pause() {
            self.lose(name, given);
            return Ok(());
        }
        let input = self.input_of(batch);
        let numbered = input.map_or(0, |input| self.inputs[input].numbers.len());
        let mut fit = LiveMask::default();
        let has_number = |&i: &usize| usize::from(batch.interface_id(i)) < numbered;
        which.iter().filter(has_number).for_each(|i| fit.insert(i));
        let unnumbered = given - fit.count() as u64;
        self.lose("too_many_interfaces", unnumbered);
        let Some(input) = input.filter(|_| unnumbered < given) else { return Ok(()) };
        let expected = self.accepted() + given - unnumbered;
        let outcome = self.write(batch, &fit, rewrites, input);
        self.settle(outcome, expected)
    }

    fn flush(&mut self) -> Result<(), Error> {
        if self.pause().is_some() {
            return Ok(());
        }
        let expected = self.accepted();
        let outcome = self.series.flush().and_then(|()| self.series.tick());
        if outcome.is_ok() && matches!(self.state, RecordingState::Waiting(_)) {
            // Nothing was written, so there is no success to record.
            return Ok(());
        }
        self.settle(outcome, expected)
    }

    fn counters(&mut self) -> Result<TxCounters, Error> {
        let (written, (files, removed)) = (self.series.written(), self.series.files());
        let file = self.series.current().map(|file| file.display().to_string());
        let recorded = Recorded {
            file: file.unwrap_or_default(),
            files,
            removed,
            fault: self.fault.as_ref().map(|(_, text)| text.clone()),
            has_stopped: matches!(self.state, RecordingState::Stopped),
        };
        Ok(TxCounters {
            packets: written.packets,
            bytes: written.bytes,
            losses: self.losses.clone(),
            held: self.series.held(),
            recorded: Some(recorded),
        })
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.series.close()
    }
}
