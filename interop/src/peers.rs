//! The QUIC implementations to run against, and where their programs are.

use std::fs;
use std::path::{self, Path, PathBuf};

use crate::contract::{Protocol, Role};
use crate::error::Error;
use crate::fetch::{debian, stamp};
use crate::own_kind::OwnKind;

/// A QUIC implementation with a program that keeps to the contract.
#[derive(Debug)]
pub struct Peer {
    /// The name on the command line.
    pub name: &'static str,
    /// A description with the version.
    pub about: &'static str,
    /// The roles of its program.
    pub roles: &'static [Role],
    /// What its program speaks over QUIC; the first where the test case leaves it open.
    pub protocols: &'static [Protocol],
    /// Where the program comes from.
    pub source: Source,
}

/// Where a program comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// This one, with the name as its argument.
    Own,
    /// A Rust package in `interop/peers`, whose binary is called `NAME-peer`.
    Cargo,
    /// A Go module in `interop/peers`.
    Go,
    /// A `peer.py` in `interop/peers` with a `requirements.txt`.
    Python,
    /// A Java program in `interop/peers` with a `pom.xml`, and `lib.sha256` for what that takes.
    Maven,
    /// A `peer.py` in `interop/peers` with a `packages.txt`: its argument is where these packages
    /// are unpacked.
    Debian,
    /// A `peer.py` in `interop/peers` that starts this program, which the packages in `debian.txt`
    /// install.
    Installed(&'static str),
}

const BOTH: &[Role] = &[Role::Client, Role::Server];
const HQ: &[Protocol] = &[Protocol::Hq];
const CLIENT: &[Role] = &[Role::Client];
const SERVER: &[Role] = &[Role::Server];
const H3: &[Protocol] = &[Protocol::H3];
const HQ_AND_H3: &[Protocol] = &[Protocol::Hq, Protocol::H3];

static PEERS: &[Peer] = &[
    Peer {
        name: OwnKind::Tack.name(),
        about: "this project, with TACK",
        roles: BOTH,
        protocols: HQ_AND_H3,
        source: Source::Own,
    },
    Peer {
        name: OwnKind::Quiche.name(),
        about: "quiche 0.30 as it is: this project's endpoint with TACK off",
        roles: BOTH,
        protocols: HQ_AND_H3,
        source: Source::Own,
    },
    Peer {
        name: "quinn",
        about: "quinn 0.11.12 (Rust)",
        roles: BOTH,
        protocols: HQ_AND_H3,
        source: Source::Cargo,
    },
    Peer {
        name: "quic-go",
        about: "quic-go 0.65.0 (Go)",
        roles: BOTH,
        protocols: HQ_AND_H3,
        source: Source::Go,
    },
    Peer {
        name: "aioquic",
        about: "aioquic 1.7.2 (Python)",
        roles: BOTH,
        protocols: HQ_AND_H3,
        source: Source::Python,
    },
    Peer {
        name: "s2n-quic",
        about: "s2n-quic 1.91.0 (Rust)",
        roles: BOTH,
        protocols: HQ,
        source: Source::Cargo,
    },
    Peer {
        name: "msquic",
        about: "msquic 2.5.1-beta (C)",
        roles: BOTH,
        protocols: HQ,
        source: Source::Cargo,
    },
    Peer {
        name: "ngtcp2",
        about: "ngtcp2 0.12.1 (C, from Debian)",
        roles: BOTH,
        protocols: H3,
        source: Source::Debian,
    },
    Peer {
        name: "caddy",
        about: "Caddy 2.11.9 (Go)",
        roles: SERVER,
        protocols: H3,
        source: Source::Go,
    },
    Peer {
        name: "chromium",
        about: "Chromium 156 (C++, from Debian)",
        roles: CLIENT,
        protocols: H3,
        source: Source::Installed("chromium"),
    },
    Peer {
        name: "kwik",
        about: "kwik 0.10.8 (Java)",
        roles: BOTH,
        protocols: HQ_AND_H3,
        source: Source::Maven,
    },
];

