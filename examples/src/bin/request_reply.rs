//! Sends small requests, one after the other, over `tack-endpoint` and prints how long the replies
//! take.
//!
//! The argument is the number of requests; the default is 5,000.

#![forbid(unsafe_code)]

use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use hdrhistogram::Histogram;
use tack_endpoint::{Endpoint, EndpointConfig, Event, Handle};
use tack_examples::Certificate;
use tacklib::Profile;

const REQUEST: [u8; 200] = [b'?'; 200];
const REPLY: [u8; 1000] = [b'!'; 1000];
/// Requests before the measurement: the handshake ends and caches fill.
const WARM_UP: u64 = 100;
const PATIENCE: Duration = Duration::from_secs(30);

fn main() -> Result<()> {
    let requests = std::env::args().nth(1).map_or(Ok(5_000), |number| number.parse());
    let requests = requests.context("the number of requests")?;

    let certificate = Certificate::new()?;
    let mut config = config()?;
    config.load_cert_chain_from_pem_file(&certificate.chain()?)?;
    config.load_priv_key_from_pem_file(&certificate.key()?)?;
    let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    // Its field `ecn` makes an endpoint mark packets, so that queues need not drop any to slow it down.
    let server = Endpoint::server(local, config, EndpointConfig::default())?;
    let address = server.local_addr();
    let server = std::thread::spawn(move || serve(server));

    let latencies =
        ask(Endpoint::client(local, EndpointConfig::default())?, address, requests)?;
    match server.join() {
        Ok(served) => served?,
        Err(_) => bail!("the server panicked"),
    }

    println!("{} requests of {} bytes, replies of {}", requests, REQUEST.len(), REPLY.len());
    for (name, quantile) in [("median", 0.5), ("90 %", 0.9), ("99 %", 0.99), ("99.9 %", 0.999)]
    {
        println!("{name:>7} {:>7} us", latencies.value_at_quantile(quantile));
    }
    println!("{:>7} {:>7} us", "worst", latencies.max());
    Ok(())
}

fn config() -> Result<tacklib::Config> {
    let mut config = tacklib::Config::new(quiche::PROTOCOL_VERSION)?;
    config.set_application_protos(&[b"example"])?;
    config.verify_peer(false); // the certificate is self-signed
    config.set_max_idle_timeout(5_000);
    config.set_initial_max_data(1_000_000);
    config.set_initial_max_stream_data_bidi_local(100_000);
    config.set_initial_max_stream_data_bidi_remote(100_000);
    config.set_initial_max_streams_bidi(100);
    // Acknowledges small messages at once.
    config.set_profile(Profile::Quick);
    Ok(config)
}

/// Replies to every request until the client closes the connection.
fn serve(mut endpoint: Endpoint) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        endpoint.poll(Some(Duration::from_secs(1)))?;
        while let Some(event) = endpoint.next_event() {
            match event {
                Event::Activity(handle) => reply(&mut endpoint, handle)?,
                Event::Closed(..) => return Ok(()),
                _ => {}
            }
        }
    }
    bail!("the client never closed the connection")
}

fn reply(endpoint: &mut Endpoint, handle: Handle) -> Result<()> {
    let Some(connection) = endpoint.connection_mut(handle) else { return Ok(()) };
    let mut buffer = [0; REQUEST.len()];
    while let Some(stream) = connection.stream_readable_next() {
        while let Ok((_, fin)) = connection.stream_recv(stream, &mut buffer) {
            if fin {
                let written = connection.stream_send(stream, &REPLY, true)?;
                ensure!(written == REPLY.len(), "a reply did not fit the send buffer");
                break;
            }
        }
    }
    Ok(())
}

/// Sends request after request and returns the latencies of the replies in microseconds.
fn ask(mut endpoint: Endpoint, server: SocketAddr, requests: u64) -> Result<Histogram<u64>> {
    let connection = endpoint.connect(server, Some("localhost"), &mut config()?)?;
    let mut latencies = Histogram::new(3)?;
    let start = Instant::now();
    let mut asked = 0;
    let mut asked_at = start;
    while start.elapsed() < PATIENCE {
        endpoint.poll(Some(Duration::from_secs(1)))?;
        while let Some(event) = endpoint.next_event() {
            let is_ready = match event {
                Event::Connected(_) => true,
                Event::Activity(_) => has_reply(&mut endpoint, connection, asked)?,
                Event::Closed(_, reason) => bail!("no more replies: {reason}"),
                _ => false,
            };
            if !is_ready {
                continue;
            }
            if asked > WARM_UP {
                latencies.record(asked_at.elapsed().as_micros() as u64)?;
            }
            if asked == WARM_UP + requests {
                close(endpoint)?;
                return Ok(latencies);
            }
            asked_at = Instant::now();
            let open = endpoint.connection_mut(connection).context("the connection is gone")?;
            // The ids of a client's bidirectional streams are divisible by four (RFC 9000 2.1).
            open.stream_send(asked * 4, &REQUEST, true)?;
            asked += 1;
        }
    }
    bail!("{asked} requests took longer than {PATIENCE:?}")
}

/// Closes the connection; returns once the server has been told.
fn close(mut endpoint: Endpoint) -> Result<()> {
    endpoint.shutdown(0, b"thank you");
    loop {
        endpoint.poll(None)?;
        while let Some(event) = endpoint.next_event() {
            if let Event::Closed(..) = event {
                return Ok(());
            }
        }
    }
}

/// Whether the whole reply to the last request has arrived.
fn has_reply(endpoint: &mut Endpoint, connection: Handle, asked: u64) -> Result<bool> {
    let Some(last) = asked.checked_sub(1) else { return Ok(false) };
    let open = endpoint.connection_mut(connection).context("the connection is gone")?;
    let mut buffer = [0; REPLY.len()];
    while let Ok((_, fin)) = open.stream_recv(last * 4, &mut buffer) {
        if fin {
            return Ok(true);
        }
    }
    Ok(false)
}
