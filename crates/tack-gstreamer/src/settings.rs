//! The properties that both elements have.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use gst::glib;
use gst::prelude::*;

/// Who begins the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstTackMode")]
pub enum Mode {
    /// This element connects to a listener.
    #[default]
    #[enum_value(name = "Caller: connects to a listener", nick = "caller")]
    Caller,
    /// This element waits for callers, and has the certificate.
    #[enum_value(name = "Listener: waits for callers", nick = "listener")]
    Listener,
}

/// How the transport behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, glib::Enum)]
#[enum_type(name = "GstTackProfile")]
pub enum Profile {
    /// TACK with its defaults.
    #[enum_value(name = "TACK with its defaults", nick = "default")]
    Default,
    /// TACK for live video.
    #[default]
    #[enum_value(name = "TACK for live video", nick = "video")]
    Video,
    /// Plain QUIC, as quiche comes.
    #[enum_value(name = "Plain QUIC, for comparison", nick = "off")]
    Off,
}

impl From<Profile> for tacklib::Profile {
    fn from(profile: Profile) -> Self {
        match profile {
            Profile::Default => Self::Default,
            Profile::Video => Self::Video,
            Profile::Off => Self::Off,
        }
    }
}

/// The port unless another is set.
const DEFAULT_PORT: u32 = 7002;
const DEFAULT_HOST: &str = "127.0.0.1";

/// Finds the addresses of a host, which may take some seconds.
pub(crate) type Resolve = fn(&str, u16) -> io::Result<Vec<SocketAddr>>;

/// The values of these properties.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub mode: Mode,
    pub host: String,
    pub port: u32,
    pub certificate: Option<PathBuf>,
    pub private_key: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub fingerprint: Option<String>,
    pub server_name: Option<String>,
    pub insecure: bool,
    pub profile: Profile,
    /// How addresses are found. Not a property.
    pub resolve: Resolve,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            mode: Mode::default(),
            host: DEFAULT_HOST.to_owned(),
            port: DEFAULT_PORT,
            certificate: None,
            private_key: None,
            ca_file: None,
            fingerprint: None,
            server_name: None,
            insecure: false,
            profile: Profile::default(),
            resolve: resolve_by_system,
        }
    }
}

fn resolve_by_system(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    (host, port).to_socket_addrs().map(Iterator::collect)
}

/// Says after half a second that there is no such host.
#[cfg(test)]
pub(crate) fn resolve_slowly(_: &str, _: u16) -> io::Result<Vec<SocketAddr>> {
    std::thread::sleep(std::time::Duration::from_millis(500));
    Err(io::Error::other("no such host"))
}

/// The properties, which `set` and `get` know by their names; each class has its own.
pub(crate) fn properties() -> Vec<glib::ParamSpec> {
    let mut properties = vec![
        glib::ParamSpecEnum::builder::<Mode>("mode")
            .nick("Mode")
            .blurb("Whether to connect to a listener or to wait for callers")
            .mutable_ready()
            .build(),
        glib::ParamSpecString::builder("host")
            .nick("Host")
            .blurb("Caller: name or address of the listener; listener: address to listen on")
            .default_value(Some(DEFAULT_HOST))
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("port")
            .nick("Port")
            .blurb("UDP port of the listener; 0, as a listener: one that is free")
            .maximum(u32::from(u16::MAX))
            .default_value(DEFAULT_PORT)
            .mutable_ready()
            .build(),
        glib::ParamSpecEnum::builder::<Profile>("profile")
            .nick("Profile")
            .blurb("How the transport behaves")
            .default_value(Profile::default())
            .mutable_ready()
            .build(),
        glib::ParamSpecUInt::builder("current-port")
            .nick("Current port")
            .blurb("Listener: the UDP port that it listens on; 0 if it does not")
            .maximum(u32::from(u16::MAX))
            .read_only()
            .build(),
        glib::ParamSpecString::builder("current-fingerprint")
            .nick("Current fingerprint")
            .blurb(
                "Listener: SHA-256 of its certificate, for the callers' property fingerprint",
            )
            .read_only()
            .build(),
    ];
    properties.extend(certificate_properties());
    properties
}

/// Those that say who trusts whom.
fn certificate_properties() -> Vec<glib::ParamSpec> {
    let text = |name: &'static str, nick: &'static str, blurb: &'static str| {
        glib::ParamSpecString::builder(name).nick(nick).blurb(blurb).mutable_ready().build()
    };
    vec![
        text(
            "certificate",
            "Certificate",
            "Listener: PEM file with the certificate chain; not set: a certificate is made",
        ),
        text("private-key", "Private key", "Listener: PEM file with the certificate's key"),
        text(
            "ca-file",
            "CA file",
            "Caller: PEM file with the authorities to trust instead of the system's",
        ),
        text(
            "fingerprint",
            "Fingerprint",
            "Caller: SHA-256 of the only certificate to trust, in hexadecimal, with colons or not",
        ),
        text(
            "server-name",
            "Server name",
            "Caller: the name that the certificate must be for, if it is not the host",
        ),
        glib::ParamSpecBoolean::builder("insecure")
            .nick("Insecure")
            .blurb("Caller: trust any certificate, and so whoever answers; for experiments")
            .mutable_ready()
            .build(),
    ]
}

impl Settings {
    /// Sets a property; false if it is not one of these.
    pub fn set(&mut self, name: &str, value: &glib::Value) -> bool {
        let text =
            || value.get::<Option<String>>().ok().flatten().filter(|text| !text.is_empty());
        match name {
            "mode" => self.mode = value.get().unwrap_or_default(),
            "host" => self.host = text().unwrap_or_else(|| DEFAULT_HOST.to_owned()),
            "port" => self.port = value.get().unwrap_or(DEFAULT_PORT),
            "certificate" => self.certificate = text().map(PathBuf::from),
            "private-key" => self.private_key = text().map(PathBuf::from),
            "ca-file" => self.ca_file = text().map(PathBuf::from),
            "fingerprint" => self.fingerprint = text(),
            "server-name" => self.server_name = text(),
            "insecure" => self.insecure = value.get().unwrap_or_default(),
            "profile" => self.profile = value.get().unwrap_or_default(),
            _ => return false,
        }
        true
    }

    /// The value of a property, if it is one of these that can be set.
    pub fn get(&self, name: &str) -> Option<glib::Value> {
        let path = |path: &Option<PathBuf>| {
            path.as_ref().map(|path| path.to_string_lossy().into_owned()).to_value()
        };
        Some(match name {
            "mode" => self.mode.to_value(),
            "host" => self.host.to_value(),
            "port" => self.port.to_value(),
            "certificate" => path(&self.certificate),
            "private-key" => path(&self.private_key),
            "ca-file" => path(&self.ca_file),
            "fingerprint" => self.fingerprint.to_value(),
            "server-name" => self.server_name.to_value(),
            "insecure" => self.insecure.to_value(),
            "profile" => self.profile.to_value(),
            _ => return None,
        })
    }
}
