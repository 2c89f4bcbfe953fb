//! The TCP connection that ssh logs in over, made in its place.
//!
//! ssh writes two small messages one after the other as it logs in, and Nagle's algorithm (RFC 9293 section 3.7.4) keeps
//! the second back until the first is acknowledged: a round trip. ssh turns the algorithm off only later, but takes a
//! connection from its `ProxyCommand` (`ProxyUseFdpass`), where it may be off from the beginning.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use rustix::net::{
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg,
    sockopt::set_socket_keepalive,
};

/// The command that ssh is to run.
pub const COMMAND: &str = "dial-once";

/// How ssh would connect.
#[derive(Clone, Debug, PartialEq)]
pub struct Dial {
    /// In seconds; without, as long as the system tries.
    timeout: Option<u32>,
    /// Whether the system is to ask from time to time if the other end is still there.
    keeps_alive: bool,
}

impl Dial {
    /// By what ssh's configuration says under a name. `None` where ssh would connect in another way than to the host's
    /// addresses one after the other, or needs to know which it was, or does not say.
    pub fn in_place_of<'a>(said: impl Fn(&'static str) -> Option<&'a str>) -> Option<Self> {
        let is_plain = [
            ("addressfamily", "any"),
            ("canonicalizehostname", "false"),
            ("checkhostip", "no"),
            ("nohostauthenticationforlocalhost", "no"),
            ("proxyusefdpass", "no"),
            ("verifyhostkeydns", "false"),
        ]
        .into_iter()
        .all(|(name, value)| said(name) == Some(value));
        let is_other = ["proxycommand", "proxyjump", "bindaddress", "bindinterface"]
            .into_iter()
            .any(|name| said(name).is_some());
        (is_plain && !is_other).then(|| Self {
            timeout: said("connecttimeout").and_then(|seconds| seconds.parse().ok()),
            keeps_alive: said("tcpkeepalive") == Some("yes"),
        })
    }

    /// The value of `ProxyCommand` with which ssh has `tack` connect; `None` if a shell could take its name for more
    /// than a name. `timeout` is in seconds, and for a host for which the configuration has none.
    pub fn proxy_command(&self, tack: &Path, timeout: Option<u32>) -> Option<String> {
        let tack = tack.to_str()?;
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-@,:=".contains(c);
        if !tack.chars().all(is_plain) {
            return None;
        }
        let timeout = self.timeout.or(timeout);
        let timeout = timeout.map_or(String::new(), |seconds| format!(" --timeout {seconds}"));
        let keeps_alive = if self.keeps_alive { " --keep-alive" } else { "" };
        Some(format!("{tack} {COMMAND}{timeout}{keeps_alive} -- %h %p"))
    }
}

/// Connects to the first address of `host` that answers, each within `timeout`, and hands the connection to whoever has
/// the other end of the socket `to`.
pub fn dial(
    host: &str,
    port: u16,
    timeout: Option<Duration>,
    keeps_alive: bool,
    to: impl AsFd,
) -> io::Result<()> {
    let mut failed = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in (host, port).to_socket_addrs()? {
        let connected = match timeout {
            Some(timeout) => TcpStream::connect_timeout(&address, timeout),
            None => TcpStream::connect(address),
        };
        match connected {
            Ok(connection) => {
                connection.set_nodelay(true)?;
                set_socket_keepalive(&connection, keeps_alive)?;
                return hand_over(&connection, to);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn hand_over(connection: &TcpStream, to: impl AsFd) -> io::Result<()> {
    let descriptors = [connection.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    // There is space for it.
    rights.push(SendAncillaryMessage::ScmRights(&descriptors));
    // Nothing goes along with no byte.
    sendmsg(to, &[IoSlice::new(&[0])], &mut rights, SendFlags::empty())?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg, sockopt};
    use std::io::IoSliceMut;
    use std::net::TcpListener;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    const PLAIN: Dial = Dial { timeout: None, keeps_alive: true };

    #[test]
    fn ssh_runs_the_command_through_a_shell_that_takes_no_part_of_it_for_its_own() {
        let command = |tack, timeout| PLAIN.proxy_command(Path::new(tack), timeout);
        assert_eq!(
            command("/usr/bin/tack", None).as_deref(),
            Some("/usr/bin/tack dial-once --keep-alive -- %h %p")
        );
        assert_eq!(
            command("/usr/bin/tack", Some(10)).as_deref(),
            Some("/usr/bin/tack dial-once --timeout 10 --keep-alive -- %h %p")
        );
        for strange in
            ["/home/a b/tack", "/tmp/100%h/tack", "/bin/tack (deleted)", "/$HOME/tack"]
        {
            assert_eq!(command(strange, None), None, "{strange}");
        }
    }

    #[test]
    fn the_host_s_own_timeout_is_kept() {
        let dial = Dial { timeout: Some(3), keeps_alive: false };
        assert_eq!(
            dial.proxy_command(Path::new("tack"), Some(10)).as_deref(),
            Some("tack dial-once --timeout 3 -- %h %p")
        );
    }

    #[test]
    fn the_connection_that_is_handed_over_sends_small_messages_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (ours, ssh_s) = UnixStream::pair().unwrap();
        dial("127.0.0.1", port, Some(Duration::from_secs(5)), true, &ours).unwrap();
        let (mut byte, mut space) =
            ([0; 1], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))]);
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        recvmsg(&ssh_s, &mut [IoSliceMut::new(&mut byte)], &mut rights, RecvFlags::empty())
            .unwrap();
        let received: Vec<OwnedFd> = rights
            .drain()
            .filter_map(|message| match message {
                RecvAncillaryMessage::ScmRights(descriptors) => Some(descriptors),
                _ => None,
            })
            .flatten()
            .collect();
        assert!(sockopt::tcp_nodelay(&received[0]).unwrap());
        assert!(sockopt::socket_keepalive(&received[0]).unwrap());
        let (_, peer) = listener.accept().unwrap();
        let handed_over = TcpStream::from(received.into_iter().next().unwrap());
        assert_eq!(handed_over.local_addr().unwrap(), peer);
    }

    #[test]
    fn nothing_is_handed_over_where_nobody_listens() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let (ours, _ssh_s) = UnixStream::pair().unwrap();
        let error = dial("127.0.0.1", port, None, false, &ours).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
    }
}
