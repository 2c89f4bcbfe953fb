//! Media made on the spot, by ffmpeg where it is installed.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::ladder::MASTER;

/// What to do where ffmpeg is missing.
pub const MISSING: &str = "ffmpeg is not installed: install it (Debian: apt-get install ffmpeg), name a directory \
                           that `video make` wrote elsewhere, or take --synthetic";

/// Pictures in a second, and in a group: one segment is one group, of a second.
const FPS: u32 = 30;
const AUDIO_RATE: &str = "64k";
/// The longest media that are made.
const MOST_SECONDS: u64 = 3600;

/// What is made.
#[derive(Clone, Debug)]
pub struct MakeOptions {
    /// The length.
    pub seconds: u64,
    /// Bits per second of the pictures in each rendition.
    pub rates: Vec<u64>,
    /// A file to make it of, instead of a test picture and a tone.
    pub input: Option<PathBuf>,
    /// Whether it is made as slowly as it is played, so that it can be sent live meanwhile.
    pub realtime: bool,
}

/// Whether ffmpeg can be run.
pub fn is_installed() -> bool {
    let run = Command::new("ffmpeg")
        .arg("-version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    run.is_ok_and(|status| status.success())
}

/// Makes media in a directory: H.264 and AAC in fragmented MP4, a playlist for each bit rate and a master playlist.
pub fn make(directory: &Path, options: &MakeOptions) -> Result<()> {
    ensure!(
        (1..=MOST_SECONDS).contains(&options.seconds),
        "{} s of media; 1 to {MOST_SECONDS}",
        options.seconds
    );
    ensure!(is_installed(), MISSING);
    let naming = || directory.display().to_string();
    fs::create_dir_all(directory).with_context(naming)?;
    let master = directory.join(MASTER);
    ensure!(
        !master.exists(),
        "{}: there are media already; remove them first",
        master.display()
    );
    // Names in playlists are relative, and ffmpeg takes a % in a path for a pattern.
    let input = match &options.input {
        Some(input) => {
            Some(fs::canonicalize(input).with_context(|| format!("{}", input.display()))?)
        }
        None => None,
    };
    let has_sound = input.as_deref().is_none_or(has_sound);
    let output = Command::new("ffmpeg")
        .current_dir(directory)
        .args(arguments(options, input.as_deref(), has_sound))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("running ffmpeg")?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = said.lines().rev().take(5).collect();
        let last: Vec<_> = last.into_iter().rev().collect();
        bail!("ffmpeg failed ({}): {}", output.status, last.join("; "));
    }
    ensure!(master.exists(), "ffmpeg has written no {}", master.display());
    Ok(())
}

fn has_sound(input: &Path) -> bool {
    let probe = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", "a", "-show_entries", "stream=index"])
        .args(["-of", "csv=p=0"])
        .arg(input)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .output();
    probe.is_ok_and(|output| !output.stdout.is_empty())
}

fn arguments(options: &MakeOptions, input: Option<&Path>, has_sound: bool) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    let mut add = |arguments: &[&str]| out.extend(arguments.iter().map(|a| (*a).to_owned()));
    let gop = FPS.to_string();
    add(&["-hide_banner", "-nostdin", "-loglevel", "error", "-y"]);
    if options.realtime {
        add(&["-re"]);
    }
    let (sound, prepare) = if let Some(input) = input {
        add(&["-i", &input.to_string_lossy()]);
        ("0:a:0", "")
    } else {
        let picture = format!("testsrc2=size=1280x720:rate={FPS}");
        add(&["-f", "lavfi", "-i", &picture]);
        if options.realtime {
            add(&["-re"]);
        }
        add(&["-f", "lavfi", "-i", "sine=frequency=440:sample_rate=48000"]);
        // Without noise a test picture needs a fraction of the higher bit rates.
        ("1:a:0", "noise=alls=12:allf=t,")
    };
    let count = options.rates.len();
    let mut graph = format!("[0:v:0]fps={FPS},{prepare}split={count}");
    for at in 0..count {
        // Writing into a string cannot fail.
        let _ = write!(graph, "[s{at}]");
    }
    for (at, rate) in options.rates.iter().enumerate() {
        let _ = write!(graph, ";[s{at}]scale=-2:{}[v{at}]", height(*rate));
    }
    add(&["-t", &options.seconds.to_string(), "-filter_complex", &graph]);
    let mut streams = Vec::new();
    for (at, rate) in options.rates.iter().enumerate() {
        let rate = rate.to_string();
        add(&["-map", &format!("[v{at}]")]);
        for option in ["b", "maxrate", "bufsize"] {
            add(&[&format!("-{option}:v:{at}"), &rate]);
        }
        if has_sound {
            add(&["-map", sound]);
            streams.push(format!("v:{at},a:{at},name:{at}"));
        } else {
            streams.push(format!("v:{at},name:{at}"));
        }
    }
    // Without B-frames each picture depends on the one before, and all renditions are cut at the same times.
    add(&["-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-bf", "0"]);
    add(&["-g", &gop, "-keyint_min", &gop, "-sc_threshold", "0", "-pix_fmt", "yuv420p"]);
    if has_sound {
        add(&["-c:a", "aac", "-b:a", AUDIO_RATE, "-ar", "48000"]);
    }
    add(&["-f", "hls", "-hls_segment_type", "fmp4", "-hls_time", "1", "-hls_list_size", "0"]);
    add(&["-hls_flags", "independent_segments", "-hls_fmp4_init_filename", "init.mp4"]);
    add(&["-hls_segment_filename", "%v/%05d.m4s", "-master_pl_name", MASTER]);
    add(&["-var_stream_map", &streams.join(" "), "%v/index.m3u8"]);
    out
}

/// The height of the picture that a bit rate is enough for.
fn height(bits_per_second: u64) -> u32 {
    match bits_per_second {
        0..600_000 => 240,
        600_000..1_500_000 => 360,
        1_500_000..3_500_000 => 480,
        3_500_000..15_000_000 => 720,
        _ => 1080,
    }
}
