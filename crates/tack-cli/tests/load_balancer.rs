//! Two servers behind nginx, configured as docs/deploying.md says. Skips where nginx is missing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use common::{TACK, finish, noise, wait_until, write};

const GUIDE: &str = include_str!("../../../docs/deploying.md");
const SIZE: usize = 8_000_000;

/// The configuration in the guide, with these ports.
fn configuration(front: u16, servers: [u16; 2]) -> String {
    let (_, block) = GUIDE.split_once("```nginx\n").expect("a configuration");
    let (block, _) = block.split_once("```").unwrap();
    let changed = block
        .replace("192.0.2.1:4433", &format!("127.0.0.1:{}", servers[0]))
        .replace("192.0.2.2:4433", &format!("127.0.0.1:{}", servers[1]))
        .replace("listen 4433 udp", &format!("listen 127.0.0.1:{front} udp"));
    assert!(!changed.contains("4433") && !changed.contains("192.0.2."), "{changed}");
    changed
}

fn free_port() -> u16 {
    UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Both servers and what they share.
struct Service {
    dir: tempfile::TempDir,
    ports: [u16; 2],
}

impl Service {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn start(&self, which: usize) -> Running {
        let mut serve = Command::new(TACK);
        serve.args([
            "serve",
            "--quiet",
            "--listen",
            &format!("127.0.0.1:{}", self.ports[which]),
        ]);
        serve.arg("--identity").arg(self.path("identity"));
        serve.arg("--token-file").arg(self.path("token")).arg(self.path("served"));
        Running(serve.env("TACK_CONFIG", "").stdout(Stdio::null()).spawn().unwrap())
    }
}

fn length_of(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

#[test]
fn a_client_finishes_although_its_server_is_killed() {
    let nginx = ["/usr/sbin/nginx", "/usr/local/sbin/nginx"]
        .into_iter()
        .find(|p| Path::new(p).exists());
    let module = Path::new("/usr/lib/nginx/modules/ngx_stream_module.so");
    let Some(nginx) = nginx.filter(|_| module.exists()) else {
        common::skip("nginx is not installed (Debian: nginx, libnginx-mod-stream)");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let service = Service { dir, ports: [free_port(), free_port()] };
    write(&service.path("served/file"), &noise(SIZE, 1));
    let front = free_port();
    let text = format!(
        "pid {};\nerror_log stderr;\n{}",
        service.path("pid").display(),
        configuration(front, service.ports)
    );
    fs::write(service.path("nginx.conf"), text).unwrap();
    let mut balancer = Command::new(nginx);
    // One process, which is gone when it is killed.
    balancer.args(["-g", "daemon off; master_process off;", "-e", "stderr", "-c"]);
    let log = fs::File::create(service.path("nginx.log")).unwrap();
    balancer.arg(service.path("nginx.conf")).stdin(Stdio::null()).stdout(Stdio::null());
    let _balancer = Running(balancer.stderr(log).spawn().unwrap());
    let mut servers = [service.start(0), service.start(1)];
    wait_until(|| {
        service.path("identity/identity.pem").exists() && length_of(&service.path("token")) > 0
    });
    wait_until(|| service.path("pid").exists());

    let identity = tack_transfer::Identity::in_directory(&service.path("identity")).unwrap();
    let mut client = Command::new(TACK);
    client.args(["get", "--json", "--bwlimit", "2M", "--fingerprint"]);
    client.arg(identity.fingerprint.to_string()).arg("--token-file").arg(service.path("token"));
    client.arg(format!("127.0.0.1:{front}/file")).arg(service.path("dest"));
    client.env("TACK_CONFIG", "").env("XDG_STATE_HOME", service.path("state"));
    let child = client.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let part = service.path(".dest.tack-part");
    // The client is with one of them, which cannot be told from outside.
    for which in [0, 1] {
        let before = length_of(&part);
        wait_until(|| length_of(&part) > before + 500_000);
        drop(std::mem::replace(
            &mut servers[which],
            Running(Command::new("true").spawn().unwrap()),
        ));
        wait_until(|| length_of(&part) > before + 1_000_000);
        servers[which] = service.start(which);
    }
    let finished = finish(child).expect(0);
    assert!(finished.errors.contains("trying to connect again"), "{}", finished.errors);
    assert!(finished.number("resumed_bytes") > 0, "{}", finished.summary);
    assert!(fs::read(service.path("dest")).unwrap() == noise(SIZE, 1));
}
