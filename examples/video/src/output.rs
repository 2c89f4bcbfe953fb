//! Where the player writes what it plays: a file, or a pipe into another program.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context, Result};

use crate::init::Init;
use crate::notice::{Notice, Notices};
use crate::recording::{Recording, Written};
use crate::sample::{Sample, TrackKind};

/// Bytes that wait for a program that reads slowly: ten seconds of 50 Mbit/s. A piece that is longer waits alone.
const MOST_WAITING: usize = 64 << 20;

/// A fragmented MP4 that grows. It begins with the first key frame that has an initialisation segment.
#[derive(Debug)]
pub struct Output {
    to: Option<Target>,
    recording: Option<Recording<Vec<u8>>>,
    /// Nothing is written before the next key frame: what comes until then depends on what is missing.
    waits_for_key: bool,
    /// Nor is one of a rendition whose tracks are others than those of the file.
    is_unfit: bool,
    has_told_slow: bool,
    written: u64,
    left_out: u64,
}

#[derive(Debug)]
enum Target {
    File(BufWriter<File>),
    /// A thread writes, so that a program that reads slowly, or not at all, does not stop the connection.
    Pipe {
        pieces: Sender<Vec<u8>>,
        /// Bytes of pieces that are not written yet.
        waiting: Arc<AtomicUsize>,
        thread: JoinHandle<()>,
    },
}

impl Output {
    /// A new file, or an old one anew.
    pub fn file(path: &Path) -> Result<Self> {
        let file = File::create(path)
            .with_context(|| format!("{}: cannot be written", path.display()))?;
        Ok(Self::to(Target::File(BufWriter::new(file))))
    }

    /// A pipe, such as standard output.
    pub fn pipe(mut writer: impl Write + Send + 'static) -> Result<Self> {
        let (pieces, handed_over) = channel::<Vec<u8>>();
        let waiting = Arc::new(AtomicUsize::new(0));
        let left = Arc::clone(&waiting);
        let thread = std::thread::Builder::new().name("output".into()).spawn(move || {
            // When writing fails, the channel is closed, which the player notices.
            while let Ok(piece) = handed_over.recv() {
                if writer.write_all(&piece).and_then(|()| writer.flush()).is_err() {
                    return;
                }
                left.fetch_sub(piece.len(), Ordering::Relaxed);
            }
        })?;
        Ok(Self::to(Target::Pipe { pieces, waiting, thread }))
    }

    fn to(target: Target) -> Self {
        Self {
            to: Some(target),
            recording: None,
            waits_for_key: true,
            is_unfit: false,
            has_told_slow: false,
            written: 0,
            left_out: 0,
        }
    }

    /// Writes a sample; a key frame's `init` is that of its rendition. Another resolution is told.
    pub fn write(&mut self, sample: &Sample, init: Option<Init>, notices: &mut Notices) {
        if let Some(init) = init {
            self.begin(init, notices);
        }
        let is_key = sample.kind == TrackKind::Video && sample.is_sync;
        if is_key && self.recording.is_some() && !self.is_unfit {
            self.waits_for_key = false;
        }
        let Some(recording) = self.recording.as_mut().filter(|_| !self.waits_for_key) else {
            self.left_out += 1;
            return;
        };
        match recording.write(sample) {
            Ok(Written::Whole) => self.written += 1,
            Ok(Written::LeftOut) => self.left_out += 1,
            Err(error) => {
                self.left_out += 1;
                notices.push(Notice::BadFrame(format!("{error:#}")));
            }
        }
        self.hand_over(notices);
    }

    /// Samples that were written, and that were not.
    pub fn counts(&self) -> (u64, u64) {
        (self.written, self.left_out)
    }

    /// Whether nothing has been written, because no frame had an initialisation segment.
    pub fn is_empty(&self) -> bool {
        self.written == 0
    }

    /// Writes what waits. A program that reads slowly is waited for.
    pub fn finish(mut self) -> Result<()> {
        match self.to.take() {
            Some(Target::File(mut file)) => file.flush().context("writing the video"),
            Some(Target::Pipe { pieces, thread, .. }) => {
                drop(pieces);
                thread.join().map_err(|_| anyhow::anyhow!("the thread of the output panicked"))
            }
            None => Ok(()),
        }
    }

    fn begin(&mut self, init: Init, notices: &mut Notices) {
        match &mut self.recording {
            None => match Recording::new(Vec::new(), init) {
                Ok(recording) => self.recording = Some(recording),
                Err(error) => notices.push(Notice::BadFrame(format!("{error:#}"))),
            },
            Some(recording) => {
                self.is_unfit = !recording.set_init(init);
                if self.is_unfit {
                    self.waits_for_key = true;
                    notices.push(Notice::BadFrame("it is of other tracks than before".into()));
                }
            }
        }
    }

    fn hand_over(&mut self, notices: &mut Notices) {
        let Some(recording) = &mut self.recording else { return };
        let bytes = std::mem::take(recording.out());
        let lost = match &mut self.to {
            None => return,
            Some(Target::File(file)) => {
                file.write_all(&bytes).err().map(|error| error.to_string())
            }
            Some(Target::Pipe { pieces, waiting, .. }) => {
                let len = bytes.len();
                let before = waiting.load(Ordering::Relaxed);
                if before > 0 && before + len > MOST_WAITING {
                    self.on_slow(notices);
                    return;
                }
                waiting.fetch_add(len, Ordering::Relaxed);
                pieces.send(bytes).err().map(|_| "the pipe is closed".to_owned())
            }
        };
        if let Some(why) = lost {
            self.to = None;
            notices.push(Notice::OutputLost(why));
        }
    }

    fn on_slow(&mut self, notices: &mut Notices) {
        self.waits_for_key = true;
        self.written = self.written.saturating_sub(1);
        self.left_out += 1;
        if !std::mem::replace(&mut self.has_told_slow, true) {
            notices.push(Notice::OutputSlow);
        }
    }
}
