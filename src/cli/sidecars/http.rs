//! A small HTTP/1.1 client for the admin port.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::api::percent_encoded;
use crate::cli::exit::{CommandFailure, Exit};

/// Timeout of connecting.
const PATIENCE: Duration = Duration::from_secs(10);
/// Timeout of an answer: some requests count all dead letters of a group.
const ANSWER_PATIENCE: Duration = Duration::from_mins(1);
/// Largest answer that is read, in bytes.
const ANSWER_BYTES_MAX: u64 = 256 << 20;
/// Most headers of an answer; the admin port sends fewer than ten.
const HEADERS_MAX: usize = 64;

/// The answer to a request that gets no data.
#[derive(Deserialize)]
struct RefusedAnswer {
    error: String,
}

/// One admin port.
#[derive(Clone, Debug)]
pub(in crate::cli) struct AdminEndpoint {
    /// The address as messages name it.
    pub(in crate::cli) name: String,
    /// The value of the `Host` header: the text of `--admin`.
    pub(in crate::cli) host: String,
    /// The addresses to try, in order.
    pub(in crate::cli) addresses: Vec<SocketAddr>,
    pub(super) token: Option<String>,
    /// The name that the caller claims.
    pub(super) operator: Option<String>,
}

impl AdminEndpoint {
    /// GETs a path and reads JSON; any status but 200 is a failure with the sidecar's own sentence.
    pub(in crate::cli) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.ask("GET", path, &[])
    }

    /// POSTs JSON and reads JSON; failures are those of `get`.
    pub(in crate::cli) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CommandFailure> {
        let body = serde_json::to_vec(body);
        let body = body.map_err(|error| {
            CommandFailure::new(Exit::Failed, format!("the request cannot be written: {error}"))
        })?;
        self.ask("POST", path, &body)
    }

    fn ask<T: DeserializeOwned>(
        &self,
        method: &str,
        path: &str,
        body: &[u8],
    ) -> Result<T, CommandFailure> {
        let answer = self.exchange(method, path, body)?;
        let strange = || {
            let name = &self.name;
            let says = format!("{name} does not answer like a reprise admin port; see --admin");
            CommandFailure::new(Exit::Failed, says)
        };
        let (status, body) = split(&answer).ok_or_else(strange)?;
        if status == 200 {
            return serde_json::from_slice(body).map_err(|_| strange());
        }
        let RefusedAnswer { error } = serde_json::from_slice(body).map_err(|_| strange())?;
        let exit = match status {
            404 => Exit::NothingMatched,
            401 | 403 | 409 => Exit::Refused,
            400 => Exit::Usage,
            _ => Exit::Failed,
        };
        Err(CommandFailure::new(exit, error))
    }

    fn exchange(&self, method: &str, path: &str, body: &[u8]) -> Result<Vec<u8>, CommandFailure> {
        let host = &self.host;
        let token = self.token.as_ref().map(|token| format!("Authorization: Bearer {token}\r\n"));
        let token = token.unwrap_or_default();
        let operator = self
            .operator
            .as_ref()
            .filter(|_| !body.is_empty())
            .map(|name| format!("X-Reprise-Operator: {}\r\n", percent_encoded(name)));
        let operator = operator.unwrap_or_default();
        let mut socket = self.connect()?;
        let what = match body.len() {
            0 => String::new(),
            n => format!("Content-Type: application/json\r\nContent-Length: {n}\r\n"),
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\
             {token}{operator}{what}\r\n"
        );
        let mut answer = Vec::new();
        socket
            .write_all(request.as_bytes())
            .and_then(|()| socket.write_all(body))
            .and_then(|()| socket.take(ANSWER_BYTES_MAX).read_to_end(&mut answer))
            .map_err(|e| {
                CommandFailure::new(Exit::Failed, format!("{} stopped answering: {e}", self.name))
            })?;
        Ok(answer)
    }

    fn connect(&self) -> Result<TcpStream, CommandFailure> {
        let name = &self.name;
        let nobody = |why: &str| {
            let says = format!(
                "nothing answers at {name}{why}; is `reprise serve` running? another address: \
                 --admin"
            );
            CommandFailure::new(Exit::Failed, says)
        };
        let mut last: Option<io::Error> = None;
        for address in &self.addresses {
            match TcpStream::connect_timeout(address, PATIENCE) {
                Ok(socket) => {
                    let set = socket
                        .set_read_timeout(Some(ANSWER_PATIENCE))
                        .and_then(|()| socket.set_write_timeout(Some(PATIENCE)));
                    set.map_err(|e| nobody(&format!(" ({e})")))?;
                    return Ok(socket);
                }
                Err(error) => last = Some(error),
            }
        }
        match last {
            Some(e) if e.kind() != io::ErrorKind::ConnectionRefused => {
                Err(nobody(&format!(" ({e})")))
            }
            _ => Err(nobody("")),
        }
    }
}

/// Status and body of a complete answer.
fn split(answer: &[u8]) -> Option<(u16, &[u8])> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(end) = head.parse(answer).ok()? else { return None };
    let is_length = |name: &str| name.eq_ignore_ascii_case("content-length");
    let length = head.headers.iter().find(|header| is_length(header.name))?.value;
    let length: usize = std::str::from_utf8(length).ok()?.trim().parse().ok()?;
    let body = answer.get(end..)?;
    (body.len() == length).then_some((head.code?, body))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_http_answer_is_taken() {
        let whole = b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}";
        assert_eq!(split(whole), Some((404, &b"{}"[..])));
        for cut in 0..whole.len() {
            assert_eq!(split(&whole[..cut]), None, "{cut}");
        }
        assert_eq!(split(b"SSH-2.0-OpenSSH\r\n\r\n"), None);
    }
}