/// All peers, in the order of the matrix.
pub fn all() -> &'static [Peer] {
    PEERS
}

/// Their names.
pub fn names() -> Vec<&'static str> {
    PEERS.iter().map(|peer| peer.name).collect()
}

/// The peers of these names in their own order; all of them if there is no name.
///
/// Fails on an unknown name.
pub fn select(wanted: &[String]) -> Result<Vec<&'static Peer>, Error> {
    if let Some(name) = wanted.iter().find(|name| PEERS.iter().all(|peer| peer.name != **name))
    {
        return Err(Error::UnknownPeer { name: name.clone(), known: names() });
    }
    let is_wanted =
        |peer: &&Peer| wanted.is_empty() || wanted.iter().any(|name| name == peer.name);
    Ok(PEERS.iter().filter(is_wanted).collect())
}

/// A program and its arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The file.
    pub file: PathBuf,
    /// Its arguments.
    pub arguments: Vec<PathBuf>,
}

/// The directories that the runner uses.
#[derive(Clone, Debug)]
pub struct Places {
    /// This program.
    pub own: PathBuf,
    /// Adapters with their manifests, one directory for each peer.
    pub manifests: PathBuf,
    /// Everything that is made: `peers/NAME`, and a directory for each run.
    pub output: PathBuf,
}

impl Places {
    /// Those of a checkout: `interop/peers` and, in cargo's target directory, `interop`.
    ///
    /// Fails if the system does not tell where this program is.
    pub fn of_checkout() -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(Error::file("tack-interop"))?;
        let package = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| package.parent().unwrap_or(&package).join("target"), PathBuf::from);
        // Compilers and peers do not run in this directory.
        let target = path::absolute(&target).map_err(Error::file(target))?;
        Ok(Self { own, manifests: package.join("peers"), output: target.join("interop") })
    }

    /// The directory in which `fetch` builds a peer.
    pub fn cache(&self, peer: &Peer) -> PathBuf {
        self.output.join("peers").join(peer.name)
    }

    /// The directory of the peer's adapter.
    pub fn manifest(&self, peer: &Peer) -> PathBuf {
        self.manifests.join(peer.name)
    }

    /// Where the last attempt to fetch the peer left its reason for failing.
    pub fn fetch_failure(&self, peer: &Peer) -> PathBuf {
        self.cache(peer).join("unavailable")
    }
}

impl Peer {
    /// Its program, or why it cannot be started.
    pub fn program(&self, places: &Places) -> Result<Program, String> {
        let cache = places.cache(self);
        let (file, arguments) = match self.source {
            Source::Own => (places.own.clone(), vec!["peer".into(), self.name.into()]),
            Source::Cargo => (cache.join("release").join(self.binary()), vec![]),
            Source::Go => (cache.join(self.binary()), vec![]),
            Source::Python => {
                // Without `-B` it would leave its byte code in the source tree.
                let adapter = places.manifest(self).join("peer.py");
                (cache.join("bin/python"), vec!["-B".into(), adapter])
            }
            Source::Maven => {
                let jar = cache.join(self.binary()).with_extension("jar");
                // A process of seconds gains nothing by the second compiler, and waits for it.
                let short_lived = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-jar"];
                let options = short_lived.map(PathBuf::from).into_iter();
                ("java".into(), options.chain([jar]).collect())
            }
            Source::Debian => {
                let adapter = places.manifest(self).join("peer.py");
                ("python3".into(), vec![adapter, debian::unpacked(&cache)])
            }
            Source::Installed(_) => {
                ("python3".into(), vec![places.manifest(self).join("peer.py")])
            }
        };
        if let Ok(reason) = fs::read_to_string(places.fetch_failure(self)) {
            return Err(reason.trim().to_owned());
        }
        let is_there = match self.source {
            Source::Own => true,
            Source::Installed(program) => stamp::is_there(&cache) && debian::is_there(program),
            _ => stamp::is_there(&cache),
        };
        let is_current = || stamp::is_current(&places.manifest(self), &cache);
        let advice = || format!("run `tack-interop fetch --peers {}`", self.name);
        if !is_there {
            return Err(format!("not fetched: {}", advice()));
        }
        if self.source != Source::Own && !is_current() {
            return Err(format!("its adapter has changed since it was fetched: {}", advice()));
        }
        if !can_be_found(&file) {
            return Err(format!("there is no program {}: {}", file.display(), advice()));
        }
        Ok(Program { file, arguments })
    }

