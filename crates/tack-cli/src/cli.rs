//! The command line.

use std::ffi::OsString;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::demo::DemoArgs;
use crate::destination::protected;
use crate::error::Error;
use crate::exit;
use crate::lb_config::Octets;
use crate::ssh::{Ports, SshOptions};
use crate::target::{Address, Target};
use crate::token;
use crate::units::{parse_rate, parse_workers};
use tack_transfer::{
    Filter, Fingerprint, NameError, Policy, Suffix, TransferOptions, Trust, printable,
};

/// The text behind the help of the program.
pub const EXAMPLES: &str = "\
Examples:
  tack serve ~/outbox                      share a directory; prints what to type elsewhere
  tack serve --write ~/inbox               let others send files into a directory
  tack get host:4433/video.mkv .           fetch a file; run again to resume
  tack get -r host:4433/photos album       fetch a directory's content into the directory album
  tack copy -r photos user@host:           send a directory to a machine that ssh gets to
  tack share video.mkv                     print a ticket for somebody who runs tack receive
  tack ls host:4433/photos                 show what a directory holds
  tack send photos notes.txt host:4433/    send a directory and a file
  tack demo                                see what TACK does on an emulated link

The token that tack serve prints is read from the variable TACK_TOKEN, or given with --token-file
or --token. --fingerprint says which certificate the server must have.
Options can be set in ~/.config/tack/config.toml: a section for each command, [hosts.NAME] for servers.
--no-NAME takes the option NAME back that is set there.
";

/// Moves files over QUIC with TACK: fewer acknowledgements, made for Wi-Fi, satellite and long
/// paths. Every file is verified end to end and interrupted transfers resume.
#[derive(Debug, Parser)]
#[command(name = "tack", version, after_help = format!("{EXAMPLES}\n{}", exit::TABLE))]
#[command(arg_required_else_help = true)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Shares a directory
    ///
    /// Symbolic links inside DIR are not followed, and clients can only fetch unless --write is
    /// given. Prints the certificate's fingerprint and an access token that clients need.
    Serve(ServeArgs),
    /// Fetches a file or a directory
    Get(GetArgs),
    /// Sends files and directories
    Send(SendArgs),
    /// Copies files from or to a machine that ssh can log in to
    Copy(CopyArgs),
    /// Shares files with whoever gets a ticket, until they have been received
    Share(ShareArgs),
    /// Receives what somebody shares, by its ticket
    Receive(ReceiveArgs),
    /// Lists what a server has
    Ls(LsArgs),
    /// Shows plain QUIC and TACK side by side over an emulated link
    Demo(DemoArgs),
    /// Prints what completes commands and options in a shell
    ///
    /// For bash: tack completions bash > ~/.local/share/bash-completion/completions/tack
    #[command(hide = true)]
    Completions(CompletionsArgs),
    /// Writes manual pages, one for each command
    #[command(hide = true)]
    Man(ManArgs),
    /// Serves one transfer of tack copy, which runs this
    #[command(hide = true)]
    ServeOnce(ServeOnceArgs),
    /// Connects for the ssh of tack copy, which has ssh run this
    #[command(hide = true)]
    DialOnce(DialOnceArgs),
}

/// What acknowledges the data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Profile {
    /// TACK
    #[default]
    Default,
    /// Plain QUIC, for comparison
    Off,
}

impl Profile {
    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Off => "off",
        }
    }
}

impl From<Profile> for tacklib::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Default => Self::Default,
            Profile::Off => Self::Off,
        }
    }
}

