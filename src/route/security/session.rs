//! The SASL login of one connection, on a listener that requires it.
//!
//! ```text
//! unknown ─ SaslHandshake ▶ saying ─ SaslAuthenticate ▶ known ─┐ KIP-368: again, as the same user
//!    ▲                        └─ refused: closed               └──▶ saying
//! ```
//! In front of a cluster the broker checks the login. The sidecar only tracks where the bare tokens
//! of `SaslHandshake` 0 end.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Semaphore, watch};
use uuid::Uuid;

use crate::sasl::{Mechanism, ServerExchange, UserName, Users};
use crate::wire::Api;

/// Bound of parallel password checks of a listener: a check costs milliseconds of a core, and the
/// client is not yet authenticated.
const COSTLY_MAX: usize = 1;

/// The login that a listener requires.
#[derive(Debug)]
pub struct LoginPolicy {
    users: watch::Receiver<Arc<Users>>,
    mechanisms: Vec<Mechanism>,
    session_max: Option<Duration>,
    pub(super) costly: Semaphore,
}

impl LoginPolicy {
    /// `users` holds the latest users file. `session_max`: the time after which the client must log
    /// in again; `None`: never.
    pub fn new(
        users: watch::Receiver<Arc<Users>>,
        mechanisms: Vec<Mechanism>,
        session_max: Option<Duration>,
    ) -> Self {
        Self { users, mechanisms, session_max, costly: Semaphore::new(COSTLY_MAX) }
    }

    /// The users as of now.
    pub(super) fn users(&self) -> Arc<Users> {
        Arc::clone(&self.users.borrow())
    }

    /// The offered mechanisms.
    pub(super) fn mechanisms(&self) -> impl Iterator<Item = &'static str> {
        self.mechanisms.iter().map(|mechanism| mechanism.as_str())
    }
}

/// The reason why a request is refused and its connection closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(in crate::route) enum AdmissionRefusal {
    #[error(
        "this listener wants SASL first: set security.protocol=SASL_PLAINTEXT or SASL_SSL in the \
         client"
    )]
    Unknown,
    #[error("its SASL session has ended and was not renewed (listen[].sasl.session_max)")]
    Ended,
}

/// The reason why a mechanism is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::route) enum MechanismRefusal {
    /// The listener does not offer the mechanism.
    Unsupported,
    /// Another login is in progress.
    UnderWay,
}

/// The login state of one connection.
#[derive(Debug, Default)]
pub struct Session {
    login: Option<Arc<LoginPolicy>>,
    state: Mutex<LoginState>,
}

#[derive(Debug, Default)]
enum LoginState {
    #[default]
    Unknown,
    Saying(Box<OngoingLogin>),
    Known(LoggedInUser),
    Passing(RelayedLogin),
}

/// A login at the cluster's broker with bare tokens.
#[derive(Debug)]
struct RelayedLogin {
    mechanism: Mechanism,
    /// Number of tokens that the broker has answered.
    answered: usize,
}

/// A login in progress.
#[derive(Debug)]
pub(in crate::route) struct OngoingLogin {
    pub(super) mechanism: Mechanism,
    pub(super) exchange: ServerExchange,
    /// Whether tokens come without a request around them (`SaslHandshake` 0).
    pub(in crate::route) bare: bool,
    /// The former login, if this one renews it.
    before: Option<LoggedInUser>,
}

#[derive(Clone, Debug)]
struct LoggedInUser {
    user: UserName,
    mechanism: Mechanism,
    /// The time at which the client must log in again.
    until: Option<Duration>,
}

impl Session {
    /// `login`: the login that the listener requires, if any.
    pub fn asking(login: Option<Arc<LoginPolicy>>) -> Self {
        Self { login, state: Mutex::default() }
    }

    /// The login that the listener requires.
    pub(in crate::route) fn login(&self) -> Option<&Arc<LoginPolicy>> {
        self.login.as_ref()
    }

    /// Whether no login is required, or it is complete.
    pub fn is_known(&self) -> bool {
        self.login.is_none() || matches!(*self.state(), LoginState::Known(_))
    }

    /// Whether the next bytes are a token without a request around it.
    pub fn awaits_bare_token(&self) -> bool {
        match &*self.state() {
            LoginState::Saying(saying) => saying.bare,
            LoginState::Passing(_) => true,
            LoginState::Unknown | LoginState::Known(_) => false,
        }
    }

    /// The broker accepted the mechanism: bare tokens are relayed.
    pub(super) fn passes(&self, mechanism: Mechanism) {
        *self.state() = LoginState::Passing(RelayedLogin { mechanism, answered: 0 });
    }

    /// Records the broker's answer to a relayed token.
    pub(super) fn passed(&self, answer: &[u8]) {
        let mut state = self.state();
        if let LoginState::Passing(passing) = &mut *state {
            passing.answered = passing.answered.saturating_add(1);
            if passing.mechanism.is_over(passing.answered, answer) {
                *state = LoginState::Unknown;
            }
        }
    }

    /// Whether a request of this API is allowed at that time.
    pub(in crate::route) fn admits(&self, api: Api, now: Duration) -> Result<(), AdmissionRefusal> {
        let says = matches!(api, Api::SaslHandshake | Api::SaslAuthenticate);
        if self.login.is_none() || says {
            return Ok(());
        }
        let mut state = self.state();
        match &*state {
            LoginState::Known(known) if known.until.is_some_and(|until| now >= until) => {
                *state = LoginState::Unknown;
                Err(AdmissionRefusal::Ended)
            }
            LoginState::Known(_) => Ok(()),
            _ if api == Api::ApiVersions => Ok(()),
            LoginState::Unknown | LoginState::Saying(_) | LoginState::Passing(_) => {
                Err(AdmissionRefusal::Unknown)
            }
        }
    }

