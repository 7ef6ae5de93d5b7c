//! Keys by flags and variables: list items, misplaced keys, variables of other programs.

use std::process::Command;

use reprise::config::{BindMode, Config};

use crate::config::{bad, good, pairs};

/// The addresses of the listeners.
fn addresses(config: &Config) -> Vec<String> {
    config.listen.iter().map(|listener| listener.address.to_string()).collect()
}

fn with(text: &str, env: &[(&str, &str)], flags: &[&str]) -> Result<Config, String> {
    let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let loaded = Config::parse("t", text, &pairs(env), &flags);
    loaded.map(|loaded| loaded.config).map_err(|error| error.to_string())
}

fn listening(text: &str, env: &[(&str, &str)], flags: &[&str]) -> Vec<String> {
    addresses(&with(text, env, flags).unwrap_or_else(|error| panic!("{error}")))
}

#[test]
fn a_listener_may_be_written_as_its_address() {
    assert_eq!(listening("", &[], &["listen=127.0.0.1:19092"]), ["127.0.0.1:19092"]);
    assert_eq!(listening("", &[("REPRISE_LISTEN", "a:1, [::1]:2")], &[]), ["a:1", "[::1]:2"]);
    assert_eq!(listening("", &[], &["listen=[::1]:2"]), ["[::1]:2"]);
    assert_eq!(listening("listen: 127.0.0.1:0\n", &[], &[]), ["127.0.0.1:0"]);
    let mixed = "listen: [a:1, {address: b:2, group: g}]\n";
    assert_eq!(addresses(&good(mixed)), ["a:1", "b:2"]);
    let env = [("ADDRESS", "c:3"), ("REPRISE_X", "")];
    assert_eq!(listening("listen: '${env:ADDRESS}'\n", &env, &[]), ["c:3"]);
}

#[test]
fn an_item_of_a_list_is_set_by_its_index() {
    let text = "listen: [{address: a:1, group: g}, b:2]\n";
    assert_eq!(listening(text, &[], &["listen[0].address=c:3"]), ["c:3", "b:2"]);
    assert_eq!(listening(text, &[("REPRISE_LISTEN__1__ADDRESS", "c:3")], &[]), ["a:1", "c:3"]);
    assert_eq!(listening(text, &[], &["listen[2]=c:3"]), ["a:1", "b:2", "c:3"]);
    assert_eq!(listening("listen: a:1\n", &[], &["listen.0.address=c:3"]), ["c:3"]);
    let flags = ["listen=c:3", "listen[0].group=h", "listen[1]=d:4"];
    assert_eq!(listening(text, &[], &flags), ["c:3", "d:4"], "a flag goes on from the one before");
    let config = with(text, &[], &["listen[0].address=c:3"]).unwrap();
    assert_eq!(config.listen[0].group.as_deref(), Some("g"), "the rest of the item stays");
    // The default listener is an item like any other.
    let config = with("", &[], &["listen[0].bind=exact", "groups[0].match=a"]).unwrap();
    assert_eq!(addresses(&config), ["127.0.0.1:9092"]);
    assert_eq!((config.listen[0].bind, config.groups[0].pattern.as_str()), (BindMode::Exact, "a"));
    assert_eq!(good(&config.to_yaml().unwrap()), config);
    for (flag, words) in [
        ("listen[3].address=a:1", "--set listen[3].address=a:1: the list has 1 items"),
        ("listen[18446744073709551615]=a:1", "the list has 1 items, so the next one is [1]"),
        ("listen[x]=a:1", "listen[x]: unknown key; did you mean listen?"),
        ("listen.address=a:1", "its first item is listen[0]"),
    ] {
        let refused = with("", &[], &[flag]).unwrap_err();
        assert!(refused.contains(words), "{flag}\n{refused}");
    }
}

