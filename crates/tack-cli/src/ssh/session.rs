//! The client's end of ssh.

use std::ffi::OsString;
use std::io::{self, BufReader, Read, Write};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use super::COMMAND;
use super::configuration::Lookup;
use super::dial::Dial;
use data_encoding::BASE64_NOPAD;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tack_transfer::{ServerAddress, TlsSession, printable};

use super::place::Login;
use super::wire::{Answer, Ready, Request, VERSION, read_line};
use crate::error::Error;
use crate::exit::Exit;
use crate::waiting::{Patience, Unattended, aside, wait_for, wait_for_end};

/// How long ssh may take to connect where nobody is asked anything, in seconds.
const CONNECT_TIMEOUT: u32 = 10;
/// How long ssh may take to end after a signal.
const ENDS_WITHIN: Duration = Duration::from_secs(1);

// What a shell says of a program that it cannot run.
const NOT_EXECUTABLE: i32 = 126;
const NOT_FOUND: i32 = 127;
/// What ssh says if it is at fault itself.
const SSH_FAILED: i32 = 255;

/// How ssh is to be run.
#[derive(Clone, Debug)]
pub struct SshOptions {
    /// The program.
    pub program: OsString,
    /// Its options.
    pub arguments: Vec<OsString>,
    /// How to call tack at the other end.
    pub remote_tack: String,
}

/// The other end, served as long as this lives.
#[derive(Debug)]
pub struct Session {
    ssh: Child,
    /// The other end ends when this closes, and ssh with it, two round trips later: the command does not wait for
    /// that. Without a connection ssh ends once TCP gives up on what is left to send. It is not killed, because other
    /// sessions may share its connection.
    _lifeline: ChildStdin,
    login: Login,
    /// What ssh takes for the name of the host.
    host: String,
    ready: Ready,
    /// Set when the other end's output has ended, and so the other end.
    ended: Arc<AtomicBool>,
}

impl Session {
    /// Has ssh start the other end. It may ask the user for what it needs, and take its time, unless that is
    /// unattended.
    pub fn start(
        options: &SshOptions,
        login: &Login,
        request: &Request,
        patience: Patience<'_>,
    ) -> Result<Self, Error> {
        let mut lookup = Lookup::start(options, login, patience)?;
        let unattended = patience.unattended;
        let mut command = command(options, login, request, lookup.dial(), unattended);
        let mut ssh = spawn(&mut command, patience).map_err(|cause| {
            let program = options.program.to_string_lossy();
            failed(format!(
                "{program} cannot be run ({cause}); install OpenSSH's client, or name another \
                 program with --ssh"
            ))
        })?;
        let answer = exchange(&mut ssh, login, request, patience)
            .and_then(|answer| Ok((answer, lookup.hostname(login.host(), patience)?)));
        match answer {
            Ok((Exchanged { lifeline, ready, ended }, host)) => {
                let login = login.clone();
                Ok(Self { ssh, _lifeline: lifeline, login, host, ready, ended })
            }
            Err(error) => {
                end(&mut ssh, patience);
                Err(error)
            }
        }
    }

    /// What the other end has said.
    pub fn ready(&self) -> &Ready {
        &self.ready
    }

    /// Is set when the other end has ended.
    pub fn ended(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.ended)
    }

    /// Whether the other end may still be served: ssh does not know if its connection has died in silence.
    pub fn is_alive(&mut self) -> bool {
        !self.ended.load(Ordering::Relaxed) && matches!(self.ssh.try_wait(), Ok(None))
    }

    /// The TLS session that the other end has given, for the address that ssh has come to if that is one of
    /// [`Self::server`]'s.
    pub fn tls_session(&self, server: &ServerAddress) -> Option<TlsSession> {
        let bytes = BASE64_NOPAD.decode(self.ready.session.as_ref()?.as_bytes()).ok()?;
        let addresses = server.resolve().ok()?;
        let reached = self.ready.address.as_ref().and_then(|address| address.parse().ok());
        let address = match &addresses[..] {
            [only] => *only,
            several => *several.iter().find(|known| Some(known.ip()) == reached)?,
        };
        Some(TlsSession { address, bytes })
    }

    /// The server: at the address that ssh would look up, and at the one that it has come to. They differ
    /// behind address translators and jump hosts; the certificate tells the right one.
    pub fn server(&self, patience: Patience<'_>) -> Result<ServerAddress, Error> {
        let port = self.ready.port;
        let host = self.host.clone();
        let found = aside(move |told| {
            let addresses = (host.as_str(), port).to_socket_addrs();
            // Fails if the wait is over.
            let _ = told.send(addresses.map(Iterator::collect).unwrap_or_default());
        })?;
        let mut addresses: Vec<SocketAddr> = wait_for(&found, patience)?;
        if let Some(address) = &self.ready.address
            && let Ok(address) = address.parse::<IpAddr>()
            && !addresses.iter().any(|known| known.ip() == address)
        {
            addresses.push(SocketAddr::new(address, port));
        }
        Ok(ServerAddress::new(self.login.host(), port).at(addresses))
    }
}

