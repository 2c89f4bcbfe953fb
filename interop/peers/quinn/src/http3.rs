//! HTTP/3, by the crates h3 and h3-quinn.

use std::fs;
use std::future::poll_fn;

use bytes::{Buf, Bytes};
use h3::server::RequestResolver;
use http::{Method, Request, Response, StatusCode};
use quinn::Connection;

use crate::{Result, inside};

pub async fn serve(connection: Connection) -> Result<()> {
    let connection = h3_quinn::Connection::new(connection);
    let mut connection: h3::server::Connection<_, Bytes> =
        h3::server::Connection::new(connection).await?;
    while let Some(request) = connection.accept().await? {
        tokio::spawn(async move {
            if let Err(error) = answer(request).await {
                eprintln!("quinn-peer: {error}");
            }
        });
    }
    Ok(())
}

async fn answer(request: RequestResolver<h3_quinn::Connection, Bytes>) -> Result<()> {
    let (request, mut stream) = request.resolve_request().await?;
    let mut body = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        body.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    let name = request.uri().path().trim_start_matches('/');
    let (status, answer) = match *request.method() {
        Method::GET => (StatusCode::OK, fs::read(inside("FILES", name)?)?),
        Method::PUT => {
            fs::write(inside("RECEIVED", name)?, body)?;
            (StatusCode::OK, Vec::new())
        }
        _ => (StatusCode::METHOD_NOT_ALLOWED, Vec::new()),
    };
    stream.send_response(Response::builder().status(status).body(())?).await?;
    if !answer.is_empty() {
        stream.send_data(answer.into()).await?;
    }
    stream.finish().await?;
    Ok(())
}

/// `requests` are `GET name` and `PUT name`.
pub async fn fetch(connection: &Connection, requests: &str) -> Result<()> {
    let connection = h3_quinn::Connection::new(connection.clone());
    let (mut driver, sender) = h3::client::new(connection).await?;
    let driver =
        tokio::spawn(async move { poll_fn(|context| driver.poll_close(context)).await });
    let mut running = Vec::new();
    for request in requests.split(',').map(str::to_owned) {
        let mut sender = sender.clone();
        running.push(tokio::spawn(async move { ask(&mut sender, &request).await }));
    }
    for request in running {
        request.await??;
    }
    driver.abort();
    Ok(())
}

async fn ask(
    sender: &mut h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>,
    request: &str,
) -> Result<()> {
    let (method, name) = request.split_once(' ').ok_or("not a request")?;
    let request = Request::builder().method(method).uri(format!("https://localhost/{name}"));
    let mut stream = sender.send_request(request.body(())?).await?;
    if method == "PUT" {
        stream.send_data(fs::read(inside("FILES", name)?)?.into()).await?;
    }
    stream.finish().await?;
    let status = stream.recv_response().await?.status();
    if status != StatusCode::OK {
        return Err(format!("{name} was answered with status {status}").into());
    }
    let mut answer = Vec::new();
    while let Some(mut data) = stream.recv_data().await? {
        answer.extend_from_slice(&data.copy_to_bytes(data.remaining()));
    }
    if method == "GET" {
        fs::write(inside("RECEIVED", name)?, answer)?;
    }
    Ok(())
}
