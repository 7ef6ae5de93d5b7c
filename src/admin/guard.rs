//! Who may read groups and records: a page from elsewhere in a browser may not (DNS rebinding),
//! and callers from other hosts need the token. Who may change anything: callers on this host, and
//! those with the token.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, header};

use super::Options;
use super::answer::Refusal;

/// Paths anyone may ask: probes and figures hold no record.
const OPEN: [&str; 8] =
    ["/", "/livez", "/readyz", "/startupz", "/metrics", "/version", "/drain", "/style.css"];

/// The name of a caller with the token of `admin.token_file`.
const TOKEN_NAME: &str = "admin";

/// The caller of a request that was let pass.
#[derive(Clone, Debug)]
pub(super) struct Caller {
    /// The name of the token that the caller sent; empty: none.
    pub(super) name: String,
    /// The address; empty: not known.
    pub(super) peer: String,
}

impl Caller {
    pub(super) fn of(options: &Options, headers: &HeaderMap, peer: Option<SocketAddr>) -> Self {
        let name = if has_token(options, headers) { TOKEN_NAME } else { "" };
        let peer = peer.map(|peer| peer.ip().to_canonical().to_string());
        Self { name: name.to_owned(), peer: peer.unwrap_or_default() }
    }
}

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
            format!(
                "the host {host:?} is not served here; use the address or localhost, or list the \
                 name in admin.hosts"
            ),
        ));
    }
    if peer.is_none_or(is_near) || has_token(options, headers) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::UNAUTHORIZED,
        "callers from other hosts must send Authorization: Bearer and the token of \
         admin.token_file",
    ))
}

/// Judges a request that may change something, once [`judge`] let it pass.
pub(super) fn judge_change(
    options: &Options,
    changes: bool,
    headers: &HeaderMap,
    peer: Option<SocketAddr>,
) -> Result<(), Refusal> {
    if !changes {
        return Ok(());
    }
    // A browser says which page a request comes from; what is no browser says neither.
    let site = headers.get("sec-fetch-site");
    if site.is_some_and(|site| site != "same-origin" && site != "none")
        || site.is_none() && headers.contains_key(header::ORIGIN)
    {
        return Err(Refusal::new(StatusCode::FORBIDDEN, "a page from elsewhere changes nothing"));
    }
    if peer.is_some_and(is_near) || has_token(options, headers) {
        return Ok(());
    }
    Err(Refusal::new(
        StatusCode::FORBIDDEN,
        "changes are taken from this host, and from callers with Authorization: Bearer and the \
         token of admin.token_file",
    ))
}

fn is_near(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
}

fn has_token(options: &Options, headers: &HeaderMap) -> bool {
    let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = given.and_then(|value| value.strip_prefix("Bearer "));
    let (Some(given), Some(token)) = (given, options.token.as_deref()) else { return false };
    same(given.trim().as_bytes(), token.as_bytes())
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
    fn changes_are_taken_from_this_host_or_with_the_token_and_from_no_page_of_elsewhere() {
        let secret = Options { token: Some("t0ken".into()), ..Options::default() };
        let (near, far) = ("127.0.0.1:1", "10.0.0.7:1");
        let may = |options: &Options, name: Option<(&'static str, &str)>, peer: &str| {
            let pair = name.map(|(name, value)| {
                (header::HeaderName::from_static(name), value.parse().unwrap())
            });
            let headers = HeaderMap::from_iter(pair);
            judge_change(options, true, &headers, Some(peer.parse().unwrap())).is_ok()
        };
        assert!(may(&Options::default(), None, near) && !may(&Options::default(), None, far));
        let bearer = Some(("authorization", "Bearer t0ken"));
        assert!(may(&secret, bearer, far) && !may(&Options::default(), bearer, far));
        assert!(!may(&secret, None, far) && may(&secret, None, near));
        for (site, taken) in [("same-origin", true), ("none", true), ("cross-site", false)] {
            assert_eq!(may(&secret, Some(("sec-fetch-site", site)), near), taken, "{site}");
        }
        assert!(!may(&secret, Some(("origin", "http://evil.example")), near));
        let (options, nothing) = (Options::default(), HeaderMap::new());
        assert!(judge_change(&options, true, &nothing, None).is_err(), "nobody knows who asks");
        assert!(judge_change(&options, false, &nothing, None).is_ok());
    }

    #[test]
    fn a_caller_has_the_name_of_the_token_it_sent() {
        let options = Options { token: Some("t0ken".into()), ..Options::default() };
        let caller = |value: Option<&'static str>| {
            let value = value.map(|value| (header::AUTHORIZATION, value.parse().unwrap()));
            let near = Some("[::ffff:127.0.0.1]:1".parse().unwrap());
            Caller::of(&options, &HeaderMap::from_iter(value), near)
        };
        assert_eq!(caller(Some("Bearer t0ken")).name, "admin");
        for other in [None, Some("Bearer wrong")] {
            assert_eq!(caller(other).name, "", "a caller on this host needs none");
        }
        assert_eq!(caller(None).peer, "127.0.0.1");
    }

    #[test]
    fn callers_from_other_hosts_need_the_token() {
        let options = Options { token: Some("t0ken".into()), ..Options::default() };
        let (near, far) = ("[::ffff:127.0.0.1]:1", "10.0.0.7:1");
        let groups = "/api/v1/groups";
        assert_eq!(status(&options, groups, &[], near), 200);
        assert_eq!(status(&options, groups, &[], far), 401);
        assert_eq!(status(&options, groups, &[("authorization", "Bearer wrong")], far), 401);
        assert_eq!(status(&options, groups, &[("authorization", "Bearer t0ken")], far), 200);
        assert_eq!(status(&options, "/metrics", &[], far), 200);
        assert_eq!(status(&Options::default(), groups, &[], far), 401);
        assert_eq!(status(&Options::default(), "/livez", &[], far), 200);
    }
}
