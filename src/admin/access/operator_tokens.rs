//! The tokens of operators, and the sessions of browsers that have logged in with one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use axum::http::{HeaderMap, StatusCode, header};
use uuid::Uuid;

use crate::admin::answer::Refusal;
use crate::clock::Clock;
use crate::model::{OperatorToken, Secret};

/// The cookie of a session.
const COOKIE: &str = "reprise_session";
/// Age at which a session ends.
pub(super) const SESSION: Duration = Duration::from_hours(12);
/// Open sessions; the oldest ends for a new one.
const SESSIONS_MAX: usize = 1_000;

/// The tokens in force. The file of them may be read again while the admin port serves.
#[derive(Clone, Debug, Default)]
pub struct OperatorTokens(Arc<RwLock<Arc<[OperatorToken]>>>);

impl OperatorTokens {
    pub fn new(tokens: Vec<OperatorToken>) -> Self {
        Self(Arc::new(RwLock::new(tokens.into())))
    }

    /// Puts other tokens in force. A session whose token is gone ends.
    pub fn replace(&self, tokens: Vec<OperatorToken>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens.into();
    }

    pub(in crate::admin) fn now(&self) -> Arc<[OperatorToken]> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The token of a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::admin) struct RequestToken<'a> {
    pub(in crate::admin) token: &'a OperatorToken,
    /// Whether a cookie sent it: a browser adds it to requests from any page.
    pub(super) by_cookie: bool,
}

/// The sessions of browsers.
#[derive(Debug)]
pub(in crate::admin) struct Sessions {
    clock: Clock,
    /// The secret of the token and the start of the session, by its id.
    open: Mutex<BTreeMap<String, (Secret, Duration)>>,
}

impl Sessions {
    pub(in crate::admin) fn new() -> Self {
        Self { clock: Clock::start(), open: Mutex::default() }
    }

    /// Opens a session and returns its cookie; `None`: no token has this secret.
    pub(in crate::admin) fn open(&self, tokens: &[OperatorToken], secret: &str) -> Option<String> {
        let secret = find(tokens, secret)?.secret.clone();
        let (id, now) = (Uuid::new_v4().simple().to_string(), self.clock.elapsed());
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.retain(|_, (_, since)| now.saturating_sub(*since) < SESSION);
        if open.len() >= SESSIONS_MAX {
            let oldest = open.iter().min_by_key(|(_, (_, since))| *since).map(|(id, _)| id.clone());
            oldest.map(|id| open.remove(&id));
        }
        open.insert(id.clone(), (secret, now));
        Some(session_cookie(&id, SESSION.as_secs()))
    }

    /// Ends the session of a request and returns the cookie that removes it.
    pub(in crate::admin) fn close(&self, headers: &HeaderMap) -> String {
        if let Some(id) = session_id(headers) {
            self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(id);
        }
        session_cookie("", 0)
    }

    /// The token of a request: of its `Authorization`, or of its session. An `Authorization`
    /// without a valid token is refused; a session that has ended counts as no token.
    pub(in crate::admin) fn login<'a>(
        &self,
        tokens: &'a [OperatorToken],
        headers: &HeaderMap,
    ) -> Result<Option<RequestToken<'a>>, Refusal> {
        let Some(given) = headers.get(header::AUTHORIZATION) else {
            return Ok(self.session(tokens, headers));
        };
        let given = given.to_str().ok().and_then(|value| value.split_once(' '));
        let secret = given.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        let token = secret.and_then(|(_, secret)| find(tokens, secret.trim()));
        let says = "the Authorization is not Bearer with a token of admin.token_file";
        let wrong = || Refusal::new(StatusCode::UNAUTHORIZED, says);
        token.map(|token| Some(RequestToken { token, by_cookie: false })).ok_or_else(wrong)
    }

    fn session<'a>(
        &self,
        tokens: &'a [OperatorToken],
        headers: &HeaderMap,
    ) -> Option<RequestToken<'a>> {
        let open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (secret, since) = open.get(session_id(headers)?)?;
        let is_open = self.clock.elapsed().saturating_sub(*since) < SESSION;
        let token = find(tokens, secret.reveal()).filter(|_| is_open)?;
        Some(RequestToken { token, by_cookie: true })
    }
}

