//! Output files of `filter`: one, or several by size (-C) and by time (-G), as in tcpdump.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use forebay_io::{Format, Naming, Placement, Series, SeriesOptions, WriteOptions, is_stream};
use forebay_packet::{Batch, Interface};
use forebay_pipeline::Ledger;

use crate::cli::FilterArgs;
use crate::ending::{input_identity, loss_of, refuse_input};
use crate::failure::Failure;

/// The longest buffering of packets while a file grows visibly.
const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The files of selected packets, one after another.
pub struct Files {
    series: Series,
    name: PathBuf,
    grows: bool,
    flushed: Instant,
}

impl Files {
    /// Files according to the options. None is opened before its first packet.
    pub fn new(args: &FilterArgs, format: Format) -> Result<Self, Failure> {
        let name = args.write.clone().unwrap_or_default();
        let rotates = args.file_size.or(args.rotate_seconds).is_some();
        if name.as_os_str() == "-" && rotates {
            return Err(Failure::Usage(
                "-C and -G need a file name after -w, not standard output".to_owned(),
            ));
        }
        if args.file_count.is_some() && !rotates {
            return Err(Failure::Usage("-W N: expected -C or -G with it".to_owned()));
        }
        let grows = args.interface.is_some();
        let series = Series::new(SeriesOptions {
            name: name.clone(),
            format,
            write: WriteOptions {
                snap_len: args.snap_len.filter(|&bytes| bytes != 0),
                packet_buffered: args.packet_buffered,
                // A file of a live capture is visible while it grows.
                placement: if grows { Placement::Growing } else { Placement::Hidden },
                ..WriteOptions::default()
            },
            max_len: args.file_size.map(|millions| millions.saturating_mul(1_000_000)),
            max_age: args.rotate_seconds,
            naming: Naming::Tcpdump { files: args.file_count },
            spared: args.read.as_deref().and_then(input_identity),
        });
        let series = series.map_err(|error| Failure::Usage(format!("-w {error}")))?;
        args.read.iter().try_for_each(|input| refuse_input(&series.name(), input))?;
        Ok(Self { series, name, grows, flushed: Instant::now() })
    }

    /// Whether packets go to standard output.
    pub fn is_stdout(&self) -> bool {
        self.name.as_os_str() == "-"
    }

    /// Whether written data cannot be withdrawn.
    fn is_stream(&self) -> bool {
        is_stream(&self.series.name())
    }

    /// The files finished so far.
    pub fn names(&self) -> Vec<String> {
        self.series.names().iter().map(|name| name.display().to_string()).collect()
    }

    /// Whether the requested number of files was written.
    pub fn are_all_written(&self) -> bool {
        self.series.is_over()
    }

    /// Writes the live packets of a batch.
    pub fn send(&mut self, batch: &Batch) -> Result<(), Failure> {
        self.series.write(batch, &batch.live())?;
        self.flush()
    }

    /// Writes data that was buffered too long, if the file grows visibly.
    pub fn flush(&mut self) -> Result<(), Failure> {
        if self.grows && self.flushed.elapsed() >= LONGEST_WAIT {
            self.flushed = Instant::now();
            self.series.flush()?;
        }
        Ok(())
    }

    /// Completes the last file under its name. A run that selected nothing leaves an empty
    /// capture.
    pub fn finish(&mut self, interfaces: &[Interface]) -> Result<(), Failure> {
        Ok(self.series.finish(interfaces)?)
    }

    /// Moves packets that are in no file, because of `failure` or because all requested
    /// files are written, from the ledger's output to losses.
    pub fn correct(&self, ledger: &mut Ledger, failure: Option<&Failure>) {
        let name = match failure {
            None => "limit",
            Some(_) if !self.grows && !self.is_stream() => "discarded",
            Some(failure) => loss_of(failure),
        };
        ledger.keep_output(self.series.kept().packets, name);
    }
}
