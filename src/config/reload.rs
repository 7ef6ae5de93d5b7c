//! Reload of the configuration: keys that may change at run time, and keys that need a restart.

use serde_json::Value;

use super::Config;
use crate::model::Secret;

/// Dotted keys (with all below them) that a reload may change.
const RELOADABLE: [&str; 4] = ["retry", "groups", "limits", "log.filter"];

/// A reload that may be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reload {
    /// The configuration that will be in force.
    pub config: Config,
    /// The dotted keys that differ; empty: nothing changes.
    pub changed: Vec<String>,
}

/// A key that differs and needs a restart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} cannot change while running; restart to change it (the running one stays)")]
pub struct RestartKey(pub String);

impl Config {
    /// Compares `new` with the running `old`.
    pub fn reload_from(old: &Self, new: Self) -> Result<Reload, Vec<RestartKey>> {
        let mut changed = Vec::new();
        let tree = |config: &Self| {
            let encoded = serde_json::to_value(config);
            encoded.map_err(|error| vec![RestartKey(format!("the configuration ({error})"))])
        };
        differences("", &tree(old)?, &tree(&new)?, &mut changed);
        if password(old) != password(&new) {
            // The serialized tree has a mask instead of the password, so it shows no difference.
            changed.push("upstream.sasl.password".to_owned());
        }
        let refused: Vec<RestartKey> =
            changed.iter().filter(|key| !reloadable(key)).cloned().map(RestartKey).collect();
        if refused.is_empty() { Ok(Reload { config: new, changed }) } else { Err(refused) }
    }
}

fn password(config: &Config) -> Option<&Secret> {
    config.upstream.as_ref()?.sasl.as_ref()?.password.as_ref()
}

fn reloadable(key: &str) -> bool {
    let part = RELOADABLE.iter().any(|part| {
        let rest = key.strip_prefix(part);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
    });
    part || names_a_file(key)
}

/// The files of certificates and users may change at a reload. TLS or SASL cannot be switched on or
/// off.
fn names_a_file(key: &str) -> bool {
    let listener = key.strip_prefix("listen[").and_then(|rest| rest.split_once(']'));
    let listener = listener
        .is_some_and(|(_, below)| below.starts_with(".tls.") || below == ".sasl.users_file");
    listener || key.starts_with("upstream.tls.")
}

fn differences(path: &str, old: &Value, new: &Value, out: &mut Vec<String>) {
    match (old, new) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let below = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                let side = |map: &serde_json::Map<String, Value>| {
                    map.get(key).cloned().unwrap_or(Value::Null)
                };
                differences(&below, &side(a), &side(b), out);
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (old, new)) in a.iter().zip(b).enumerate() {
                differences(&format!("{path}[{index}]"), old, new, out);
            }
        }
        _ if old != new => out.push(path.to_owned()),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ListenerTls;

    #[test]
    fn certificate_files_may_change_but_not_tls_itself() {
        let mut old = Config::default();
        old.listen[0].tls = Some(ListenerTls { key: "a".to_owned(), ..ListenerTls::default() });
        let mut new = old.clone();
        new.listen[0].tls.as_mut().unwrap().client_ca = Some("ca".to_owned());
        new.listen[0].tls.as_mut().unwrap().key = "b".to_owned();
        let reload = Config::reload_from(&old, new.clone()).unwrap();
        assert_eq!(reload.changed, ["listen[0].tls.client_ca", "listen[0].tls.key"]);
        new.listen[0].address.port = 1;
        let refused = Config::reload_from(&old, new.clone()).unwrap_err();
        assert_eq!(refused, [RestartKey("listen[0].address".to_owned())]);
        new = old.clone();
        new.listen[0].tls = None;
        let refused = Config::reload_from(&old, new).unwrap_err();
        assert_eq!(refused, [RestartKey("listen[0].tls".to_owned())]);
    }

    #[test]
    fn another_password_is_seen_behind_its_mask() {
        let of = |password: &str| {
            let text = "upstream: {bootstrap: a:1, sasl: {mechanism: SCRAM-SHA-256, username: u, \
                        password: '${env:P}'}}\n";
            let env = [("P".to_owned(), password.to_owned())];
            Config::parse("t", text, &env, &[]).unwrap().config
        };
        assert_eq!(Config::reload_from(&of("a"), of("a")).unwrap().changed, [""; 0]);
        let refused = Config::reload_from(&of("a"), of("b")).unwrap_err();
        assert_eq!(refused, [RestartKey("upstream.sasl.password".to_owned())]);
    }

    #[test]
    fn rules_may_change_while_running_and_addresses_may_not() {
        let old = Config::default();
        let mut new = old.clone();
        new.retry.max_reconsume_times = 3;
        new.retry.dead_letters.max_bytes = Some(1 << 30);
        new.log.filter = "debug".to_owned();
        let reload = Config::reload_from(&old, new.clone()).unwrap();
        let changed = ["log.filter", "retry.dead_letters.max_bytes", "retry.max_reconsume_times"];
        assert_eq!(reload.changed, changed);
        new.data_dir = "elsewhere".to_owned();
        new.admin.address = None;
        let refused = Config::reload_from(&old, new).unwrap_err();
        let keys: Vec<String> = refused.into_iter().map(|r| r.0).collect();
        assert_eq!(keys, ["admin.address", "data_dir"]);
    }
}
