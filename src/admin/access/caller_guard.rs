//! Access to the admin port. A page of another site in a browser may not read groups or records
//! (DNS rebinding), and callers from other hosts need a token. With tokens, callers on this host
//! need one for each change.

use std::net::{IpAddr, SocketAddr};

use axum::http::{HeaderMap, StatusCode, header};

use super::operator_tokens::{RequestToken, SESSION, cookie};
use crate::admin::answer::Refusal;
use crate::admin::state::Options;
use crate::api::{decoded, percent_encoded};
use crate::engine::Operator;

/// Paths without access checks: probes and figures hold no record.
const OPEN: [&str; 10] = [
    "/",
    "/livez",
    "/readyz",
    "/startupz",
    "/metrics",
    "/version",
    "/drain",
    "/style.css",
    "/refresh.js",
    "/login",
];
/// Paths that change no more than the session of the caller.
const SESSION_PATHS: [&str; 2] = ["/login", "/logout"];

/// The header in which a caller without a token claims a name, percent-encoded.
const OPERATOR_HEADER: &str = "x-reprise-operator";
/// The cookie in which a browser claims a name, percent-encoded.
const OPERATOR_COOKIE: &str = "reprise_operator";
/// The cookie that forgets a claimed name.
pub(in crate::admin) const NO_NAME: &str = "reprise_operator=; HttpOnly; SameSite=Strict; Path=/; \
    Max-Age=0";
/// Characters of a claimed name.
const NAME_MAX: usize = 64;

/// The caller of a request that was let pass.
#[derive(Clone, Debug)]
pub(in crate::admin) struct Caller {
    /// The name of the token, the one that a proxy tells, or the one that the caller claims; empty
    /// without any.
    pub(in crate::admin) name: String,
    /// The caller has claimed the name: no token and no proxy tells it.
    pub(in crate::admin) is_claimed: bool,
    /// The address; empty when it is not known.
    pub(in crate::admin) peer: String,
}

