//! Two commands, one at each end of a link.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sched::{CloneFlags, unshare};
use nix::sys::signal::{SigSet, SigmaskHow, Signal as Caught};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};
use serde::Serialize;
use tack_link::{Direction, Link, Losses};

use super::init::exit_code;
use super::{Emulator, End, Error, PunctualitySummary};

/// The environment variable with the IPv4 address of the end at which a command runs.
pub const LOCAL_VARIABLE: &str = "TACK_LAB_LOCAL";

/// The environment variable with the IPv4 address of the other end.
pub const PEER_VARIABLE: &str = "TACK_LAB_PEER";

/// How long a command may take to end when asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How often to see whether the link still works.
const TICK: Duration = Duration::from_millis(200);

/// What to run.
pub struct CommandOptions {
    /// The link between the commands.
    pub link: Box<dyn Link + Send>,
    /// For each end, a program and its arguments.
    pub commands: [Vec<OsString>; 2],
    /// A program, and arguments to put before the command, that calls [`init`](super::init).
    pub init: Vec<OsString>,
    /// When it is over.
    pub until: Until,
}

/// When a run of two commands is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// When one of them has ended; the other is ended then. For a client and a server.
    First,
    /// When both have ended.
    Both,
}

/// What became of two commands.
#[derive(Clone, Debug, Serialize)]
pub struct CommandsReport {
    /// The exit code of the run: with [`Until::First`] that of the command that ended first,
    /// with [`Until::Both`] the first that is not 0; 128 and the number of the signal if one
    /// ended the run.
    pub exit_code: u8,
    /// The exit codes of both, as a shell gives them.
    pub exit_codes: [u8; 2],
    /// Packets going forward that the link lost.
    pub losses_forward: Losses,
    /// Packets going in reverse that the link lost.
    pub losses_reverse: Losses,
    /// Whether the emulator kept up.
    #[serde(flatten)]
    pub punctuality: PunctualitySummary,
}

/// Runs two commands over a link until they have ended.
///
/// They find the addresses in their environment ([`LOCAL_VARIABLE`], [`PEER_VARIABLE`]), their
/// standard input is empty, and their output is this process's. SIGINT, SIGTERM and SIGHUP are
/// passed on to both; a command that has not ended two seconds later is killed. When they have
/// ended, so has everything that they started.
///
/// Call it before starting threads: they could take the signals.
pub fn run_commands(options: CommandOptions) -> Result<CommandsReport, Error> {
    let CommandOptions { link, commands, init, until } = options;
    let signals =
        Signals::catch().map_err(|errno| Error::setup("catch signals", errno.into()))?;
    let emulator = Emulator::start(link, ())?;
    let spawn = |end: End| {
        let before = signals.before;
        let command = &commands[end.index()];
        emulator.run_at(end, || Running::spawn(&init, command, end, before))
    };
    let mut supervisor = Supervisor {
        running: [spawn(End::A)?, spawn(End::B)?],
        until,
        first_code: None,
        signal: None,
        kill_at: None,
    };
    while supervisor.running.iter().any(|command| command.exit_code.is_none()) {
        supervisor
            .turn(&signals, emulator.is_running())
            .map_err(|error| Error::setup("wait for the commands", error))?;
    }
    let record = emulator.stop()?;
    let exit_codes =
        supervisor.running.each_ref().map(|command| command.exit_code.unwrap_or(0));
    Ok(CommandsReport {
        exit_code: supervisor.exit_code(),
        exit_codes,
        losses_forward: record.link.losses(Direction::Forward),
        losses_reverse: record.link.losses(Direction::Reverse),
        punctuality: record.punctuality.summary(),
    })
}

/// Sees that the commands end.
struct Supervisor {
    running: [Running; 2],
    until: Until,
    /// The exit code of the command that ended first.
    first_code: Option<u8>,
    /// The signal that ended the run.
    signal: Option<Signal>,
    /// When the commands have been asked to end: when to kill them.
    kill_at: Option<Instant>,
}

impl Supervisor {
    /// Waits until something happens, and does what follows from it.
    fn turn(&mut self, signals: &Signals, link_works: bool) -> io::Result<()> {
        self.sleep(signals)?;
        for command in &mut self.running {
            if command.has_just_ended()? {
                self.first_code = self.first_code.or(command.exit_code);
            }
        }
        match signals.next()? {
            // A second one means at once.
            Some(_) if self.signal.is_some() => self.kill_at = Some(Instant::now()),
            Some(signal) => {
                self.signal = Some(signal);
                self.ask_to_end(signal)?;
            }
            None if self.is_over() && self.kill_at.is_none() => {
                self.ask_to_end(Signal::TERM)?;
            }
            None => {}
        }
        let patience_is_over = self.kill_at.is_some_and(|at| at <= Instant::now());
        if patience_is_over || !link_works {
            self.running.iter_mut().try_for_each(Running::kill)?;
        }
        Ok(())
    }

