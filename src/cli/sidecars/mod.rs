//! The sidecars that a command asks: the addresses in `--admin`, and names with several addresses.

pub(super) mod http;
pub(super) mod pages;

use std::collections::BTreeSet;
use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::OnceLock;

use clap::{ArgAction, Args};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::exit::{CommandFailure, Exit};
use super::sidecars::http::AdminEndpoint;
use crate::api::Overview;
use crate::config::ADMIN_VARIABLE;

/// The port of the admin port by default.
const PORT: u16 = 9664;
/// Sidecars that are asked at a time.
const AT_ONCE_MAX: usize = 32;

/// The sidecars that are asked.
#[derive(Clone, Debug, Args)]
pub(super) struct AdminAt {
    /// The admin address of the sidecar: `REPRISE_ADMIN` or 127.0.0.1:9664 if not given. Lists take
    /// several, and names that resolve to several. The port is 9664 if not given.
    #[arg(long, value_name = "HOST:PORT,…", value_delimiter = ',', action = ArgAction::Append)]
    admin: Vec<String>,
    /// A file with a token of `admin.token_file`, to change something or ask another host.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Your name in the audit log, where there are no tokens; the variable USER if not given.
    #[arg(long = "as", value_name = "NAME")]
    operator: Option<String>,
    #[arg(skip)]
    single: OnceLock<AdminEndpoint>,
}

/// Sidecars that answered, and addresses that did not.
#[derive(Debug, Default)]
pub(super) struct Fleet {
    pub(super) sidecars: Vec<AdminEndpoint>,
    pub(super) silent: Vec<SilentAddress>,
}

/// An address without an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SilentAddress {
    name: String,
    says: String,
}

/// An address with the answer to the question for its id.
struct ProbeResult {
    /// The position of its text in `--admin`.
    text: usize,
    sidecar: AdminEndpoint,
    /// The id of the sidecar.
    identity: Result<String, CommandFailure>,
}

impl AdminAt {
    /// The texts of the addresses.
    fn texts(&self) -> Vec<String> {
        if !self.admin.is_empty() {
            return self.admin.clone();
        }
        let known = std::env::var(ADMIN_VARIABLE).ok().filter(|text| !text.is_empty());
        let known = known.unwrap_or_else(|| format!("127.0.0.1:{PORT}"));
        known.split(',').map(|text| text.trim().to_owned()).collect()
    }

    /// GETs from the one sidecar that a command acts on.
    pub(super) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CommandFailure> {
        self.single()?.get(path)
    }

    /// POSTs to the one sidecar that a command acts on.
    pub(super) fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, CommandFailure> {
        self.single()?.post(path, body)
    }

    /// The one sidecar that a command acts on; several are refused.
    pub(super) fn single(&self) -> Result<&AdminEndpoint, CommandFailure> {
        if let Some(known) = self.single.get() {
            return Ok(known);
        }
        let several = |names: &[String]| {
            let (count, names) = (names.len(), names.join(", "));
            let says = format!(
                "this command takes one sidecar, and --admin leads to {count}: {names}; name one \
                 of them"
            );
            CommandFailure::new(Exit::Usage, says)
        };
        let texts: BTreeSet<String> = self.texts().into_iter().collect();
        if texts.len() > 1 {
            return Err(several(&self.texts()));
        }
        let Fleet { mut sidecars, silent } = self.fleet()?;
        match (sidecars.pop(), sidecars.is_empty() && silent.is_empty()) {
            (Some(one), true) => Ok(self.single.get_or_init(|| one)),
            (one, _) => {
                let names = sidecars.into_iter().chain(one).map(|sidecar| sidecar.name);
                let silent = silent.into_iter().map(|silent| silent.name);
                Err(several(&names.chain(silent).collect::<Vec<_>>()))
            }
        }
    }

    /// Finds all sidecars behind `--admin`. A single address is not asked for its id.
    pub(super) fn fleet(&self) -> Result<Fleet, CommandFailure> {
        let (token, texts) = (self.token()?, self.texts());
        let operator = self.operator.clone().or_else(|| std::env::var("USER").ok());
        let mut silent = Vec::new();
        let mut found: Vec<(usize, AdminEndpoint)> = Vec::new();
        for (text, host) in texts.iter().enumerate() {
            let host = host.strip_prefix("http://").unwrap_or(host).trim_end_matches('/');
            let addresses = match resolve(host) {
                Ok(addresses) => addresses,
                Err(failure) if texts.len() == 1 => return Err(failure),
                Err(failure) => {
                    silent.push(SilentAddress { name: host.to_owned(), says: failure.says });
                    continue;
                }
            };
            let is_alone = addresses.len() == 1;
            found.extend(addresses.into_iter().map(|address| {
                let name = if is_alone { host.to_owned() } else { address.to_string() };
                let (host, token, operator) = (host.to_owned(), token.clone(), operator.clone());
                (text, AdminEndpoint { name, host, addresses: vec![address], token, operator })
            }));
        }
        if let ([_], true) = (found.as_slice(), silent.is_empty()) {
            let sidecars = found.into_iter().map(|(_, sidecar)| sidecar).collect();
            return Ok(Fleet { sidecars, silent });
        }
        let probes = each(&found, |(text, sidecar)| ProbeResult {
            text: *text,
            identity: identity(sidecar),
            sidecar: sidecar.clone(),
        });
        if probes.iter().all(|probe| probe.identity.is_err()) && texts.len() == 1 {
            return Ok(unanswered(found));
        }
        Fleet::of(probes, silent)
    }

