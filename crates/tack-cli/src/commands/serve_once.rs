//! The end of `tack copy` that ssh starts: serves one client, as long as ssh lives.

use std::io::{Read, Write};
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use data_encoding::BASE64_NOPAD;

use super::one_time_server::{OneTimeOptions, one_time_server};
use super::print_json;
use crate::cli::ServeOnceArgs;
use crate::destination::check_mirror;
use crate::error::Error;
use crate::ssh::{Answer, Ready, Refusal, Request, VERSION, Wanted, read_line};
use crate::termination::Termination;
use crate::user_directories;
use tack_transfer::Server;

/// Answers the request in the command line or on standard input, and serves what it asks for.
pub fn serve_once(args: &ServeOnceArgs) -> Result<(), Error> {
    // Before there are other threads, which inherit which signals are blocked.
    let stop = Termination::catch().map_err(Error::local("signals"))?;
    let request = match &args.request {
        Some(argument) => Request::from_argument(argument),
        None => read_line(&mut std::io::stdin().lock())
            .map_err(Error::local("standard input"))?
            .and_then(|line| serde_json::from_str(&line).ok()),
    };
    let Some(request) = request.filter(|request| request.tack_copy == VERSION) else {
        return Err(Error::Usage(
            "this command is run by tack copy of the same version at the other end".to_owned(),
        ));
    };
    let home = std::env::current_dir().map_err(Error::local("."))?;
    let (mut server, ready) = match prepare(&request, &home) {
        Ok(prepared) => prepared,
        Err(error) => {
            let refusal = Refusal { text: error.to_string(), exit: error.exit() as u8 };
            return print_json(&Answer::new(Err(refusal)));
        }
    };
    let waker = server.waker();
    // Fails only if the server is gone.
    stop.on_signal(move || drop(waker.wake()));
    print_json(&Answer::new(Ok(ready)))?;
    push_answer();
    let is_cut = watch_input(&server);
    let patience = Duration::from_secs(request.patience);
    let mut lonely_since = Instant::now();
    Ok(server.run_until(|server| {
        if server.has_clients() {
            lonely_since = Instant::now();
        }
        stop.is_requested()
            || is_cut.load(Ordering::Relaxed)
            || lonely_since.elapsed() >= patience
    })?)
}

/// Writes blanks behind the answer. sshd has just said that the command runs, and leaves Nagle's algorithm on (RFC
/// 9293 section 3.7.4) where there is no terminal: what is less than a segment waits until the client's TCP has
/// acknowledged that, for a round trip. With more than a segment behind it the answer leaves at once. It comes in a
/// packet of sshd's before theirs, which would have to be there whole.
fn push_answer() {
    const BLANKS: [u8; 4096] = [b' '; 4096];
    const SSHD_TAKES_ANSWER: Duration = Duration::from_millis(5);
    std::thread::spawn(|| {
        std::thread::sleep(SSHD_TAKES_ANSWER);
        let mut output = std::io::stdout().lock();
        // Fails only if the client has had enough.
        let _ = output.write_all(&BLANKS).and_then(|()| output.flush());
    });
}

/// Tells when standard input ends: ssh has, or the client.
fn watch_input(server: &Server) -> Arc<AtomicBool> {
    let (is_cut, waker) = (Arc::new(AtomicBool::new(false)), server.waker());
    let tell = Arc::clone(&is_cut);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        let mut buffer = [0; 1024];
        while matches!(input.read(&mut buffer), Ok(1..)) {}
        tell.store(true, Ordering::Relaxed);
        // Fails only if the server is gone.
        let _ = waker.wake();
    });
    is_cut
}

/// A server of what is wanted.
fn prepare(request: &Request, home: &Path) -> Result<(Server, Ready), Error> {
    // The client tells its user what happens.
    let report = Box::new(|_| {});
    let how = OneTimeOptions {
        ports: request.ports,
        plain: request.plain,
        retry: false,
        cc_parameters: user_directories::cc_parameters(request.careful_resume),
        gives_session: true,
        report,
    };
    let started = one_time_server(&request.wanted, home, how)?;
    for place in started.scope.paths.iter().map(|path| started.scope.root.join(path.as_str())) {
        for name in &request.mirrors {
            check_mirror(&place.join(name))?;
        }
    }
    let has_nothing =
        matches!(request.wanted, Wanted::Write(_)) && started.scope.has_nothing(&request.names);
    let ready = Ready {
        port: started.server.local_addr().port(),
        address: reached_at(),
        fingerprint: started.fingerprint.to_string(),
        token: started.token,
        paths: started.scope.paths.into_iter().map(String::from).collect(),
        is_directory: started.scope.is_directory,
        has_nothing,
        session: started.server.first_session().map(|session| BASE64_NOPAD.encode(session)),
    };
    Ok((started.server, ready))
}

/// The address of this machine that ssh's client has come to.
fn reached_at() -> Option<String> {
    let connection = std::env::var("SSH_CONNECTION").ok()?;
    let address = connection.split_whitespace().nth(2)?;
    // The zone of a link-local address is that of this machine.
    let address = address.split('%').next()?;
    address.parse::<IpAddr>().ok().map(|address| address.to_canonical().to_string())
}