/// Arguments of `tack serve`.
#[derive(Debug, Args)]
pub struct ServeArgs {
    /// Directory to share
    pub dir: PathBuf,
    /// Address and UDP port to listen on; the default takes IPv4 as well, port 0 lets the system choose
    #[arg(long, value_name = "ADDR:PORT", default_value = "[::]:4433")]
    pub listen: SocketAddr,
    /// Lets clients send as well; otherwise they can only fetch
    #[arg(long)]
    pub write: bool,
    /// Refuses symbolic links that clients send with --preserve, and shows them none; links are
    /// followed in no case
    #[arg(long)]
    pub no_links: bool,
    /// Keeps what clients send this user's own, even if they send it with --owner
    #[arg(long)]
    pub no_owners: bool,
    /// Keeps the access token in FILE; created if it does not exist
    #[arg(long, value_name = "FILE", conflicts_with = "no_token")]
    pub token_file: Option<PathBuf>,
    /// Lets in everybody who can reach the port
    #[arg(long)]
    pub no_token: bool,
    /// Certificate chain to use instead of the self-signed one
    #[arg(long, value_name = "PEM", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of that certificate
    #[arg(long, value_name = "PEM", requires = "cert")]
    pub key: Option<PathBuf>,
    /// Where the self-signed certificate is kept [default: tack in the user's data directory]
    #[arg(long, value_name = "DIR", conflicts_with = "cert")]
    pub identity: Option<PathBuf>,
    /// Writes received files no faster than this, each: bytes per second, such as 10M
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub write_limit: Option<u64>,
    /// Moves no more than this in each direction of a connection: bytes per second, such as 10M
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub bwlimit: Option<u64>,
    /// Serves on N threads, each of which has its share of the connections; 0 and auto stand for one for each
    /// processor
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_workers)]
    pub workers: usize,
    /// Makes connection ids that a load balancer routes by (QUIC-LB), with the settings in FILE
    #[arg(long, value_name = "FILE")]
    pub lb_config: Option<PathBuf>,
    /// What the load balancer knows this server by, in the place of server-id in that file
    #[arg(long, value_name = "HEX", requires = "lb_config")]
    pub server_id: Option<Octets>,
    /// Forgets what connections observe of their paths, and starts each anew (RFC 9959)
    #[arg(long)]
    pub no_careful_resume: bool,
    /// Answers requests after the handshake only: without this option, requests that only read may come with the first
    /// packet (0-RTT), and an attacker who has recorded one can have it answered again
    #[arg(long)]
    pub no_early_data: bool,
    /// What acknowledges the data
    #[arg(long, value_enum, default_value_t)]
    pub profile: Profile,
    /// Writes what each connection does to a qlog file in DIR
    #[arg(long, value_name = "DIR")]
    pub qlog: Option<PathBuf>,
    /// Prints events as JSON, one a line
    #[arg(long)]
    pub json: bool,
    /// Prints errors and warnings only, after what clients need to connect; never the token, so
    /// that it takes --token-file or --no-token
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `tack get`.
#[derive(Debug, Args)]
#[command(after_help = "\
DEST is the file to write, or a directory to write it into. For a directory on the server (-r), \
DEST is the directory that its content goes into. By default the name on the server is used, in \
the current directory. An existing file is replaced only once the new one is verified; it keeps its \
owner, and without --preserve its permissions are not widened. \"-\" is standard output; pipes and character devices \
are written through to.")]
pub struct GetArgs {
    /// What to fetch
    #[arg(value_name = "HOST[:PORT][/PATH]")]
    pub source: Target,
    /// Where to put it
    pub dest: Option<PathBuf>,
    /// Fetches a directory with everything in it; without this option the server can answer with
    /// one file only
    #[arg(long, short)]
    pub recursive: bool,
    /// Writes each file no faster than this: bytes per second, such as 10M
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub write_limit: Option<u64>,
    /// How to connect.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// What to transfer and what to show.
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// Arguments of `tack send`.
#[derive(Debug, Args)]
#[command(override_usage = "tack send [OPTIONS] <FILE|DIR>... <HOST[:PORT][/PATH]>")]
#[command(after_help = "\
PATH is the directory on the server that everything goes into, under its own name. For a single \
file without a slash at the end of PATH it is the file's new name, unless the server has a \
directory of that name. Symbolic links inside directories are left out without --preserve, special \
files always. --delete looks below the directories that are sent, and nowhere else.")]
pub struct SendArgs {
    /// Files and directories to send, and last where to; - is standard input, which needs a name at the server
    // One argument, because options may stand between the places.
    #[arg(required = true, value_name = "FILE|DIR|HOST[:PORT][/PATH]")]
    sources_and_dest: Vec<OsString>,
    /// How to connect.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// What to transfer and what to show.
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// Arguments of `tack share`.
#[derive(Debug, Args)]
#[command(after_help = "\
Prints a line with a ticket to send to somebody by other means, who receives with it. The variable TACK_TICKET keeps \
the ticket from other users of that machine, and so does tack receive - with the ticket on standard input. It has the \
addresses of this machine, the fingerprint of a certificate and a token that are made for this one time: \
whoever has it can receive. This machine has to be reachable over UDP; behind an address translator, let a \
port through to it and name the address outside (--udp-port 60000 --address 203.0.113.9).")]
pub struct ShareArgs {
    /// Files and directories to share
    #[arg(required = true, value_name = "FILE|DIR")]
    pub paths: Vec<PathBuf>,
    /// Goes on after somebody has received everything, until it is interrupted
    #[arg(long)]
    pub keep: bool,
    /// UDP port to listen on, or a range of which one is taken
    #[arg(long, value_name = "PORTS")]
    pub udp_port: Option<Ports>,
    /// Address that this machine is reached at, in the place of its own ones. Can be repeated
    #[arg(long, value_name = "ADDR")]
    pub address: Vec<IpAddr>,
    /// What acknowledges the data
    #[arg(long, value_enum, default_value_t)]
    pub profile: Profile,
    /// Prints the ticket as JSON
    #[arg(long)]
    pub json: bool,
    /// Prints the ticket and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// Arguments of `tack receive`.
#[derive(Debug, Args)]
#[command(override_usage = "tack receive [OPTIONS] <TICKET|-> [DEST]")]
#[command(after_help = "\
With the variable TACK_TICKET, DEST is all that is named. Everything goes into DEST under its own name; a single file can get another one. Files that have one of these names \
are replaced, unless --backup, --update or --ignore-existing says otherwise. Run it again to resume.")]
pub struct ReceiveArgs {
    /// What tack share has printed, or - to read it from standard input, one line; other users of this machine can see
    /// an argument, unlike what comes from there or from the variable TACK_TICKET
    // Where the variable has the ticket, this is DEST.
    #[arg(value_name = "TICKET|-")]
    pub ticket: Option<OsString>,
    /// Where to put it [default: the current directory]
    pub dest: Option<PathBuf>,
    /// Receives directories with everything in them
    #[arg(long, short)]
    pub recursive: bool,
    /// What the connection does.
    #[command(flatten)]
    pub transport: TransportArgs,
    /// What to transfer and what to show.
    #[command(flatten)]
    pub transfer: TransferArgs,
}

/// Arguments of `tack completions`.
#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// For which shell
    pub shell: clap_complete::Shell,
}

/// Arguments of `tack serve-once`.
#[derive(Debug, Args)]
pub struct ServeOnceArgs {
    /// What is wanted, as tack copy puts it; without, standard input says so
    pub request: Option<String>,
}

/// Arguments of `tack dial-once`.
#[derive(Debug, Args)]
pub struct DialOnceArgs {
    /// How long each address may take, in seconds; as long as the system tries if not given
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub timeout: Option<u32>,
    /// Has the system ask from time to time whether the other end is still there
    #[arg(long)]
    pub keep_alive: bool,
    /// Name or address of the host
    pub host: String,
    /// TCP port
    pub port: u16,
}

/// Arguments of `tack man`.
#[derive(Debug, Args)]
pub struct ManArgs {
    /// Directory to write the pages to; created if it does not exist
    pub dir: PathBuf,
}

/// Arguments of `tack copy`.
#[derive(Debug, Args)]
#[command(override_usage = "tack copy [OPTIONS] <SRC>... <DST>")]
#[command(after_help = "\
One of SRC and DST is at another machine: [USER@]HOST:PATH, relative to the home there. ssh logs in and \
starts tack at the other end, and tells this end a port, a certificate and a token made for this one \
transfer; the data goes over UDP. A directory (-r) becomes one of the same name in DST, each time. \
Patterns such as *.txt are those of the shell here: none is expanded at the other end. \
Write ./ before a file of this machine whose name has a colon.")]
pub struct CopyArgs {
    /// What to copy, and last where to
    #[arg(value_name = "SRC|DST", required = true)]
    pub places: Vec<OsString>,
    /// Copies directories with everything in them
    #[arg(long, short)]
    pub recursive: bool,
    /// UDP port at the other end, or a range such as 60000-60100, that a firewall lets through
    #[arg(long, value_name = "PORTS")]
    pub udp_port: Option<Ports>,
    /// Port of the ssh server
    #[arg(short = 'P', value_name = "PORT")]
    pub ssh_port: Option<u16>,
    /// File with ssh's private key
    #[arg(short = 'i', value_name = "FILE")]
    pub ssh_identity: Option<PathBuf>,
    /// File with ssh's configuration
    #[arg(short = 'F', value_name = "FILE")]
    pub ssh_config: Option<PathBuf>,
    /// Host that ssh goes through
    #[arg(short = 'J', value_name = "HOST")]
    pub ssh_jump: Option<String>,
    /// Option of ssh, as in its configuration. Can be repeated
    #[arg(short = 'o', value_name = "OPTION")]
    pub ssh_options: Vec<String>,
    /// Program to use for ssh
    #[arg(long, value_name = "PROGRAM", env = "TACK_SSH", default_value = "ssh")]
    pub ssh: OsString,
    /// How to call tack at the other end
    #[arg(long, value_name = "PATH", default_value = "tack")]
    pub remote_tack: String,
    /// What the connection does.
    #[command(flatten)]
    pub transport: TransportArgs,
    /// What to transfer and what to show.
    #[command(flatten)]
    pub transfer: TransferArgs,
}

impl CopyArgs {
    /// How to run ssh.
    pub fn ssh_options(&self) -> SshOptions {
        let mut arguments: Vec<OsString> = Vec::new();
        let given = [
            ("-p", self.ssh_port.map(|port| port.to_string().into())),
            ("-i", self.ssh_identity.clone().map(PathBuf::into_os_string)),
            ("-F", self.ssh_config.clone().map(PathBuf::into_os_string)),
            ("-J", self.ssh_jump.clone().map(OsString::from)),
        ];
        for (option, value) in given {
            if let Some(value) = value {
                arguments.extend([option.into(), value]);
            }
        }
        for option in &self.ssh_options {
            arguments.extend(["-o".into(), option.into()]);
        }
        let (program, remote_tack) = (self.ssh.clone(), self.remote_tack.clone());
        SshOptions { program, arguments, remote_tack }
    }
}

/// Arguments of `tack ls`.
#[derive(Debug, Args)]
#[command(after_help = "\
A line shows permissions, size in bytes, time of modification in UTC, and the name relative to PATH. \
A directory has a slash behind its name, and neither size nor time. Characters of names that could \
drive the terminal are escaped. Symbolic links and special files are named on standard error.")]
pub struct LsArgs {
    /// What to list
    #[arg(value_name = "HOST[:PORT][/PATH]")]
    pub source: Target,
    /// Lists directories with everything in them
    #[arg(long, short)]
    pub recursive: bool,
    /// How to connect.
    #[command(flatten)]
    pub connection: ConnectionArgs,
    /// Prints entries as JSON, one a line; what could not be listed is of the kind "unlisted"
    #[arg(long)]
    pub json: bool,
    /// Prints entries and errors only
    #[arg(long, short)]
    pub quiet: bool,
}

/// How to connect to a server.
#[derive(Debug, Args)]
pub struct ConnectionArgs {
    /// Access token; other users of this machine can see it, unlike with the variable TACK_TOKEN
    #[arg(long, value_name = "TOKEN", conflicts_with = "token_file")]
    pub token: Option<String>,
    /// File that holds the access token
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// Connects there, at the port of the server that is named if PORT is missing; the certificate has to be that of the named
    /// server all the same
    #[arg(long, value_name = "HOST[:PORT]")]
    pub address: Option<Address>,
    /// The server that is meant by the name, which a configuration file gives it.
    #[arg(long, value_name = "HOST[:PORT]", hide = true)]
    pub host_address: Option<Address>,
    /// SHA-256 fingerprint that the server's certificate must have
    #[arg(long, value_name = "SHA256", conflicts_with_all = ["ca", "insecure"])]
    pub fingerprint: Option<Fingerprint>,
    /// Certificate authorities to trust, instead of the system's
    #[arg(long, value_name = "PEM", conflicts_with = "insecure")]
    pub ca: Option<PathBuf>,
    /// File with the servers that were trusted before [default: known-hosts in tack's directory of the
    /// user's data]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["fingerprint", "ca", "insecure"])]
    pub known_hosts: Option<PathBuf>,
    /// Sends the token to whoever answers, and prints the fingerprint to use next time
    #[arg(long)]
    pub insecure: bool,
    /// What the connection does.
    #[command(flatten)]
    pub transport: TransportArgs,
}

/// What a connection of a client does.
#[derive(Debug, Args)]
pub struct TransportArgs {
    /// Uses nothing that earlier connections observed of the path, and keeps nothing (RFC 9959)
    #[arg(long)]
    pub no_careful_resume: bool,
    /// Resumes no session of an earlier connection, which sends requests with the first packet (0-RTT), and keeps none
    #[arg(long)]
    pub no_early_data: bool,
    /// What acknowledges the data
    #[arg(long, value_enum, default_value_t)]
    pub profile: Profile,
    /// Writes what the connection does to a qlog file in DIR
    #[arg(long, value_name = "DIR")]
    pub qlog: Option<PathBuf>,
}

/// Said where one place is named alone.
pub const TOO_FEW: &str =
    "one place is named, and two are needed: the last is where everything goes";

fn parse_suffix(text: &str) -> Result<Suffix, String> {
    Suffix::new(text)
}

/// Arguments of all commands that transfer files.
#[derive(Debug, Args)]
pub struct TransferArgs {
    /// Compares the content of files that are there already, instead of taking those of the same
    /// size and time of modification for equal
    #[arg(long, short)]
    pub checksum: bool,
    /// Says what would be transferred, and changes nothing at either end
    #[arg(long, short = 'n')]
    pub dry_run: bool,
    /// Leaves out what matches inside directories: a pattern as in a .gitignore file, relative to the
    /// directory that is transferred, but # begins no comment, and blanks at the end count. A directory is left out with
    /// everything in it. Can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub exclude: Vec<String>,
    /// Leaves out what the patterns in FILE match, one a line
    #[arg(long, value_name = "FILE")]
    pub exclude_from: Vec<PathBuf>,
    /// Keeps what matches, though other patterns exclude it; nothing within a directory that is excluded itself, as in
    /// a .gitignore file. Can be repeated
    #[arg(long, value_name = "PATTERN")]
    pub include: Vec<String>,
    /// Removes what the source no longer has below directories that are transferred, and parts of unfinished transfers
    /// that no running one holds, but not in file systems mounted there, once all the rest is in place; never what --exclude names, and nothing if anything has failed. Nothing
    /// is removed either, and the command fails, where the destination's file system spells names otherwise than the
    /// source, as those do that take upper and lower case for the same or leave out dots at the end. Without
    /// --exclude, --update and --ignore-existing, and unless several sources go into one directory, what is of another
    /// kind makes way at once: a directory with all that is in it for a file, a file (or, with --preserve, a link) for
    /// a directory. What would empty the current directory, the home or what holds one of them here is refused
    #[arg(long)]
    pub delete: bool,
    /// Leaves files and links alone that were modified later than the source's
    #[arg(long, short)]
    pub update: bool,
    /// Leaves files alone that are there already
    #[arg(long)]
    pub ignore_existing: bool,
    /// Keeps what is replaced or deleted under its name with SUFFIX behind it [default: ~]; files of such names come
    /// behind all others, so that nothing takes their place
    #[arg(long, value_name = "SUFFIX", num_args = 0..=1, require_equals = true)]
    #[arg(default_missing_value = "~", value_parser = parse_suffix)]
    pub backup: Option<Suffix>,
    /// Keeps permissions exactly, times of directories, symbolic links (as they are, wherever they
    /// lead; none is followed but those that are named themselves), and hard links between files (not those that are
    /// fetched one by one); setuid, setgid and the sticky bit of files and setuid of directories are dropped
    #[arg(long, short)]
    pub preserve: bool,
    /// Keeps owners and groups, too, as numbers: where the receiver runs as root, or where they are its own. Takes
    /// --preserve
    #[arg(long, requires = "preserve")]
    pub owner: bool,
    /// Keeps extended attributes, too: those of users (user.*), whoever runs tack. Takes --preserve
    #[arg(long, requires = "preserve")]
    pub xattrs: bool,
    /// Transfers changed files whole, and not only what the other end's version of them lacks
    #[arg(long, short = 'W')]
    pub whole_file: bool,
    /// Names every file and says what happened to it; with --json in an event for each, those included that fail or
    /// are skipped
    #[arg(long, short, conflicts_with = "quiet")]
    pub verbose: bool,
    /// How long to try to connect again when the connection is lost, in seconds; what was on its way
    /// is resumed, and what the source had before and has no more is a failure, so that nothing is deleted
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    pub retry: u32,
    /// Files to transfer at the same time; small ones, hundreds together, count less
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=16))]
    pub parallel: u8,
    /// Moves no more than this over the network in each direction: bytes per second, such as 10M
    #[arg(long, value_name = "RATE", value_parser = parse_rate)]
    pub bwlimit: Option<u64>,
    /// Prints a summary as JSON
    #[arg(long)]
    pub json: bool,
    /// Prints errors only
    #[arg(long, short)]
    pub quiet: bool,
}