    fn token(&self) -> Result<Option<String>, CommandFailure> {
        let Some(file) = &self.token_file else { return Ok(None) };
        match std::fs::read_to_string(file) {
            Ok(token) => Ok(Some(token.trim().to_owned())),
            Err(error) => {
                let says = format!("the token file {} cannot be read: {error}", file.display());
                Err(CommandFailure::new(Exit::Failed, says))
            }
        }
    }
}

impl Fleet {
    /// Whether items need the name of their sidecar.
    pub(super) fn is_several(&self) -> bool {
        self.sidecars.len() + self.silent.len() > 1
    }

    /// Groups the answers: addresses with the same id are one sidecar. An address family of a name
    /// is ignored if nothing listens there, such as `::1` for `localhost`.
    fn of(probes: Vec<ProbeResult>, silent: Vec<SilentAddress>) -> Result<Self, CommandFailure> {
        let answering: BTreeSet<(usize, bool)> =
            probes.iter().filter(|probe| probe.identity.is_ok()).map(ProbeResult::family).collect();
        let mut identities = BTreeSet::new();
        let mut exit = Exit::Failed;
        let mut fleet = Self { sidecars: Vec::new(), silent };
        for probe in probes {
            let family @ (text, is_v6) = probe.family();
            match probe.identity {
                Ok(identity) => {
                    if identities.insert(identity) {
                        fleet.sidecars.push(probe.sidecar);
                    }
                }
                Err(failure) => {
                    let is_listened = answering.contains(&family);
                    if is_listened || !answering.contains(&(text, !is_v6)) {
                        exit = failure.exit;
                        fleet.silent.push(SilentAddress::new(&probe.sidecar.name, failure.says));
                    }
                }
            }
        }
        if fleet.sidecars.is_empty() {
            return Err(CommandFailure::new(exit, fleet.complaint()));
        }
        Ok(fleet)
    }

    /// Asks all sidecars. A sidecar that fails counts as silent from then on.
    pub(super) fn gather<T: Send>(
        &mut self,
        ask: impl Fn(&AdminEndpoint) -> Result<T, CommandFailure> + Sync,
    ) -> Result<Vec<(String, T)>, CommandFailure> {
        let is_several = self.is_several();
        let mut answers = Vec::new();
        let mut last = None;
        let asked = std::mem::take(&mut self.sidecars);
        let results = each(&asked, ask);
        for (sidecar, result) in asked.into_iter().zip(results) {
            match result {
                Ok(answer) => {
                    answers.push((sidecar.name.clone(), answer));
                    self.sidecars.push(sidecar);
                }
                Err(failure) if !is_several => return Err(failure),
                Err(failure) => {
                    self.silent.push(SilentAddress::new(&sidecar.name, failure.says));
                    last = Some(failure.exit);
                }
            }
        }
        match last {
            Some(exit) if answers.is_empty() => Err(CommandFailure::new(exit, self.complaint())),
            _ => Ok(answers),
        }
    }

    /// A sentence for each address that is silent.
    fn complaint(&self) -> String {
        let says: Vec<&str> = self.silent.iter().map(|silent| silent.says.as_str()).collect();
        says.join("\n")
    }

    /// The outcome of a command that showed so many items.
    pub(super) fn end(&self, items: usize) -> Result<(), CommandFailure> {
        if !self.silent.is_empty() {
            return Err(CommandFailure::new(Exit::Partial, self.complaint()));
        }
        if items == 0 {
            return Err(CommandFailure::new(Exit::NothingMatched, "nothing matched"));
        }
        Ok(())
    }
}

impl ProbeResult {
    /// The text in `--admin` that led to the address, and whether it is IPv6.
    fn family(&self) -> (usize, bool) {
        (self.text, self.sidecar.addresses.iter().any(SocketAddr::is_ipv6))
    }
}

/// The fleet without an answer: one sidecar with all addresses, so that the failure names the name.
fn unanswered(found: Vec<(usize, AdminEndpoint)>) -> Fleet {
    let mut found = found.into_iter().map(|(_, sidecar)| sidecar);
    let Some(mut first) = found.next() else { return Fleet::default() };
    first.addresses.extend(found.flat_map(|sidecar| sidecar.addresses));
    first.name.clone_from(&first.host);
    Fleet { sidecars: vec![first], silent: Vec::new() }
}

