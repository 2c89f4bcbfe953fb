//! Where the samples come from: media on disk or synthetic ones, segment after segment.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::ladder::{self, Rendition};
use crate::notice::{Notice, Notices};
use crate::rates;
use crate::sample::Sample;
use crate::synthetic::Synthetic;

/// How often a live playlist is looked at.
const LOOKS_EVERY: Duration = Duration::from_millis(100);

/// Media at several bit rates.
#[derive(Debug)]
pub struct Source {
    media: Media,
    looked_at: Option<Instant>,
    /// Whether it begins anew at its end.
    repeats: bool,
}

#[derive(Debug)]
enum Media {
    Ladder { renditions: Vec<Rendition>, next: usize },
    Synthetic(Synthetic),
}

/// A group of pictures, and the sound with them.
#[derive(Debug, PartialEq, Eq)]
pub struct Group {
    /// The place of its bit rate.
    pub rendition: usize,
    /// Its samples in the order in which they are decoded.
    pub samples: Vec<Sample>,
    /// Whether it follows the last one; not so the first again, and behind one that is left out.
    pub follows: bool,
}

/// What a source has next.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// A group.
    Group(Group),
    /// Nothing yet: the source is live, and is to be asked again soon.
    NotYet,
    /// Nothing any more.
    End,
}

impl Source {
    /// Media on disk: a directory of `video make`, or a master playlist.
    pub fn open(path: &Path, repeats: bool) -> Result<Self> {
        let renditions = ladder::open(path)?;
        let media = Media::Ladder { next: first(&renditions), renditions };
        Ok(Self { media, looked_at: None, repeats })
    }

    /// Synthetic media.
    pub fn synthetic(rates: Vec<u64>, seconds: u64, seed: u64) -> Self {
        let media = Media::Synthetic(Synthetic::new(rates, seconds, seed));
        Self { media, looked_at: None, repeats: false }
    }

    /// The bit rates, from the lowest.
    pub fn rates(&self) -> Vec<u64> {
        match &self.media {
            Media::Ladder { renditions, .. } => {
                renditions.iter().map(|rendition| rendition.bits_per_second).collect()
            }
            Media::Synthetic(synthetic) => synthetic.rates().to_vec(),
        }
    }

    /// The initialisation segment of a rendition; empty for synthetic media.
    pub fn init(&self, rendition: usize) -> &[u8] {
        match &self.media {
            Media::Ladder { renditions, .. } => {
                renditions.get(rendition).map_or(&[], |rendition| rendition.init.bytes())
            }
            Media::Synthetic(_) => &[],
        }
    }

    /// The next group, of the rendition that is wanted if there is one.
    pub fn next(&mut self, wanted: usize, now: Instant, notices: &mut Notices) -> Next {
        let (renditions, next) = match &mut self.media {
            Media::Synthetic(synthetic) => {
                return synthetic.next(wanted).map_or(Next::End, |samples| {
                    Next::Group(Group { rendition: wanted, samples, follows: true })
                });
            }
            Media::Ladder { renditions, next } => (renditions, next),
        };
        let (mut begins_anew, mut follows) = (false, true);
        // Each turn takes a segment, or leaves one out: playlists are finite.
        loop {
            let first = first(renditions);
            if *next < first {
                // A live playlist has forgotten what was next.
                (*next, follows) = (first, false);
            }
            if !renditions.iter().any(|rendition| rendition.segment(*next).is_some()) {
                if !renditions.iter().any(Rendition::has_ended) {
                    let is_soon = self.looked_at.is_some_and(|at| now < at + LOOKS_EVERY);
                    if is_soon {
                        return Next::NotYet;
                    }
                    self.looked_at = Some(now);
                    reload(renditions);
                    continue;
                } else if self.repeats && *next > first && !begins_anew {
                    (*next, begins_anew, follows) = (first, true, false);
                } else {
                    return Next::End;
                }
            }
            let number = *next;
            *next += 1;
            if let Some((rendition, samples)) = read(renditions, wanted, number, notices) {
                return Next::Group(Group { rendition, samples, follows });
            }
            follows = false;
        }
    }
}

/// The number of the first segment that a playlist has.
fn first(renditions: &[Rendition]) -> usize {
    renditions.iter().map(Rendition::first).min().unwrap_or(0)
}

fn reload(renditions: &mut [Rendition]) {
    for rendition in renditions {
        // A packager may be writing it: the next look finds it whole. If not, the source stalls, which is told.
        if let Err(error) = rendition.reload() {
            log::debug!("reading a playlist again: {error:#}");
        }
    }
}

/// Reads a segment of the rendition that is wanted, or else of the next lower one that has it, or higher.
fn read(
    renditions: &[Rendition],
    wanted: usize,
    number: usize,
    notices: &mut Notices,
) -> Option<(usize, Vec<Sample>)> {
    let wanted = wanted.min(renditions.len().saturating_sub(1));
    let order = (0..=wanted).rev().chain(wanted + 1..renditions.len());
    let mut failed: Option<(String, String)> = None;
    for place in order {
        let rendition = renditions.get(place)?;
        let name = rates::name(rendition.bits_per_second);
        match rendition.read(number) {
            Ok(samples) => {
                if let Some((segment, why)) = failed {
                    let instead = Some(format!("that of {name}bit/s"));
                    notices.push(Notice::SegmentMissing { segment, why, instead });
                }
                return Some((place, samples));
            }
            Err(error) => {
                let segment = format!("{number} of {name}bit/s");
                failed.get_or_insert((segment, format!("{error:#}")));
            }
        }
    }
    let (segment, why) = failed?;
    notices.push(Notice::SegmentMissing { segment, why, instead: None });
    None
}
