//! msquic as a peer of tack-interop: hq-interop in both roles. docs/interop.md has the contract.

mod client;
mod server;
mod stream;

use std::error::Error;
use std::ffi::c_void;
use std::path::{Path, PathBuf};
use std::process::{self, ExitCode};
use std::{env, io, ptr, thread};

use msquic::ffi::HQUIC;
use msquic::{Api, BufferRef, ServerResumptionLevel, Settings, Status};

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

const ALPN: &str = "hq-interop";
/// What the contract says to exit with where a test case is not known, after a line that says so.
const UNSUPPORTED: u8 = 127;
/// It sends ACK_FREQUENCY only where its own bursts fill a whole turn, which no slow link lets it do.
const TEST_CASES: [&str; 26] = [
    "handshake",
    "transfer",
    "chacha20",
    "multiplexing",
    "retry",
    "retry-resumption",
    "resumption",
    "zerortt",
    "keyupdate",
    "transferloss",
    "transfercorruption",
    "handshakeloss",
    "handshakecorruption",
    "longrtt",
    "blackhole",
    "amplificationlimit",
    "ipv6",
    "rebind-port",
    "rebind-addr",
    "goodput",
    "crosstraffic",
    "ackfrequency",
    "immediateack",
    "tack",
    "greased",
    "noannounce",
];
/// Above the window of a fast link, so that flow control is not what is measured; a power of two.
const WINDOW: u32 = 8 << 20;
const PATIENCE_MS: u64 = 20_000;

fn main() -> ExitCode {
    end_with_the_runner();
    if !TEST_CASES.contains(&variable("TESTCASE").unwrap_or_default().as_str()) {
        println!("unsupported");
        return UNSUPPORTED.into();
    }
    let done = match variable("ROLE").as_deref() {
        Ok("server") => server::run(),
        Ok("client") => client::run(),
        _ => Err("TACK_INTEROP_ROLE is neither client nor server".into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("msquic-peer: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Ends this program once the runner, which holds the other end of its standard input, is gone.
fn end_with_the_runner() {
    thread::spawn(|| {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        process::exit(1);
    });
}

fn settings() -> Settings {
    Settings::new()
        .set_ServerResumptionLevel(ServerResumptionLevel::ResumeAndZerortt)
        .set_HandshakeIdleTimeoutMs(PATIENCE_MS)
        .set_IdleTimeoutMs(PATIENCE_MS)
        .set_PeerBidiStreamCount(100)
        .set_StreamRecvWindowDefault(WINDOW)
        .set_ConnFlowControlWindow(WINDOW)
}

fn alpn() -> [BufferRef; 1] {
    [BufferRef::from(ALPN)]
}

/// Sets a parameter that the wrapper has no function for; of the library itself without a handle.
fn set_parameter<T: ?Sized>(handle: Option<HQUIC>, parameter: u32, value: &T) -> Result<()> {
    let length = u32::try_from(size_of_val(value))?;
    let handle = handle.unwrap_or(ptr::null_mut());
    // SAFETY: msquic copies that many bytes of the value before it returns.
    let set: std::result::Result<(), Status> = unsafe {
        Api::set_param(handle, parameter, length, ptr::from_ref(value).cast::<c_void>())
    };
    Ok(set?)
}

fn variable(name: &str) -> Result<String> {
    let name = format!("TACK_INTEROP_{name}");
    env::var(&name).map_err(|_| format!("{name} is not set").into())
}

/// A file of that name in the directory that a variable names.
fn inside(directory: &str, name: &str) -> Result<PathBuf> {
    if name.contains('/') || name.starts_with('.') {
        return Err(format!("not a file name: {name:?}").into());
    }
    Ok(Path::new(&variable(directory)?).join(name))
}
