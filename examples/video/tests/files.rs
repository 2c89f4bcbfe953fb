//! Media on disk, and initialisation segments of peers, that are damaged or were never media.

#![allow(clippy::unwrap_used, clippy::panic)] // a test that cannot be set up has failed

mod media;

use std::fs;
use std::path::Path;

use media::{FORMS, Ladder, init, pictures, segment};
use tack_example_video::init::Init;
use tack_example_video::sample::TrackKind;
use tack_example_video::source::Source;
use tack_example_video::{ladder, segment as segments};

fn error(directory: &Path) -> String {
    format!("{:#}", Source::open(directory, false).unwrap_err())
}

fn write(forms: &[media::Form], seconds: &[u64]) -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    Ladder { directory: directory.path(), forms }.write(seconds, true);
    directory
}

/// Numbers that are not the same at any two places.
fn noise(seed: u64) -> impl Iterator<Item = usize> {
    (0..).map(move |at: u64| {
        let mixed = (seed << 32 | at).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        usize::try_from((mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33)
            .unwrap()
    })
}

#[test]
fn what_was_written_is_read_again() {
    let (first, samples) = (init((640, 360)), pictures(7, 1_000_000));
    let bytes = segment(&first, &samples);
    let init = Init::parse(&first).unwrap();
    assert_eq!(init.resolution(), (640, 360));
    let read = segments::read(&init, &bytes).unwrap();
    assert_eq!(read.len(), samples.len());
    for (read, written) in read.iter().zip(&samples) {
        assert_eq!((read.decode_time, read.duration), (written.decode_time, written.duration));
        assert_eq!((read.is_sync, read.kind), (written.is_sync, TrackKind::Video));
        // The parameter sets are in front of a key frame.
        assert!(read.data.ends_with(&written.data));
        assert_eq!(read.data.len() - written.data.len(), if read.is_sync { 20 } else { 0 });
    }
}

#[test]
fn bytes_that_are_cut_off_or_changed_are_an_error_or_read_but_never_a_panic() {
    let first = init((640, 360));
    for end in 0..first.len() {
        assert!(Init::parse(&first[..end]).is_err(), "{end} bytes");
    }
    let good = Init::parse(&first).unwrap();
    let bytes = segment(&first, &pictures(0, 100_000));
    for end in 0..bytes.len() {
        if let Ok(samples) = segments::read(&good, &bytes[..end]) {
            assert!(samples.len() < 30, "{end} bytes");
        }
    }
    for seed in 0..20_000 {
        let (mut first, mut bytes) = (first.clone(), bytes.clone());
        let mut noise = noise(seed);
        for _ in 0..=seed % 4 {
            let (at, value) = (noise.next().unwrap(), noise.next().unwrap() as u8);
            let (in_first, in_bytes) = (at % first.len(), at % bytes.len());
            first[in_first] = value;
            bytes[in_bytes] = value;
        }
        // Either is fine: what counts is to come back.
        let _ = Init::parse(&first).map(|init| init.with_inline_parameter_sets());
        let _ = segments::read(&good, &bytes);
    }
}

#[test]
fn an_endless_number_of_samples_without_bytes_is_refused() {
    use mp4_atom::{Encode, Mfhd, Moof, Tfdt, Tfhd, Traf, Trun, TrunSamples};
    let traf = Traf {
        tfhd: Tfhd { track_id: 1, default_base_is_moof: true, ..Tfhd::default() },
        tfdt: Some(Tfdt { base_media_decode_time: 0 }),
        trun: vec![Trun {
            data_offset: Some(0),
            samples: TrunSamples::Inherited { count: u32::MAX, first_flags: None },
        }],
        ..Traf::default()
    };
    let mut bytes = Vec::new();
    Moof { mfhd: Mfhd::default(), traf: vec![traf] }.encode(&mut bytes).unwrap();
    let init = Init::parse(&init((640, 360))).unwrap();
    let error = segments::read(&init, &bytes).unwrap_err().to_string();
    assert!(error.contains("more than 100000 samples"), "{error}");
}

#[test]
fn renditions_come_in_the_order_of_their_bit_rates() {
    let mut forms = FORMS;
    forms.reverse();
    let directory = write(&forms, &[0, 1]);
    let renditions = ladder::open(directory.path()).unwrap();
    let rates: Vec<_> = renditions.iter().map(|one| one.bits_per_second).collect();
    assert_eq!(rates, [400_000, 1_000_000, 2_500_000]);
    assert_eq!(renditions[2].read(1).unwrap().len(), 30);
    assert!(renditions[2].read(2).is_err());
}

#[test]
fn a_playlist_leads_to_no_file_outside_of_its_directory() {
    for name in ["../../secret.m4s", "/etc/passwd", "https://example.org/1.m4s", "a/../../b"] {
        let directory = write(&FORMS, &[0]);
        let master = directory.path().join("master.m3u8");
        let text = fs::read_to_string(&master).unwrap();
        fs::write(&master, text.replace("400000/index.m3u8", name)).unwrap();
        let error = error(directory.path());
        assert!(error.contains(name) && error.contains("beside it or below"), "{error}");
    }
}

#[test]
fn media_that_are_missing_or_do_not_go_together_are_refused_with_a_reason() {
    let nothing = tempfile::tempdir().unwrap();
    assert!(error(nothing.path()).contains("master.m3u8"), "{}", error(nothing.path()));

    let directory = write(&FORMS, &[0]);
    let file = directory.path().join("400000/init.mp4");
    fs::write(&file, b"\0\0\0\x08free").unwrap();
    assert!(error(directory.path()).contains("no moov"), "{}", error(directory.path()));

    let directory = write(&FORMS, &[0]);
    let playlist = directory.path().join("400000/index.m3u8");
    let text = fs::read_to_string(&playlist).unwrap();
    fs::write(&playlist, text.replace("#EXT-X-MAP:URI=\"init.mp4\"\n", "")).unwrap();
    assert!(error(directory.path()).contains("EXT-X-MAP"), "{}", error(directory.path()));

    let directory = write(&FORMS, &[0]);
    fs::write(directory.path().join("master.m3u8"), "#EXTM3U\n").unwrap();
    assert!(
        error(directory.path()).contains("names no playlist"),
        "{}",
        error(directory.path())
    );

    let directory = write(&FORMS, &[0]);
    fs::write(directory.path().join("master.m3u8"), [0xff, 0xfe]).unwrap();
    assert!(error(directory.path()).contains("not a text"), "{}", error(directory.path()));
}