impl SendArgs {
    /// What to send, and where to.
    pub fn places(&self) -> Result<(Vec<PathBuf>, Target), Error> {
        let (dest, sources) = match self.sources_and_dest.split_last() {
            Some((dest, sources)) if !sources.is_empty() => (dest, sources),
            _ => return Err(Error::Usage(format!("{TOO_FEW}: HOST[:PORT][/PATH]"))),
        };
        let Some(dest) = dest.to_str() else {
            let name = NameError::NotUtf8(printable(&dest.to_string_lossy()));
            return Err(Error::Usage(name.to_string()));
        };
        let dest = dest.parse().map_err(Error::Usage)?;
        Ok((sources.iter().map(PathBuf::from).collect(), dest))
    }
}

impl TransferArgs {
    /// How to transfer. No signal stops it.
    pub fn options(&self) -> Result<TransferOptions, Error> {
        let mut options = TransferOptions::default();
        options.policy = self.policy();
        options.filter = self.filter()?;
        options.checksum = self.checksum;
        options.delete = self.delete;
        options.protected = protected().into_iter().map(|protected| protected.number).collect();
        options.dry_run = self.dry_run;
        options.owner = self.owner;
        options.xattrs = self.xattrs;
        options.parallel = usize::from(self.parallel);
        Ok(options)
    }

    fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        policy.update = self.update;
        policy.ignore_existing = self.ignore_existing;
        policy.backup.clone_from(&self.backup);
        policy.preserve = self.preserve;
        policy.whole_file = self.whole_file;
        policy
    }

    /// What of directories is left out.
    fn filter(&self) -> Result<Filter, Error> {
        let mut exclude = Vec::new();
        for file in &self.exclude_from {
            exclude.push(std::fs::read_to_string(file).map_err(Error::local(file))?);
        }
        let patterns: Vec<_> =
            self.exclude.iter().map(|pattern| Filter::line_of(pattern)).collect();
        // Some editors begin a file with a byte order mark.
        let lines = exclude
            .iter()
            .flat_map(|text| text.strip_prefix('\u{feff}').unwrap_or(text).lines());
        let exclude = lines.chain(patterns.iter().map(String::as_str));
        Filter::new(exclude, self.include.iter().map(String::as_str)).map_err(Error::Usage)
    }
}

impl ConnectionArgs {
    /// How to tell the right server from others.
    pub fn trust(&self) -> Trust {
        match (self.fingerprint, self.insecure) {
            (Some(fingerprint), _) => Trust::Pinned(fingerprint),
            (None, true) => Trust::Anything,
            (None, false) => Trust::Authorities(self.ca.clone()),
        }
    }

    /// The access token, if the user gave one.
    pub fn token(&self) -> Result<Option<String>, Error> {
        match (&self.token, &self.token_file) {
            (Some(token), _) => Ok(Some(token.clone())),
            (None, Some(file)) => token::read(file).map(Some),
            (None, None) => Ok(std::env::var(token::VARIABLE).ok()),
        }
    }
}