    fn sleep(&self, signals: &Signals) -> io::Result<()> {
        let patience = self.kill_at.map(|at| at.saturating_duration_since(Instant::now()));
        let timeout = patience.map_or(TICK, |patience| patience.min(TICK));
        let timeout = Timespec::try_from(timeout).map_err(io::Error::other)?;
        let exits = self.running.iter().filter(|command| command.exit_code.is_none());
        let wake_ups = exits.map(|command| command.exit.as_fd()).chain([signals.as_fd()]);
        let mut wake_ups: Vec<_> =
            wake_ups.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        match poll(&mut wake_ups, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno.into()),
        }
    }

    fn is_over(&self) -> bool {
        self.until == Until::First && self.first_code.is_some()
    }

    fn ask_to_end(&mut self, signal: Signal) -> io::Result<()> {
        self.kill_at.get_or_insert_with(|| Instant::now() + GRACE);
        self.running.iter().try_for_each(|command| command.signal(signal))
    }

    fn exit_code(&self) -> u8 {
        let codes = self.running.iter().filter_map(|command| command.exit_code);
        match (self.signal, self.until) {
            (Some(signal), _) => u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX),
            (None, Until::First) => self.first_code.unwrap_or(0),
            (None, Until::Both) => codes.into_iter().find(|&code| code != 0).unwrap_or(0),
        }
    }
}

/// A command and the first process of its namespace, whose child it is.
struct Running {
    /// That first process. It ends with its standard input.
    init: Child,
    /// Becomes readable when it has ended.
    exit: OwnedFd,
    /// `None` while it runs.
    exit_code: Option<u8>,
}

impl Running {
    /// Called in the network namespace of the command's end, on a thread of its own.
    fn spawn(
        init: &[OsString],
        command: &[OsString],
        end: End,
        signal_mask: SigSet,
    ) -> Result<Self, Error> {
        // Of the processes that this thread starts, the first one is the init of the rest.
        unshare(CloneFlags::CLONE_NEWPID)
            .map_err(|errno| Error::setup("create a process namespace", errno.into()))?;
        // Processes inherit what the thread blocks.
        signal_mask
            .thread_set_mask()
            .map_err(|errno| Error::setup("restore the signal mask", errno.into()))?;
        let [program, arguments @ ..] = init else {
            let empty = io::Error::new(io::ErrorKind::InvalidInput, "no program named");
            return Err(Error::setup("start a command", empty));
        };
        let init = Command::new(program)
            .args(arguments)
            .args(command)
            .env(LOCAL_VARIABLE, end.address().to_string())
            .env(PEER_VARIABLE, end.peer().address().to_string())
            .stdin(Stdio::piped())
            // So that a signal reaches what the command started, too.
            .process_group(0)
            .spawn()
            .map_err(|error| Error::setup("start a command", error))?;
        let exit = pidfd_open(Pid::from_child(&init), PidfdFlags::empty())
            .map_err(|errno| Error::setup("watch a command", errno.into()))?;
        Ok(Self { init, exit, exit_code: None })
    }

    fn has_just_ended(&mut self) -> io::Result<bool> {
        if self.exit_code.is_some() {
            return Ok(false);
        }
        self.exit_code = self.init.try_wait()?.map(exit_code);
        Ok(self.exit_code.is_some())
    }

    /// Signals the command and its group. The first process of a process namespace ignores
    /// signals that it has no handler for.
    fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.exit_code.is_some() {
            return Ok(());
        }
        Ok(kill_process_group(Pid::from_child(&self.init), signal)?)
    }

    /// Ends all processes in the namespace.
    fn kill(&mut self) -> io::Result<()> {
        if self.exit_code.is_some() {
            return Ok(());
        }
        self.init.kill()
    }
}

impl Drop for Running {
    /// Leaves no zombie behind when starting the other command failed.
    fn drop(&mut self) {
        if self.exit_code.is_none() {
            // Fails only when it has ended.
            let _ = self.init.kill();
            let _ = self.init.wait();
        }
    }
}

/// The signals that end a run, kept from ending this process at once.
struct Signals {
    descriptor: SignalFd,
    /// The signals that the thread blocked before.
    before: SigSet,
}

impl Signals {
    fn catch() -> nix::Result<Self> {
        let caught = SigSet::from_iter([Caught::SIGINT, Caught::SIGTERM, Caught::SIGHUP]);
        let flags = SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC;
        let descriptor = SignalFd::with_flags(&caught, flags)?;
        let before = caught.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
        Ok(Self { descriptor, before })
    }

    /// The next signal that has come.
    fn next(&self) -> nix::Result<Option<Signal>> {
        let received = self.descriptor.read_signal()?;
        let number = received.and_then(|information| i32::try_from(information.ssi_signo).ok());
        Ok(number.and_then(Signal::from_named_raw))
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // Fails only for a set of signals that was not one.
        let _ = self.before.thread_set_mask();
    }
}