/// How ssh starts the other end.
fn command(
    options: &SshOptions,
    login: &Login,
    request: &Request,
    dial: Option<&Dial>,
    unattended: Option<Unattended>,
) -> Command {
    let mut command = Command::new(&options.program);
    command.args(&options.arguments).args(["-T", "-x", "-o", "ClearAllForwardings=yes"]);
    if let Some(unattended) = unattended {
        command.args(["-o", "BatchMode=yes", "-o"]);
        command.arg(format!("ConnectTimeout={CONNECT_TIMEOUT}"));
        if !unattended.shares {
            command.args(["-S", "none"]);
        }
    }
    let timeout = unattended.map(|_| CONNECT_TIMEOUT);
    let tack = std::env::current_exe().ok();
    if let Some(dials) =
        dial.zip(tack).and_then(|(dial, tack)| dial.proxy_command(&tack, timeout))
    {
        command.arg("-o").arg(format!("ProxyCommand={dials}"));
        command.args(["-o", "ProxyUseFdpass=yes"]);
    }
    command.args(["--", login.as_str()]);
    let tack = &options.remote_tack;
    command.arg(match request.to_argument() {
        Some(request) => format!("{tack} {COMMAND} {request}"),
        None => format!("{tack} {COMMAND}"),
    });
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

/// Starts ssh. It gets signals of the terminal where it may ask the user something there: it sets the terminal right
/// when one ends it.
pub(super) fn spawn(command: &mut Command, patience: Patience<'_>) -> io::Result<Child> {
    match patience.unattended {
        Some(_) => command.spawn(),
        None => patience.stop.suspended(|| command.spawn()),
    }
}

/// Ends ssh, which may have ended by itself. It has a moment to set the terminal right that it may have asked the user
/// something on.
fn end(ssh: &mut Child, patience: Patience<'_>) {
    if patience.unattended.is_none()
        && let Ok(id) = i32::try_from(ssh.id())
        && matches!(ssh.try_wait(), Ok(None))
    {
        // Fails only if it has just ended.
        let _ = kill(Pid::from_raw(id), Signal::SIGTERM);
        let deadline = Instant::now() + ENDS_WITHIN;
        while matches!(ssh.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let _ = ssh.kill();
    let _ = ssh.wait();
}

/// What the other end's output has begun with, and what it is kept there by.
type Heard = (ChildStdin, io::Result<Option<String>>);

/// Says `line` and hears the answer; sets a flag when the other end's output ends behind that. A connection that has
/// died in silence brings none of it.
fn talk(
    mut input: ChildStdin,
    output: ChildStdout,
    line: String,
) -> Result<(Receiver<Heard>, Arc<AtomicBool>), Error> {
    let ended = Arc::new(AtomicBool::new(false));
    let tell = Arc::clone(&ended);
    let heard = aside(move |heard| {
        // The command line may not have been heard: a key may be allowed to run one command and no other.
        // Fails if ssh has ended, which is told below.
        let _ = writeln!(input, "{line}").and_then(|()| input.flush());
        let mut output = BufReader::new(output);
        let answer = read_line(&mut output);
        let is_answered = matches!(answer, Ok(Some(_)));
        // Without an answer, whatever runs there instead may wait for the end of the output; where the wait for one is
        // over, so is the session.
        if heard.send((input, answer)).is_err() || !is_answered {
            return;
        }
        let mut buffer = [0; 1024];
        while matches!(output.read(&mut buffer), Ok(1..)) {}
        tell.store(true, Ordering::Relaxed);
    })?;
    Ok((heard, ended))
}

/// What has come of an exchange.
struct Exchanged {
    lifeline: ChildStdin,
    ready: Ready,
    ended: Arc<AtomicBool>,
}

/// Says what is wanted, and waits for the answer.
fn exchange(
    ssh: &mut Child,
    login: &Login,
    request: &Request,
    patience: Patience<'_>,
) -> Result<Exchanged, Error> {
    let (Some(input), Some(output)) = (ssh.stdin.take(), ssh.stdout.take()) else {
        return Err(failed("ssh has no standard input or output".to_owned()));
    };
    let line = serde_json::to_string(request).map_err(|e| failed(e.to_string()))?;
    let (heard, ended) = talk(input, output, line)?;
    let (lifeline, answer) = wait_for(&heard, patience)?;
    let Ok(answer) = answer else {
        return Err(failed(format!(
            "{login} prints something else than what tack there says; nothing may be printed there by a login \
             without a terminal"
        )));
    };
    let Some(answer) = answer else {
        // Whatever runs there instead may wait for its end.
        drop(lifeline);
        return Err(match wait_for_end(ssh, patience) {
            Ok(status) => without_answer(status, login),
            Err(error) => error,
        });
    };
    let answer: Answer = serde_json::from_str(&answer).map_err(|_| too_different(login))?;
    if answer.tack_copy != VERSION {
        return Err(too_different(login));
    }
    match answer.result {
        Ok(ready) => Ok(Exchanged { lifeline, ready, ended }),
        Err(refusal) => Err(Error::OtherEnd {
            text: format!("{login}: {}", printable(&refusal.text)),
            exit: Exit::of_other_end(refusal.exit),
        }),
    }
}

/// Why there was no answer.
fn without_answer(status: Option<ExitStatus>, login: &Login) -> Error {
    failed(match status.and_then(|status| status.code()) {
        Some(SSH_FAILED) => format!("ssh could not log in to {login}; it says why above"),
        Some(NOT_FOUND | NOT_EXECUTABLE) => format!(
            "{login} has no tack that can be run; install it there, or say where it is with \
             --remote-tack PATH"
        ),
        Some(code) if code == Exit::Usage as i32 => return too_different(login),
        Some(code) => format!("tack at {login} ended without an answer (exit code {code})"),
        None => format!("ssh to {login} was ended by a signal"),
    })
}

fn too_different(login: &Login) -> Error {
    failed(format!(
        "tack at {login} is of a version that copies in another way; use the same version at both ends"
    ))
}

fn failed(text: String) -> Error {
    Error::Ssh(text)
}