#[test]
fn a_misplaced_key_is_answered_with_its_place() {
    for (text, words) in [
        ("max_reconsume_times: 5\n", "did you mean retry.max_reconsume_times?"),
        ("maxReconsumeTimes: 5\n", "did you mean retry.max_reconsume_times?"),
        ("max_reconsume: 5\n", "did you mean retry.max_reconsume_times?"),
        ("retry.levels: 1s\n", "levels are not parted by dots here"),
        ("journal: {durability: os}\n", "did you mean topics.durability?"),
        ("retry: {max_bytes: 1MiB}\n", "did you mean retry.dead_letters.max_bytes?"),
        ("dead_letters: {keep: false}\n", "did you mean retry.dead_letters?"),
        ("dead_letters: 'dlq.{group}'\n", "did you mean names.dead_letters?"),
        ("timeout: 5s\n", "did you mean drain.timeout?"),
        ("bootstrap.servers: 'a:1'\n", "did you mean upstream.bootstrap?"),
        ("log: {level: debug}\n", "unknown key; did you mean"),
        ("users_file: x\n", "did you mean listen[].sasl.users_file?"),
        ("colour: red\n", "known here: listen"),
    ] {
        let refused = bad(text).to_string();
        assert!(refused.contains(words), "{text}\n{refused}");
    }
    let refused = with("", &[], &["max_reconsume_times=5"]).unwrap_err();
    assert!(refused.contains("did you mean retry.max_reconsume_times?"), "{refused}");
    let refused = bad("password: hunter2\n").to_string();
    assert!(
        refused.contains("upstream.sasl.password?") && !refused.contains("hunter"),
        "{refused}"
    );
}

#[test]
fn a_variable_is_refused_if_it_looks_like_a_key() {
    for (name, words) in [
        ("REPRISE_RETRYS", "did you mean retry?"),
        ("REPRISE_DATADIR", "did you mean data_dir?"),
        ("REPRISE_MAX_RECONSUME_TIMES", "did you mean REPRISE_RETRY__MAX_RECONSUME_TIMES?"),
        ("REPRISE_RETRY_MAX_RECONSUME_TIMES", "did you mean REPRISE_RETRY__MAX_RECONSUME_TIMES?"),
        ("REPRISE_LOG_LEVEL", "did you mean REPRISE_LOG__FILTER?"),
        ("REPRISE_USERS_FILE", "did you mean REPRISE_LISTEN__0__SASL__USERS_FILE?"),
        ("REPRISE_A__B", "known here: listen"),
    ] {
        let refused = with("", &[(name, "5")], &[]).unwrap_err();
        assert!(refused.contains(&format!("environment {name}: ")), "{refused}");
        assert!(refused.contains(words), "{name}\n{refused}");
    }
    for name in ["REPRISE_VERSION", "REPRISE_HOME", "REPRISE_PASSWORD", "REPRISE_IMAGE_TAG"] {
        let loaded = Config::parse("t", "", &pairs(&[(name, "hunter2")]), &[]).unwrap();
        let [warning] = loaded.warnings.as_slice() else { panic!("{:?}", loaded.warnings) };
        assert!(warning.contains(name) && !warning.contains("hunter2"), "{warning}");
        assert_eq!(loaded.config, Config::default());
    }
    // A variable that the file itself refers to is not a key.
    let env = pairs(&[("REPRISE_DATA_HOME", "d")]);
    let loaded = Config::parse("t", "data_dir: '${env:REPRISE_DATA_HOME}'\n", &env, &[]).unwrap();
    assert_eq!((loaded.config.data_dir.as_str(), loaded.warnings), ("d", vec![]));
}

#[test]
fn a_kubernetes_service_named_reprise_changes_nothing() {
    let mut env = Vec::new();
    for service in ["REPRISE", "REPRISE_ADMIN"] {
        for (ending, value) in [
            ("SERVICE_HOST", "10.96.0.7"),
            ("SERVICE_PORT", "9092"),
            ("SERVICE_PORT_KAFKA", "9092"),
            ("PORT", "tcp://10.96.0.7:9092"),
            ("PORT_9092_TCP", "tcp://10.96.0.7:9092"),
            ("PORT_9092_TCP_PROTO", "tcp"),
            ("PORT_9092_TCP_PORT", "9092"),
            ("PORT_9092_TCP_ADDR", "10.96.0.7"),
        ] {
            env.push((format!("{service}_{ending}"), value.to_owned()));
        }
    }
    let loaded = Config::parse("t", "", &env, &[]).unwrap();
    assert_eq!((loaded.config, loaded.warnings), (Config::default(), vec![]));
}

#[test]
fn a_bad_configuration_has_an_exit_code_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    for args in [
        &["serve"][..],
        &["check"],
        &["check", "--connect"],
        &["config", "show"],
        &["log", "verify"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_reprise"));
        command.args(args).args(["--set", "retry.max=1"]).current_dir(dir.path());
        let ended = command.output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(78), "{args:?} {said}");
        assert!(said.contains("retry.max: unknown key"), "{args:?} {said}");
    }
}
