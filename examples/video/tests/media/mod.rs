//! Media on disk without an encoder: files of the right form, with bytes that mean nothing.

#![allow(dead_code)] // each test file uses its part

use std::fmt::Write;
use std::fs;
use std::path::Path;

use mp4_atom::{
    Audio, Avc1, Avcc, Codec, Dinf, Dref, Encode, Esds, Ftyp, Hdlr, Mdhd, Mdia, Minf, Moov,
    Mp4a, Mvex, Mvhd, Stbl, Stco, Stsc, Stsd, Stsz, Stts, Tkhd, Trak, Trex, Visual, Vmhd,
};
use tack_example_video::init::Init;
use tack_example_video::recording::Recording;
use tack_example_video::sample::{Sample, TrackKind};

pub const TIMESCALE: u32 = 15_360;
pub const FPS: u32 = 30;

/// A rendition: its bit rate and the size of its pictures.
pub type Form = (u64, (u16, u16));

pub const FORMS: [Form; 3] =
    [(400_000, (426, 240)), (1_000_000, (640, 360)), (2_500_000, (854, 480))];

/// The beginning of a file with one track of H.264.
pub fn init(size: (u16, u16)) -> Vec<u8> {
    init_of(vec![pictures_of(size)])
}

/// The same with a track of sound.
pub fn init_with_sound(size: (u16, u16)) -> Vec<u8> {
    let audio = Audio {
        data_reference_index: 1,
        channel_count: 2,
        sample_size: 16,
        sample_rate: 48_000.into(),
    };
    let sound = Mp4a { audio, esds: Esds::default(), btrt: None, taic: None };
    init_of(vec![pictures_of(size), Codec::Mp4a(sound)])
}

fn pictures_of((width, height): (u16, u16)) -> Codec {
    let sets = |kind: u8| vec![vec![kind, 100, 0, 31, width as u8, height as u8]];
    let avcc = Avcc {
        configuration_version: 1,
        avc_profile_indication: 100,
        avc_level_indication: 31,
        length_size: 4,
        sequence_parameter_sets: sets(0x67),
        picture_parameter_sets: sets(0x68),
        ext: Some(mp4_atom::AvccExt::default()),
        ..Avcc::default()
    };
    let visual = Visual { width, height, ..Visual::default() };
    Codec::Avc1(Avc1 { visual, avcc, ..Avc1::default() })
}

/// A track of each codec.
fn init_of(codecs: Vec<Codec>) -> Vec<u8> {
    let tracks = codecs.len() as u32;
    let stbl = |codec| Stbl {
        stsd: Stsd { codecs: vec![codec] },
        stts: Stts::default(),
        stsc: Stsc::default(),
        stsz: Stsz::default(),
        stco: Some(Stco::default()),
        ..Stbl::default()
    };
    let moov = Moov {
        mvhd: Mvhd { timescale: 1000, next_track_id: 2, ..Mvhd::default() },
        mvex: Some(Mvex {
            mehd: None,
            trex: (1..=tracks)
                .map(|track_id| Trex {
                    track_id,
                    default_sample_description_index: 1,
                    ..Trex::default()
                })
                .collect(),
        }),
        trak: (1..)
            .zip(codecs)
            .map(|(track_id, codec)| Trak {
                tkhd: Tkhd { track_id, enabled: true, ..Tkhd::default() },
                mdia: Mdia {
                    mdhd: Mdhd { timescale: TIMESCALE, ..Mdhd::default() },
                    hdlr: Hdlr { handler: b"vide".into(), name: String::new() },
                    minf: Minf {
                        vmhd: Some(Vmhd::default()),
                        dinf: Dinf { dref: Dref::default() },
                        stbl: stbl(codec),
                        ..Minf::default()
                    },
                },
                ..Trak::default()
            })
            .collect(),
        ..Moov::default()
    };
    let ftyp =
        Ftyp { major_brand: b"iso6".into(), minor_version: 0, compatible_brands: Vec::new() };
    let mut out = Vec::new();
    ftyp.encode(&mut out).unwrap();
    moov.encode(&mut out).unwrap();
    out
}

/// The pictures of a second, of that rate; `decode_second` is when they are decoded.
pub fn pictures(decode_second: u64, bits_per_second: u64) -> Vec<Sample> {
    let bytes = (bits_per_second / 8 / u64::from(FPS)) as usize;
    (0..FPS)
        .map(|picture| Sample {
            track: 1,
            kind: TrackKind::Video,
            timescale: TIMESCALE,
            decode_time: decode_second * u64::from(TIMESCALE)
                + u64::from(picture * TIMESCALE / FPS),
            duration: TIMESCALE / FPS,
            composition_offset: 0,
            is_sync: picture == 0,
            is_reference: true,
            data: vec![picture as u8; bytes],
        })
        .collect()
}

/// The segment of a second.
pub fn segment(init: &[u8], samples: &[Sample]) -> Vec<u8> {
    let mut file = Recording::new(Vec::new(), Init::parse(init).unwrap()).unwrap();
    file.out().clear();
    for sample in samples {
        file.write(sample).unwrap();
    }
    std::mem::take(file.out())
}

/// Media on disk; segments are decoded in these seconds.
pub struct Ladder<'a> {
    pub directory: &'a Path,
    pub forms: &'a [Form],
}

impl Ladder<'_> {
    /// Writes all of it.
    pub fn write(&self, seconds: &[u64], has_ended: bool) {
        let mut master = "#EXTM3U\n#EXT-X-VERSION:7\n".to_owned();
        for (rate, size) in self.forms {
            let directory = self.directory.join(rate.to_string());
            fs::create_dir_all(&directory).unwrap();
            let init = init(*size);
            fs::write(directory.join("init.mp4"), &init).unwrap();
            for (number, second) in seconds.iter().enumerate() {
                let bytes = segment(&init, &pictures(*second, *rate));
                fs::write(directory.join(format!("{number}.m4s")), bytes).unwrap();
            }
            let _ = writeln!(
                master,
                "#EXT-X-STREAM-INF:BANDWIDTH={rate},RESOLUTION={}x{},CODECS=\"avc1.64001f\"\n{rate}/index.m3u8",
                size.0, size.1
            );
        }
        self.list(seconds.len(), has_ended);
        fs::write(self.directory.join("master.m3u8"), master).unwrap();
    }

    /// Writes the playlists: with so many segments.
    pub fn list(&self, segments: usize, has_ended: bool) {
        self.list_from(0, segments, has_ended);
    }

    /// The same without the first ones.
    pub fn list_from(&self, first: usize, segments: usize, has_ended: bool) {
        for (rate, _) in self.forms {
            let mut playlist = format!(
                "#EXTM3U\n#EXT-X-VERSION:7\n#EXT-X-TARGETDURATION:1\n\
                 #EXT-X-MEDIA-SEQUENCE:{first}\n#EXT-X-MAP:URI=\"init.mp4\"\n"
            );
            for number in first..segments {
                let _ = write!(playlist, "#EXTINF:1.000000,\n{number}.m4s\n");
            }
            if has_ended {
                playlist.push_str("#EXT-X-ENDLIST\n");
            }
            let path = self.directory.join(rate.to_string()).join("index.m3u8");
            fs::write(path, playlist).unwrap();
        }
    }

    /// The file of a segment.
    pub fn segment(&self, rate: u64, number: usize) -> std::path::PathBuf {
        self.directory.join(rate.to_string()).join(format!("{number}.m4s"))
    }
}
