//! The command line.

mod commands;

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::rates;

const EXAMPLES: &str = "\
Examples:
  video demo --trace city --seconds 20       sender, link and player here, with TACK and without
  video make media --seconds 60              media at four bit rates, by ffmpeg
  video send media                           send them to each player that connects
  video play 127.0.0.1:4433 --out - | ffplay -   play them
  video serve-http3 media                    serve them as HLS over HTTP/3, with a page that plays them
  video trace train --seconds 120 >train.trace   the rate of a link in time, in mahimahi's form
";

/// Live video over QUIC with TACK: a sender that adapts, and a player.
#[derive(Debug, Parser)]
#[command(name = "video", version, after_help = EXAMPLES, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes media at several bit rates with ffmpeg
    Make(MakeArgs),
    /// Sends media to each player that connects
    Send(SendArgs),
    /// Plays what a sender has
    Play(PlayArgs),
    /// Runs sender, link and player in this process, with TACK and without
    Demo(DemoArgs),
    /// Serves media as HLS over HTTP/3, for a page in a browser and for players that others wrote
    ServeHttp3(HttpArgs),
    /// Sends live media to a page in a browser, over WebTransport
    ServeWeb(WebArgs),
    /// Prints the rate of a link in time
    Trace(TraceArgs),
}

#[derive(Debug, Args)]
struct MakeArgs {
    /// The directory that is written
    directory: PathBuf,
    /// The length, seconds
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Bit rates of the pictures
    #[arg(long, value_name = "LIST", default_value_t = default_rates())]
    rates: String,
    /// A video to make them of, instead of a test picture and a tone
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
    /// Take as long as the media last: a sender can follow meanwhile
    #[arg(long)]
    realtime: bool,
}

/// Which media, and how frames are sent.
#[derive(Debug, Args)]
struct MediaArgs {
    /// A directory of `video make`, or a master playlist of HLS with fragmented MP4. Without it, media are
    /// made by ffmpeg
    media: Option<PathBuf>,
    /// Frames of the sizes that an encoder makes, without an encoder
    #[arg(long, conflicts_with = "media")]
    synthetic: bool,
    /// Bit rates of media that are made now
    #[arg(long, value_name = "LIST", default_value_t = default_rates(), conflicts_with = "media")]
    rates: String,
    /// Frames in DATAGRAMs, none of which is sent twice, instead of streams
    #[arg(long)]
    datagrams: bool,
    /// Deliver every frame, however late. A player needs it, too
    #[arg(long, conflicts_with = "datagrams")]
    reliable: bool,
    /// From capture to the deadline of a frame, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 500, conflicts_with = "reliable")]
    lifetime: u64,
}

/// Who the server is.
#[derive(Debug, Args)]
struct IdentityArgs {
    /// The certificate chain, PEM; without it one for localhost is made
    #[arg(long, value_name = "FILE", requires = "key")]
    certificate: Option<PathBuf>,
    /// Its key, PEM
    #[arg(long, value_name = "FILE", requires = "certificate")]
    key: Option<PathBuf>,
}

/// How a player plays.
#[derive(Debug, Args)]
struct DelayArgs {
    /// How long frames are held at least before they are shown, milliseconds; longer where the path needs it
    #[arg(long, value_name = "MS", default_value_t = 150)]
    delay: u64,
}

#[derive(Debug, Args)]
struct SendArgs {
    #[command(flatten)]
    media: MediaArgs,
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4433")]
    listen: SocketAddr,
    /// Send so many seconds to each player at most; the length of media that are made now (default: 60)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Begin anew at the end
    #[arg(long = "loop")]
    repeats: bool,
    /// End when the first player is gone
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    identity: IdentityArgs,
    /// What acknowledges the frames
    #[arg(long, value_enum, default_value_t = Profile::Video)]
    profile: Profile,
    /// Print what was counted of each player as JSON, at the end
    #[arg(long, requires = "once")]
    json: bool,
}

#[derive(Debug, Args)]
struct PlayArgs {
    /// The sender
    server: SocketAddr,
    /// Write what is played as a fragmented MP4; - is standard output
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    #[command(flatten)]
    delay: DelayArgs,
    /// Stand still for frames that are missing: for senders with --reliable
    #[arg(long)]
    reliable: bool,
    /// End after so many seconds
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// The authority that the sender's certificate has to be from, PEM; without it any is taken
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// The name that the certificate has to be for
    #[arg(long, default_value = "localhost")]
    name: String,
    /// How frames are acknowledged
    #[arg(long, value_enum, default_value_t = Profile::Video)]
    profile: Profile,
    /// Print what was counted as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct DemoArgs {
    #[command(flatten)]
    media: MediaArgs,
    /// The rate of the link: city, train, home, or a file of mahimahi's form
    #[arg(long, value_name = "NAME|FILE", default_value = "city")]
    trace: String,
    /// How long
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Round-trip propagation delay of the link, milliseconds
    #[arg(long, value_name = "MS", default_value_t = 40)]
    rtt: u64,
    #[command(flatten)]
    delay: DelayArgs,
    /// Seed of the trace and of synthetic media
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write what is played into this directory
    #[arg(long, value_name = "DIRECTORY")]
    out: Option<PathBuf>,
    /// Print what was counted as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct HttpArgs {
    /// A directory of `video make`, or a master playlist of HLS with fragmented MP4
    media: PathBuf,
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4443")]
    listen: SocketAddr,
    #[command(flatten)]
    identity: IdentityArgs,
    /// What acknowledges the media
    #[arg(long, value_enum, default_value_t = Profile::Default)]
    profile: Profile,
    /// End when the first page has played all, or is gone
    #[arg(long)]
    once: bool,
    /// Print what pages counted as JSON, at the end
    #[arg(long, requires = "once")]
    json: bool,
}

#[derive(Debug, Args)]
struct WebArgs {
    #[command(flatten)]
    media: MediaArgs,
    /// The page that is written, to be opened in the browser; it belongs to this run
    #[arg(long, value_name = "FILE", default_value = "live.html")]
    page: PathBuf,
    /// The address to listen at
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:4434")]
    listen: SocketAddr,
    /// Send so many seconds to each page at most; the length of media that are made now (default: 60)
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: Option<u64>,
    /// Begin anew at the end
    #[arg(long = "loop")]
    repeats: bool,
    #[command(flatten)]
    delay: DelayArgs,
    /// End when the first page is gone
    #[arg(long)]
    once: bool,
    /// Print what pages counted as JSON, at the end
    #[arg(long, requires = "once")]
    json: bool,
}

#[derive(Debug, Args)]
struct TraceArgs {
    /// city, train, home, or a file of mahimahi's form
    trace: String,
    /// The length of a projected one
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The seed of a projected one
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print it as a link for `tack-lab relay --link FILE`
    #[arg(long)]
    link: bool,
}

/// Profiles of tacklib.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// TACK for live video
    Video,
    /// TACK
    Default,
    /// Plain QUIC
    Off,
}

impl From<Profile> for tacklib::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Video => Self::Video,
            Profile::Default => Self::Default,
            Profile::Off => Self::Off,
        }
    }
}

fn default_rates() -> String {
    rates::DEFAULT.map(rates::name).join(",")
}
