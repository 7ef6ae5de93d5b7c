//! Who may read groups and records: a page from elsewhere in a browser may not (DNS rebinding),
//! and callers from other hosts need the token when there is one.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, header};

use super::Options;
use super::answer::Refusal;

/// Paths anyone may ask: probes and figures hold no record.
const OPEN: [&str; 6] = ["/", "/livez", "/readyz", "/startupz", "/metrics", "/version"];

/// Judges one request.
pub(super) fn judge(
    options: &Options,
    path: &str,
    headers: &HeaderMap,
    peer: Option<SocketAddr>,
) -> Result<(), Refusal> {
    if OPEN.contains(&path) {
        return Ok(());
    }
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(host) = text(header::HOST)
        && !host_is_ours(options, host)
    {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            format!("the host {host:?} is not served here; use the address or localhost"),
        ));
    }
    let near = peer.is_none_or(|peer| peer.ip().to_canonical().is_loopback());
    let Some(token) = options.token.as_deref().filter(|_| !near) else { return Ok(()) };
    let given = text(header::AUTHORIZATION).and_then(|value| value.strip_prefix("Bearer "));
    if given.is_some_and(|given| same(given.trim().as_bytes(), token.as_bytes())) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNAUTHORIZED,
        "callers from other hosts must send Authorization: Bearer and the token of \
         admin.token_file",
    ))
}

/// `localhost`, any address, or a name that was configured.
fn host_is_ours(options: &Options, host: &str) -> bool {
    let without_port = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let name = without_port.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || name.parse::<IpAddr>().is_ok()
        || options.hosts.iter().any(|ours| ours.eq_ignore_ascii_case(name))
}

/// Compares in a time that depends on the lengths only.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(options: &Options, path: &str, pairs: &[(&str, &str)], peer: &str) -> u16 {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = header::HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.insert(name, value.parse().unwrap());
        }
        let peer = Some(peer.parse().unwrap());
        judge(options, path, &headers, peer).err().map_or(200, |r| r.status.as_u16())
    }

    #[test]
    fn a_foreign_host_name_reads_no_records() {
        let options = Options { hosts: vec!["sidecar".into()], ..Options::default() };
        let near = "127.0.0.1:5000";
        for host in ["localhost:9664", "127.0.0.1:9664", "[::1]:9664", "sidecar", "10.1.2.3"] {
            assert_eq!(status(&options, "/api/v1/groups", &[("host", host)], near), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:9664", "localhost.evil.example"] {
            assert_eq!(status(&options, "/api/v1/groups", &[("host", host)], near), 403, "{host}");
            assert_eq!(status(&options, "/readyz", &[("host", host)], near), 200, "{host}");
        }
    }

    #[test]
    fn callers_from_other_hosts_need_the_token_when_there_is_one() {
        let options = Options { token: Some("t0ken".into()), ..Options::default() };
        let (near, far) = ("[::ffff:127.0.0.1]:1", "10.0.0.7:1");
        let groups = "/api/v1/groups";
        assert_eq!(status(&options, groups, &[], near), 200);
        assert_eq!(status(&options, groups, &[], far), 401);
        assert_eq!(status(&options, groups, &[("authorization", "Bearer wrong")], far), 401);
        assert_eq!(status(&options, groups, &[("authorization", "Bearer t0ken")], far), 200);
        assert_eq!(status(&options, "/metrics", &[], far), 200);
        assert_eq!(status(&Options::default(), groups, &[], far), 200);
    }
}
