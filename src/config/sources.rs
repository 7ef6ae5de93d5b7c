//! Where settings come from besides the file: `--set` flags, `REPRISE_*` variables, `${env:NAME}`.

use super::node::{Node, Place, Value};
use super::problem::Problem;
use super::raw;

/// What every variable of ours begins with.
const PREFIX: &str = "REPRISE_";

/// Lays variables and flags over the tree of the file; flags win over variables over the file.
pub(super) fn overlay(
    tree: &mut Node,
    env: &[(String, String)],
    flags: &[String],
    problems: &mut Vec<Problem>,
) {
    substitute(tree, env, problems);
    for (name, value) in env {
        let Some(key) = name.strip_prefix(PREFIX) else { continue };
        if set_by_kubernetes(name, value) {
            continue;
        }
        let key = key.to_ascii_lowercase();
        let path: Vec<&str> = key.split("__").collect();
        tree.put(&path, scalar(value).placed(&Place::Env(name.clone())));
    }
    for flag in flags {
        let place = Place::Flag(flag.clone());
        let Some((key, value)) = flag.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let says = "expected key=value, such as retry.max_reconsume_times=5".to_owned();
            let is_secret = flag.contains("password");
            problems.push(Problem { place, key: String::new(), says, is_secret });
            continue;
        };
        let path: Vec<&str> = key.trim().split('.').collect();
        tree.put(&path, scalar(value).placed(&place));
    }
}

/// A value as in the file: YAML, or the text itself where that is no YAML (`*`, `a: b`).
fn scalar(text: &str) -> Node {
    raw::parse(text).unwrap_or_else(|_| Node { value: Value::Text(text.into()), ..Node::empty() })
}

/// Kubernetes gives every pod variables about every Service of its namespace; those of a Service
/// called `reprise` or `reprise-…` look like ours.
fn set_by_kubernetes(name: &str, value: &str) -> bool {
    let last = name.rsplit("_PORT").next().unwrap_or(name);
    let port_detail = name.contains("_PORT_")
        && ["_TCP", "_UDP", "_SCTP"].iter().any(|protocol| last.contains(protocol));
    name.contains("_SERVICE_HOST")
        || name.contains("_SERVICE_PORT")
        || port_detail
        || (name.ends_with("_PORT") && value.contains("://"))
}

/// Replaces each scalar that is wholly `${env:NAME}`.
fn substitute(node: &mut Node, env: &[(String, String)], problems: &mut Vec<Problem>) {
    match &mut node.value {
        Value::Text(text) => {
            let Some(name) = text.strip_prefix("${env:").and_then(|t| t.strip_suffix('}')) else {
                return;
            };
            match env.iter().find(|(key, _)| key == name) {
                Some((_, value)) => node.value = Value::FromEnv(value.clone()),
                None => problems.push(Problem {
                    place: node.place.clone(),
                    key: String::new(),
                    says: format!("the environment variable {name} is not set"),
                    is_secret: false,
                }),
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| substitute(item, env, problems)),
        Value::Map(entries) => {
            for entry in entries {
                substitute(&mut entry.node, env, problems);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_a_kubernetes_service_called_reprise_are_not_settings() {
        for (name, value) in [
            ("REPRISE_SERVICE_HOST", "10.0.0.1"),
            ("REPRISE_SERVICE_PORT_KAFKA", "9092"),
            ("REPRISE_PORT", "tcp://10.0.0.1:9092"),
            ("REPRISE_PORT_9092_TCP_ADDR", "10.0.0.1"),
            ("REPRISE_EU_SERVICE_HOST", "10.0.0.1"),
        ] {
            assert!(set_by_kubernetes(name, value), "{name}");
        }
        for name in ["REPRISE_LISTEN", "REPRISE_RETRY__LANE", "REPRISE_PORT"] {
            assert!(!set_by_kubernetes(name, "9092"), "{name}");
        }
    }
}