    /// Begins a login or a renewal with the client's mechanism.
    pub(in crate::route) fn begin(
        &self,
        mechanism: &str,
        bare: bool,
    ) -> Result<(), MechanismRefusal> {
        let mut state = self.state();
        let before = match &*state {
            LoginState::Unknown => None,
            LoginState::Known(known) => Some(known.clone()),
            LoginState::Saying(_) | LoginState::Passing(_) => {
                return Err(MechanismRefusal::UnderWay);
            }
        };
        let chosen = Mechanism::named(mechanism).filter(|chosen| self.offers(*chosen));
        // A renewal must use the same mechanism (KIP-368).
        let chosen = chosen.filter(|chosen| before.as_ref().is_none_or(|b| b.mechanism == *chosen));
        let mechanism = chosen.ok_or(MechanismRefusal::Unsupported)?;
        let nonce = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let exchange =
            ServerExchange::new(mechanism, nonce).ok_or(MechanismRefusal::Unsupported)?;
        *state = LoginState::Saying(Box::new(OngoingLogin { mechanism, exchange, bare, before }));
        Ok(())
    }

    fn offers(&self, mechanism: Mechanism) -> bool {
        self.login.as_ref().is_some_and(|login| login.mechanisms.contains(&mechanism))
    }

    /// Takes the login in progress. Without a later [`Session::goes_on`] or [`Session::ends`] the
    /// connection stays unknown.
    pub(in crate::route) fn take(&self) -> Option<Box<OngoingLogin>> {
        let mut state = self.state();
        match std::mem::take(&mut *state) {
            LoginState::Saying(saying) => Some(saying),
            other => {
                *state = other;
                None
            }
        }
    }

    /// Puts the login back: another token is expected.
    pub(in crate::route) fn goes_on(&self, saying: Box<OngoingLogin>) {
        *self.state() = LoginState::Saying(saying);
    }

    /// Completes the login and returns the lifetime of the session (`None`: unlimited). False: a
    /// renewal names another user.
    pub(in crate::route) fn ends(
        &self,
        saying: &OngoingLogin,
        user: UserName,
        now: Duration,
    ) -> (bool, Option<Duration>) {
        if saying.before.as_ref().is_some_and(|before| before.user != user) {
            return (false, None);
        }
        let session_max = self.login.as_ref().and_then(|login| login.session_max);
        let until = session_max.map(|max| now.saturating_add(max));
        *self.state() =
            LoginState::Known(LoggedInUser { user, mechanism: saying.mechanism, until });
        (true, session_max)
    }

    fn state(&self) -> MutexGuard<'_, LoginState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_hours(1);

    fn session(max: Option<Duration>) -> Session {
        let users = Arc::new(Users::read("", [0; 32]).unwrap());
        let offered = vec![Mechanism::ScramSha512, Mechanism::Plain];
        Session::asking(Some(Arc::new(LoginPolicy::new(watch::channel(users).1, offered, max))))
    }

    fn name(text: &str) -> UserName {
        UserName::new(text).unwrap()
    }

    #[test]
    fn only_login_requests_are_admitted_before_a_login() {
        let session = session(None);
        assert_eq!(session.admits(Api::Metadata, HOUR), Err(AdmissionRefusal::Unknown));
        assert_eq!(session.admits(Api::ApiVersions, HOUR), Ok(()));
        assert_eq!(session.begin("GSSAPI", false), Err(MechanismRefusal::Unsupported));
        assert_eq!(session.begin("SCRAM-SHA-256", false), Err(MechanismRefusal::Unsupported));
        assert_eq!(session.begin("PLAIN", true), Ok(()));
        assert_eq!(session.begin("PLAIN", true), Err(MechanismRefusal::UnderWay));
        assert!(session.awaits_bare_token() && !session.is_known());
        assert_eq!(session.admits(Api::Produce, HOUR), Err(AdmissionRefusal::Unknown));
        let saying = session.take().unwrap();
        assert_eq!(session.ends(&saying, name("alice"), HOUR), (true, None));
        assert!(session.is_known() && !session.awaits_bare_token());
        assert_eq!(session.admits(Api::Produce, HOUR * 10_000), Ok(()));
    }

    #[test]
    fn a_session_ends_unless_its_user_reauthenticates() {
        let session = session(Some(HOUR));
        session.begin("PLAIN", false).unwrap();
        let saying = session.take().unwrap();
        assert_eq!(session.ends(&saying, name("alice"), HOUR), (true, Some(HOUR)));
        let just_before = Duration::from_mins(119);
        assert_eq!(session.admits(Api::Fetch, just_before), Ok(()));
        assert_eq!(session.admits(Api::SaslHandshake, HOUR * 2), Ok(()));
        assert_eq!(session.begin("SCRAM-SHA-512", false), Err(MechanismRefusal::Unsupported));
        session.begin("PLAIN", false).unwrap();
        let saying = session.take().unwrap();
        assert_eq!(session.ends(&saying, name("bob"), HOUR * 2), (false, None));
        assert!(!session.is_known());
        session.goes_on(saying);
        let saying = session.take().unwrap();
        assert!(session.ends(&saying, name("alice"), HOUR * 2).0);
        assert_eq!(session.admits(Api::Fetch, Duration::from_mins(179)), Ok(()));
        assert_eq!(session.admits(Api::Fetch, HOUR * 3), Err(AdmissionRefusal::Ended));
        assert!(!session.is_known());
    }

    #[test]
    fn everything_is_admitted_where_no_login_is_required() {
        let session = Session::default();
        assert!(session.is_known());
        assert_eq!(session.admits(Api::Produce, HOUR), Ok(()));
        assert_eq!(session.begin("PLAIN", false), Err(MechanismRefusal::Unsupported));
    }
}
