//! Sources of settings besides the file: `--set` flags, `REPRISE_*` variables, `${env:NAME}`.

use super::keys::{ADMIN_VARIABLE, PREFIX};
use super::kubernetes::is_service_variable;
use super::node::{ConfigNode, ConfigPosition, PathStep, Value};
use super::parts::ListenerConfig;
use super::problem::Problem;
use super::raw;
use super::section::Findings;

/// Lays variables and flags over the tree of the file; flags win over variables, and variables over
/// the file.
pub(super) fn overlay(
    tree: &mut ConfigNode,
    env: &[(String, String)],
    flags: &[String],
    findings: &Findings,
) {
    let problems = &mut findings.problems.borrow_mut();
    let mut named = Vec::new();
    substitute(tree, env, problems, &mut named);
    ListenerConfig::spell_out(tree);
    for (name, value) in env {
        let Some(rest) = name.strip_prefix(PREFIX) else { continue };
        let is_no_key = name == ADMIN_VARIABLE || is_service_variable(name, value);
        if is_no_key || named.contains(name) {
            continue;
        }
        let key = rest.to_ascii_lowercase();
        let is_like_a_key = findings.index.is_some_and(|index| index.is_like_a_key(&key));
        if !key.contains("__") && !is_like_a_key {
            findings.warnings.borrow_mut().push(format!(
                "environment {name}: no key has this name, so the variable is ignored; variables \
                 of keys are {PREFIX} and the key, with __ between levels"
            ));
            continue;
        }
        let path = PathStep::path(key.split("__"));
        lay(tree, &path, scalar(value).placed(&ConfigPosition::Env(name.clone())), problems);
    }
    for flag in flags {
        let place = ConfigPosition::Flag(flag.clone());
        let Some((key, value)) = flag.split_once('=').filter(|(key, _)| !key.is_empty()) else {
            let says = "expected key=value, such as retry.max_reconsume_times=5".to_owned();
            let is_secret = flag.contains("password");
            problems.push(Problem { place, key: String::new(), says, is_secret });
            continue;
        };
        let path = PathStep::path(key.trim().split('.'));
        lay(tree, &path, scalar(value).placed(&place), problems);
    }
    ListenerConfig::spell_out(tree);
}

/// Puts a node at a path. An absent list of listeners is first filled with the default listener, so
/// that its keys can be set.
fn lay(
    tree: &mut ConfigNode,
    path: &[PathStep<'_>],
    node: ConfigNode,
    problems: &mut Vec<Problem>,
) {
    let place = node.place.clone();
    if let [listen @ PathStep::Key(ListenerConfig::KEY), PathStep::Index(_), ..] = path {
        if !tree.has(ListenerConfig::KEY) {
            let default = scalar(&ListenerConfig::default().address.to_string()).placed(&place);
            tree.put(&[*listen], default).unwrap_or_default();
        }
        ListenerConfig::spell_out(tree);
    }
    if let Err(length) = tree.put(path, node) {
        let says = format!("the list has {length} items, so the next one is [{length}]");
        problems.push(Problem { place, key: String::new(), says, is_secret: false });
    }
}

/// A value in the form of the file: YAML, or plain text where it is no YAML (`*`, `a: b`).
fn scalar(text: &str) -> ConfigNode {
    raw::parse(text)
        .unwrap_or_else(|_| ConfigNode { value: Value::Text(text.into()), ..ConfigNode::empty() })
}

/// Replaces each scalar that is wholly `${env:NAME}`; `named` collects the names.
fn substitute(
    node: &mut ConfigNode,
    env: &[(String, String)],
    problems: &mut Vec<Problem>,
    named: &mut Vec<String>,
) {
    match &mut node.value {
        Value::Text(text) => {
            let Some(name) = text.strip_prefix("${env:").and_then(|t| t.strip_suffix('}')) else {
                return;
            };
            named.push(name.to_owned());
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
        Value::List(items) => {
            for item in items {
                substitute(item, env, problems, named);
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                substitute(&mut entry.node, env, problems, named);
            }
        }
        _ => {}
    }
}
