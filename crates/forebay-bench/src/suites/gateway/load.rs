//! The frames of a size, with what the offline gateway lets through of them.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use forebay_bpf::programs::generator::Generator;
use forebay_bpf::programs::replay::{ReplayedFrame, ReplayedFrames, place_of};
use forebay_io::{Format, OutputName, ReadOptions, Reader, WriteOptions, Writer};
use forebay_packet::{Arena, Batch, Interface};
use serde_json::Value;

use super::connections::{self, Conversation};
use super::lane::{Mode, Rules};
use crate::failure::{During, Result, ensure};
use crate::peers::process::CommandLine;
use crate::suites::forward::traffic::{CHECK_SEQUENCE, Traffic};

/// Room for a frame.
const SLOT: usize = 1_600;

/// Nanoseconds from frame to frame in the capture.
const INTERVAL: u64 = 3_000;

/// What passes of a round.
#[derive(Clone, Debug)]
pub struct Passing {
    /// By frame.
    pub frames: Vec<bool>,
    pub count: u64,
    /// Shares of frames and bytes.
    pub share: [f64; 2],
}

impl Passing {
    fn new(frames: Vec<bool>, all: &[ReplayedFrame]) -> Self {
        let bytes = |frame: &ReplayedFrame| (frame.bytes.len() + CHECK_SEQUENCE) as f64;
        let passed = frames.iter().zip(all).filter(|(passes, _)| **passes);
        let count = passed.clone().count() as u64;
        let passed_bytes: f64 = passed.map(|(_, frame)| bytes(frame)).sum();
        let share =
            [count as f64 / all.len() as f64, passed_bytes / all.iter().map(bytes).sum::<f64>()];
        Self { frames, count, share }
    }
}

/// The frames of a size.
pub struct Load {
    pub size: usize,
    pub frames: Vec<ReplayedFrame>,
    pub connections: usize,
    /// In memory that programs read.
    pub replayed: ReplayedFrames,
    pub traffic: Arc<Traffic>,
    /// With times of sending.
    pub timed: Arc<Traffic>,
    passing: Vec<(Mode, Passing)>,
}

impl Load {
    pub fn new(conversations: &[Conversation], size: usize) -> Result<Self> {
        let (frames, connections) = connections::frames(conversations, size);
        Self::of(frames, connections, size)
    }

    fn of(frames: Vec<ReplayedFrame>, connections: usize, size: usize) -> Result<Self> {
        let replayed = ReplayedFrames::new(&frames)?;
        let all: usize = frames.iter().map(|frame| frame.bytes.len() + CHECK_SEQUENCE).sum();
        let mean = all as f64 / frames.len() as f64;
        let traffic = |timed| -> Result<Arc<Traffic>> {
            let generator = Generator::replay(&replayed, timed)?;
            Ok(Arc::new(Traffic { generator, frame: vec![0; replayed.longest()], mean }))
        };
        let (traffic, timed) = (traffic(false)?, traffic(true)?);
        let all = Passing::new(vec![true; frames.len()], &frames);
        let passing = [Mode::Forward, Mode::Annotate, Mode::Back].map(|mode| (mode, all.clone()));
        let passing = passing.to_vec();
        Ok(Self { size, frames, connections, replayed, traffic, timed, passing })
    }

    /// The load that consists of the frames of `mode` that are withheld, or of those that pass.
    pub fn part(&self, mode: Mode, passes: bool) -> Result<Option<Self>> {
        let chosen = self.frames.iter().zip(&self.passing(mode)?.frames);
        let chosen = chosen.filter(|(_, frame)| **frame == passes);
        let mut frames: Vec<ReplayedFrame> = chosen.map(|(frame, _)| frame.clone()).collect();
        if frames.is_empty() {
            return Ok(None);
        }
        frames.iter_mut().enumerate().for_each(|(at, frame)| connections::place(frame, at));
        Self::of(frames, 0, self.size).map(Some)
    }

    /// What passes with a mode.
    pub fn passing(&self, mode: Mode) -> Result<&Passing> {
        let found = self.passing.iter().find(|(known, _)| *known == mode);
        Ok(&found.ok_or("the mode was not tried offline")?.1)
    }

    /// Has the offline gateway decide what passes.
    pub fn decide(
        &mut self,
        mode: Mode,
        program: &Path,
        rules: &Rules,
        folder: &Path,
    ) -> Result<()> {
        let [input, output] = ["in.pcap", "out.pcap"].map(|name| folder.join(name));
        self.write(&input)?;
        let text = |path: &Path| path.display().to_string();
        let mut arguments = vec!["--json".to_owned(), "gateway".to_owned()];
        arguments.extend(["-r".to_owned(), text(&input), "-w".to_owned(), text(&output)]);
        arguments.extend(["--mode".to_owned(), mode.name().to_owned()]);
        arguments.push(rules.option().to_owned());
        arguments.extend(rules.files.iter().map(|file| text(file)));
        let said = CommandLine::new(program, &arguments).output()?;
        let said: Value = serde_json::from_str(&said).during("reading from forebay")?;
        let packets = said["packets"].as_u64();
        ensure!(packets == Some(self.frames.len() as u64), "the gateway has {packets:?} packets");
        let mut passes = vec![false; self.frames.len()];
        let reading = format!("reading {}", output.display());
        let mut reader = Reader::open(&output, &ReadOptions::default()).during(&reading)?;
        while let Some(batch) = reader.receive().during(&reading)? {
            for i in batch.live().iter() {
                let number = batch.packet(i).get(18..20).and_then(|number| number.first_chunk());
                let number = place_of(number.map_or(0, |number| u16::from_be_bytes(*number)));
                let frame = self.frames.get(number);
                let is_frame = frame.is_some_and(|frame| frame.bytes == batch.packet(i));
                ensure!(is_frame && !passes[number], "the gateway wrote another packet");
                passes[number] = true;
            }
        }
        for file in [input, output] {
            fs::remove_file(&file).during(file.display())?;
        }
        self.passing.push((mode, Passing::new(passes, &self.frames)));
        Ok(())
    }

    /// Batches of the frames.
    pub fn batches(&self) -> Result<Vec<Batch>> {
        let mut arena = Arena::new(self.frames.len(), SLOT).during("getting memory for packets")?;
        for (frame, ticks) in self.frames.iter().zip((1..).map(|number| number * INTERVAL)) {
            arena.push(&frame.bytes, frame.bytes.len() as u32, ticks, 0);
        }
        Ok(arena.into_batches(&Arc::new(vec![Interface::default()])))
    }

    fn write(&self, path: &Path) -> Result<()> {
        let interfaces = Arc::new(vec![Interface::default()]);
        let name = OutputName::Exact(path.to_owned());
        let mut writer = Writer::create(name, Format::Pcap, &interfaces, &WriteOptions::default())?;
        for batch in self.batches()? {
            writer.write(&batch, &batch.live())?;
        }
        writer.finish()?;
        Ok(())
    }
}