    /// Differences from the versions that were tested.
    pub fn warnings(&self, places: &Places) -> Vec<String> {
        match self.source {
            Source::Debian => debian::warnings(&places.manifest(self), &places.cache(self)),
            Source::Installed(_) => debian::warnings_of_installed(&places.manifest(self)),
            _ => vec![],
        }
    }

    /// The file name of its compiled adapter.
    pub fn binary(&self) -> String {
        format!("{}-peer", self.name)
    }
}

/// Whether the file is there; a mere name is looked for as a shell does.
fn can_be_found(file: &Path) -> bool {
    if file.components().nth(1).is_some() {
        return file.is_file();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(file).is_file())
}

#[cfg(test)]
mod tests {

    use super::*;

    fn places(output: &Path) -> Places {
        let own = output.join("tack-interop");
        fs::write(&own, "").unwrap();
        Places { own, manifests: output.join("manifests"), output: output.to_owned() }
    }

    #[test]
    fn an_unknown_peer_is_refused_by_name() {
        let error = select(&["quinn".to_owned(), "quin".to_owned()]).unwrap_err();
        assert!(error.to_string().contains("\"quin\"; known are tack, quiche, quinn"));
        assert_eq!(error.exit_code(), 2);
        assert_eq!(select(&["quinn".to_owned()]).unwrap()[0].name, "quinn");
    }

    #[test]
    fn a_peer_that_was_not_fetched_says_how_to_and_a_failed_one_why() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        let quinn = PEERS.iter().find(|peer| peer.name == "quinn").unwrap();
        assert!(quinn.program(&places).unwrap_err().contains("fetch --peers quinn"));

        let (manifest, cache) = (places.manifest(quinn), places.cache(quinn));
        for directory in [&manifest, &cache] {
            fs::create_dir_all(directory).unwrap();
        }
        stamp::leave(&manifest, &cache).unwrap();
        assert!(quinn.program(&places).unwrap_err().contains("there is no program"));
        fs::create_dir(cache.join("release")).unwrap();
        fs::write(cache.join("release/quinn-peer"), "").unwrap();
        assert!(quinn.program(&places).unwrap().file.ends_with("release/quinn-peer"));
        fs::write(manifest.join("Cargo.toml"), "changed").unwrap();
        assert!(quinn.program(&places).unwrap_err().contains("adapter has changed"));

        fs::write(places.fetch_failure(quinn), "no compiler\n").unwrap();
        assert_eq!(quinn.program(&places), Err("no compiler".to_owned()));
    }

    #[test]
    fn a_program_is_looked_for_where_it_is_said_to_be_or_on_the_path() {
        assert!(can_be_found(Path::new("sh")) && can_be_found(Path::new("/bin/sh")));
        assert!(!can_be_found(Path::new("no-such-program")));
        assert!(!can_be_found(Path::new("/no/such/sh")));
    }

    #[test]
    fn our_own_peers_are_there_without_fetching() {
        let directory = tempfile::tempdir().unwrap();
        let places = places(directory.path());
        for peer in PEERS.iter().filter(|peer| peer.source == Source::Own) {
            assert_eq!(peer.program(&places).unwrap().file, places.own);
        }
    }
}