/// The addresses of a text, each of them once.
fn resolve(host: &str) -> Result<Vec<SocketAddr>, CommandFailure> {
    let addresses = host.to_socket_addrs();
    let addresses = addresses.or_else(|_| (host.trim_matches(['[', ']']), PORT).to_socket_addrs());
    let addresses = addresses.map_err(|_| {
        let says = format!("--admin {host:?} is no address; such as 127.0.0.1:9664");
        CommandFailure::new(Exit::Usage, says)
    })?;
    let mut once = Vec::new();
    for address in addresses {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    Ok(once)
}

fn identity(sidecar: &AdminEndpoint) -> Result<String, CommandFailure> {
    let overview: Overview = sidecar.get("/api/v1/overview")?;
    Ok(overview.cluster_id)
}

impl SilentAddress {
    /// A failure with the address that it is about.
    fn new(name: &str, says: String) -> Self {
        let says = if says.contains(name) { says } else { format!("{name}: {says}") };
        Self { name: name.to_owned(), says }
    }
}

/// Asks all, several at a time; the answers are in the order of `asked`.
fn each<A: Sync, T: Send>(asked: &[A], ask: impl Fn(&A) -> T + Sync) -> Vec<T> {
    let mut answers = Vec::with_capacity(asked.len());
    for some in asked.chunks(AT_ONCE_MAX) {
        if let [one] = some {
            answers.push(ask(one));
            continue;
        }
        std::thread::scope(|scope| {
            let threads: Vec<_> = some.iter().map(|one| scope.spawn(|| ask(one))).collect();
            for thread in threads {
                match thread.join() {
                    Ok(answer) => answers.push(answer),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }
    answers
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(text: usize, address: &str, identity: Option<&str>) -> ProbeResult {
        let sidecar = AdminEndpoint {
            name: address.to_owned(),
            host: "reprise:9664".to_owned(),
            addresses: vec![address.parse().unwrap()],
            token: None,
            operator: None,
        };
        let refused = || CommandFailure::new(Exit::Failed, format!("nothing answers at {address}"));
        ProbeResult { text, sidecar, identity: identity.map(str::to_owned).ok_or_else(refused) }
    }

    fn fleet(probes: Vec<ProbeResult>) -> (Vec<String>, Vec<String>) {
        let fleet = Fleet::of(probes, Vec::new()).unwrap();
        let silent = fleet.silent.into_iter().map(|silent| silent.says).collect();
        (fleet.sidecars.into_iter().map(|sidecar| sidecar.name).collect(), silent)
    }

    #[test]
    fn an_address_without_a_port_has_the_usual_one() {
        for (text, address) in [
            ("127.0.0.1", "127.0.0.1:9664"),
            ("127.0.0.1:7", "127.0.0.1:7"),
            ("::1", "[::1]:9664"),
            ("[::1]", "[::1]:9664"),
            ("[::1]:7", "[::1]:7"),
        ] {
            assert_eq!(resolve(text).unwrap(), [address.parse().unwrap()], "{text}");
        }
        assert_eq!(resolve("127.0.0.1:x").unwrap_err().exit, Exit::Usage);
    }

    #[test]
    fn addresses_of_one_identity_are_one_sidecar() {
        let probes = vec![probe(0, "[::1]:1", Some("a")), probe(0, "127.0.0.1:1", Some("a"))];
        assert_eq!(fleet(probes), (vec!["[::1]:1".to_owned()], vec![]));
    }

    #[test]
    fn an_unused_address_family_is_left_out() {
        let probes = vec![probe(0, "[::1]:1", None), probe(0, "127.0.0.1:1", Some("a"))];
        assert_eq!(fleet(probes), (vec!["127.0.0.1:1".to_owned()], vec![]));
        let probes = vec![probe(0, "10.0.0.1:1", None), probe(0, "10.0.0.2:1", Some("a"))];
        let silent = vec!["nothing answers at 10.0.0.1:1".to_owned()];
        assert_eq!(fleet(probes), (vec!["10.0.0.2:1".to_owned()], silent.clone()));
        let probes = vec![probe(0, "10.0.0.1:1", None), probe(1, "[::1]:1", Some("a"))];
        assert_eq!(fleet(probes), (vec!["[::1]:1".to_owned()], silent));
    }

    #[test]
    fn no_answer_at_all_is_a_failure() {
        let failure = Fleet::of(vec![probe(0, "10.0.0.1:1", None)], Vec::new()).unwrap_err();
        assert_eq!(failure.exit, Exit::Failed);
        assert_eq!(failure.says, "nothing answers at 10.0.0.1:1");
    }

    #[test]
    fn answers_keep_their_order() {
        let asked: Vec<usize> = (0..100).collect();
        assert_eq!(each(&asked, |n| n * 2), (0..200).step_by(2).collect::<Vec<_>>());
    }
}