fn session_cookie(id: &str, max_age_s: u64) -> String {
    format!("{COOKIE}={id}; HttpOnly; SameSite=Strict; Path=/; Max-Age={max_age_s}")
}

fn session_id(headers: &HeaderMap) -> Option<&str> {
    cookie(headers, COOKIE)
}

/// The value of a cookie.
pub(super) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        cookies.flat_map(|value| value.split(';')).filter_map(|one| one.trim().split_once('='));
    pairs.find_map(|(known, value)| (known == name).then_some(value))
}

/// The token with a secret. The comparison's time depends on lengths only.
fn find<'a>(tokens: &'a [OperatorToken], secret: &str) -> Option<&'a OperatorToken> {
    let is = |token: &OperatorToken| same(token.secret.reveal().as_bytes(), secret.as_bytes());
    let found: Vec<bool> = tokens.iter().map(is).collect();
    tokens.iter().zip(found).find_map(|(token, is)| is.then_some(token))
}

fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differs, (x, y)| differs | (x ^ y)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Vec<OperatorToken> {
        let token = |name: &str, may_change, secret: &str| OperatorToken {
            name: name.into(),
            may_change,
            secret: Secret::new(secret),
        };
        vec![token("kim", true, "k-secret"), token("wall", false, "w-secret")]
    }

    fn headers(name: header::HeaderName, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(name, value.parse().unwrap())])
    }

    #[test]
    fn a_session_has_the_token_it_was_opened_with() {
        let (sessions, tokens) = (Sessions::new(), tokens());
        assert_eq!(sessions.open(&tokens, "wrong"), None);
        let cookie = sessions.open(&tokens, "w-secret").unwrap();
        assert!(!cookie.contains("w-secret") && cookie.contains("HttpOnly; SameSite=Strict"));
        let pair = cookie.split(';').next().unwrap();
        let sent = headers(header::COOKIE, &format!("other=1; {pair}"));
        let login = sessions.login(&tokens, &sent).unwrap().unwrap();
        assert_eq!((login.token.name.as_str(), login.by_cookie), ("wall", true));
        let mut renewed = tokens.clone();
        renewed[1].secret = Secret::new("another");
        assert!(sessions.login(&renewed, &sent).unwrap().is_none(), "the token is another by now");
        assert!(sessions.close(&sent).contains("Max-Age=0"));
        assert!(sessions.login(&tokens, &sent).unwrap().is_none(), "it has ended");
    }

    #[test]
    fn a_bearer_token_counts_before_a_session() {
        let (sessions, tokens) = (Sessions::new(), tokens());
        let login = |value: &str| {
            let sent = headers(header::AUTHORIZATION, value);
            let login = sessions.login(&tokens, &sent).ok()??;
            assert!(!login.by_cookie);
            Some(login.token.name.clone())
        };
        assert_eq!(login("Bearer k-secret").as_deref(), Some("kim"));
        assert_eq!(login("bearer  w-secret ").as_deref(), Some("wall"));
        for bad in ["Bearer ", "Bearer k-secre", "k-secret", "Basic k-secret"] {
            let sent = headers(header::AUTHORIZATION, bad);
            assert!(sessions.login(&tokens, &sent).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_number_of_sessions_is_bounded() {
        let (sessions, tokens) = (Sessions::new(), tokens());
        for _ in 0..SESSIONS_MAX + 3 {
            sessions.open(&tokens, "k-secret").unwrap();
        }
        assert_eq!(sessions.open.lock().unwrap().len(), SESSIONS_MAX);
        assert!(!format!("{tokens:?}").contains("secret\""), "no secret in a log line");
    }
}