impl Caller {
    pub(in crate::admin) fn new(
        options: &Options,
        headers: &HeaderMap,
        (login, peer): (Option<RequestToken<'_>>, Option<SocketAddr>),
    ) -> Self {
        let address = peer.map(|peer| peer.ip().to_canonical());
        let is_proxy = address.is_some_and(|peer| options.trusted_proxies.contains(&peer));
        let identity = options.identity_header.as_deref().filter(|_| is_proxy);
        let peer = address.map(|peer| peer.to_string()).unwrap_or_default();
        let told = identity.map(|header| headers.get_all(header).iter().collect::<Vec<_>>());
        if let Some(told) = told.filter(|told| !told.is_empty()) {
            // A caller may have added a name of its own, so several names count for nothing.
            let person = match told.as_slice() {
                [one] => one.to_str().ok().and_then(legal_name),
                _ => None,
            };
            return Self { name: person.unwrap_or_default(), is_claimed: false, peer };
        }
        let token = login.map(|login| login.token.name.clone());
        let claimed = || {
            let header = headers.get(OPERATOR_HEADER).and_then(|value| value.to_str().ok());
            legal_name(&decoded(header.or_else(|| cookie(headers, OPERATOR_COOKIE))?)?)
        };
        Self { is_claimed: token.is_none(), name: token.or_else(claimed).unwrap_or_default(), peer }
    }

    /// The caller under the name of a form; `None`: the form names nobody.
    pub(in crate::admin) fn named(self, name: &str) -> Option<Self> {
        Some(Self { name: legal_name(name)?, ..self })
    }

    /// The operator of an act; refused where nothing names the caller.
    pub(in crate::admin) fn operator(self, note: String) -> Result<Operator, Refusal> {
        let Self { name, is_claimed, peer } = self;
        if name.is_empty() {
            return Err(Refusal::bad(
                "say who acts, for the audit log: --as NAME, the variable USER, or the header \
                 X-Reprise-Operator; with admin.token_file the token has a name",
            ));
        }
        Ok(Operator { name, is_claimed, peer, note })
    }

    /// The cookie by which a browser claims the name from then on.
    pub(in crate::admin) fn cookie(&self) -> Option<String> {
        let (name, age_s) = (percent_encoded(&self.name), SESSION.as_secs());
        self.is_claimed.then(|| {
            format!("{OPERATOR_COOKIE}={name}; HttpOnly; SameSite=Strict; Path=/; Max-Age={age_s}")
        })
    }
}

/// A name of a person: some visible characters, not too many.
fn legal_name(name: &str) -> Option<String> {
    let name = name.trim();
    let is_legal = name.chars().count() <= NAME_MAX && !name.contains(char::is_control);
    (is_legal && !name.is_empty()).then(|| name.to_owned())
}

/// Decides whether a request may read.
pub(in crate::admin) fn judge(
    options: &Options,
    path: &str,
    headers: &HeaderMap,
    (peer, login): (Option<SocketAddr>, Option<RequestToken<'_>>),
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
    if login.is_some() || peer.is_none_or(is_near) && !options.loopback_needs_token {
        return Ok(());
    }
    Err(token_missing("this call"))
}

fn token_missing(what: &str) -> Refusal {
    let says = format!(
        "{what} needs a token of admin.token_file: send it as Authorization: Bearer, name its \
         file with --token-file, or log in at /login"
    );
    Refusal::new(StatusCode::UNAUTHORIZED, says)
}

/// Decides whether a request may change something, once [`judge`] has let it pass.
pub(in crate::admin) fn judge_change(
    options: &Options,
    path: &str,
    headers: &HeaderMap,
    (peer, login): (Option<SocketAddr>, Option<RequestToken<'_>>),
) -> Result<(), Refusal> {
    let forbidden = |says: String| Err(Refusal::new(StatusCode::FORBIDDEN, says));
    // A browser names the site that a request comes from; other clients send neither header.
    let site = headers.get("sec-fetch-site");
    let by_cookie = login.is_some_and(|login| login.by_cookie);
    if site.is_some_and(|site| site != "same-origin" && site != "none")
        || site.is_none() && (by_cookie || headers.contains_key(header::ORIGIN))
    {
        return forbidden("a page from elsewhere changes nothing".to_owned());
    }
    match login {
        _ if SESSION_PATHS.contains(&path) => Ok(()),
        Some(login) if login.token.may_change => Ok(()),
        Some(login) => forbidden(format!("the token of {} may only read", login.token.name)),
        None if peer.is_some_and(is_near) && options.tokens.now().is_empty() => Ok(()),
        None => Err(token_missing("a change")),
    }
}

fn is_near(peer: SocketAddr) -> bool {
    peer.ip().to_canonical().is_loopback()
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{OperatorToken, Secret};

    const PROXY: &str = "10.9.9.9:1";
    const NEAR: &str = "[::ffff:127.0.0.1]:1";
    const FAR: &str = "10.0.0.7:1";

    fn token(may_change: bool) -> OperatorToken {
        OperatorToken { name: "kim".into(), may_change, secret: Secret::new("t0ken") }
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &str)| {
            (header::HeaderName::from_static(name), value.parse().unwrap())
        };
        pairs.iter().map(pair).collect()
    }

    fn status(options: &Options, path: &str, pairs: &[(&'static str, &str)], peer: &str) -> u16 {
        let judged = judge(options, path, &headers(pairs), (Some(peer.parse().unwrap()), None));
        judged.err().map_or(200, |refusal| refusal.status.as_u16())
    }

    #[test]
    fn a_foreign_host_name_reads_no_records() {
        let options = Options { hosts: vec!["sidecar".into()], ..Options::default() };
        for host in ["localhost:9664", "127.0.0.1:9664", "[::1]:9664", "sidecar", "10.1.2.3"] {
            assert_eq!(status(&options, "/api/v1/groups", &[("host", host)], NEAR), 200, "{host}");
        }
        for host in ["evil.example", "evil.example:9664", "localhost.evil.example"] {
            assert_eq!(status(&options, "/api/v1/groups", &[("host", host)], NEAR), 403, "{host}");
            assert_eq!(status(&options, "/readyz", &[("host", host)], NEAR), 200, "{host}");
        }
    }

    #[test]
    fn callers_from_other_hosts_need_a_token() {
        let (options, groups) = (Options::default(), "/api/v1/groups");
        assert_eq!(status(&options, groups, &[], NEAR), 200);
        assert_eq!(status(&options, groups, &[], FAR), 401);
        for path in ["/metrics", "/livez", "/login"] {
            assert_eq!(status(&options, path, &[], FAR), 200, "{path}");
        }
        let reader = token(false);
        let login = RequestToken { token: &reader, by_cookie: false };
        let far = Some(FAR.parse().unwrap());
        assert!(judge(&options, groups, &HeaderMap::new(), (far, Some(login))).is_ok());
    }

    /// The status of a change by a caller.
    fn change(
        pairs: &[(&'static str, &str)],
        peer: Option<&str>,
        login: Option<(bool, bool)>,
    ) -> u16 {
        let token = token(login.is_some_and(|(may_change, _)| may_change));
        let login = login.map(|(_, by_cookie)| RequestToken { token: &token, by_cookie });
        let by = (peer.map(|peer| peer.parse().unwrap()), login);
        let judged = judge_change(&Options::default(), "/api/v1/nack", &headers(pairs), by);
        judged.err().map_or(200, |refusal| refusal.status.as_u16())
    }

    #[test]
    fn changes_need_this_host_or_the_token_of_an_operator() {
        assert_eq!(change(&[], Some(NEAR), None), 200);
        assert_eq!(change(&[], Some(FAR), None), 401);
        assert_eq!(change(&[], None, None), 401, "nobody knows who asks");
        assert_eq!(change(&[], Some(FAR), Some((true, false))), 200);
        for peer in [NEAR, FAR] {
            assert_eq!(change(&[], Some(peer), Some((false, false))), 403, "it may only read");
        }
    }

    #[test]
    fn a_page_of_elsewhere_changes_nothing() {
        let (operator, session) = (Some((true, false)), Some((true, true)));
        for (site, status) in [("same-origin", 200), ("none", 200), ("cross-site", 403)] {
            let site = [("sec-fetch-site", site)];
            for login in [None, operator, session] {
                assert_eq!(change(&site, Some(NEAR), login), status, "{site:?}");
            }
        }
        assert_eq!(change(&[("origin", "http://evil.example")], Some(NEAR), operator), 403);
        assert_eq!(change(&[], Some(FAR), session), 403, "a cookie is sent by itself");
        let far = (Some(FAR.parse().unwrap()), None);
        let options = Options::default();
        assert!(judge_change(&options, "/login", &HeaderMap::new(), far).is_ok());
        let foreign = headers(&[("sec-fetch-site", "cross-site")]);
        assert!(judge_change(&options, "/login", &foreign, far).is_err());
    }

    #[test]
    fn a_caller_is_named_by_proxy_token_or_itself() {
        let token = token(true);
        let options = Options {
            identity_header: Some("x-forwarded-user".to_owned()),
            trusted_proxies: vec![PROXY.parse::<SocketAddr>().unwrap().ip()],
            ..Options::default()
        };
        let login = RequestToken { token: &token, by_cookie: true };
        let named = |sent: &[(&'static str, &str)], peer: &str, login| {
            let peer = Some(peer.parse().unwrap());
            let caller = Caller::new(&options, &headers(sent), (login, peer));
            (caller.name, caller.is_claimed)
        };
        let person = ("x-forwarded-user", "ada");
        let claim = ("x-reprise-operator", "Zo%C3%AB");
        let cookie = ("cookie", "a=b; reprise_operator=lee");
        for (sent, peer, login, name, is_claimed) in [
            (&[person, claim][..], PROXY, Some(login), "ada", false),
            (&[("x-forwarded-user", ""), claim], PROXY, Some(login), "", false),
            (&[person, claim], NEAR, Some(login), "kim", false),
            (&[person, claim, cookie], NEAR, None, "Zoë", true),
            (&[cookie], NEAR, None, "lee", true),
            (&[], NEAR, None, "", true),
            (&[("x-reprise-operator", "%0a")], NEAR, None, "", true),
            (&[("x-reprise-operator", "%ff")], NEAR, None, "", true),
        ] {
            assert_eq!(named(sent, peer, login), (name.to_owned(), is_claimed), "{sent:?} {peer}");
        }
        let mut several = headers(&[person]);
        several.append("x-forwarded-user", "mallory".parse().unwrap());
        let caller = Caller::new(&options, &several, (None, Some(PROXY.parse().unwrap())));
        assert_eq!(caller.name, "", "one of two names is the caller's own");
        let nobody = Caller::new(&options, &HeaderMap::new(), (None, None));
        assert!(
            nobody.clone().named(" ").is_none() && nobody.clone().operator("x".into()).is_err()
        );
        let caller = nobody.named("Zoë").unwrap();
        assert!(caller.cookie().unwrap().starts_with("reprise_operator=Zo%C3%AB; HttpOnly;"));
        assert!(caller.operator(String::new()).unwrap().is_claimed);
    }
}
