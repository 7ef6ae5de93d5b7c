//! The configuration: the shipped file is the defaults. Bad input is refused as a whole, with the
//! place of each problem.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

mod admin;
mod drain;
mod places;
mod users;

use std::path::Path;
use std::time::Duration;

use reprise::config::{Config, ConfigError, RetryDelivery, SAMPLE};

fn pairs(env: &[(&str, &str)]) -> Vec<(String, String)> {
    env.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn good(text: &str) -> Config {
    Config::parse("test.yaml", text, &[], &[]).unwrap_or_else(|e| panic!("{e}")).config
}

fn bad(text: &str) -> ConfigError {
    Config::parse("test.yaml", text, &[], &[]).expect_err(text)
}

#[test]
fn the_shipped_file_says_exactly_the_defaults() {
    let loaded = Config::parse("config.yaml", SAMPLE, &[], &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(loaded.config, Config::default());
    assert_eq!(loaded.warnings, Vec::<String>::new());
}

#[test]
fn the_shipped_file_names_every_key() {
    let yaml = Config::default().to_yaml().unwrap();
    for line in yaml.lines() {
        let key = line.trim_start_matches([' ', '-']).split(':').next().unwrap_or("");
        assert!(SAMPLE.contains(&format!("{key}:")), "config.yaml does not name {key}");
    }
}

#[test]
fn an_empty_file_is_the_defaults() {
    for text in ["", "\n", "# nothing\n", "retry:\nlimits:\n"] {
        assert_eq!(good(text), Config::default(), "{text:?}");
    }
}

#[test]
fn the_effective_configuration_loads_to_itself() {
    let text = "listen: [{address: '[::1]:0', advertised: k:9092, group: shop}]\n\
                groups: [{match: 'shop*', levels: 1s 2s, rate: 5, max_elapsed: 3h,\
                          delivery: in-place, max_reconsume_times: unlimited,\
                          dead_letters: {keep: false, max_bytes: 5GiB}},\
                         {match: 'shop*', topic: 'a*', max_elapsed: unlimited,\
                          backoff: {initial: 1s, factor: 1.5, jitter: 0.25}},\
                         {match: 'shop*', topic: b, levels: 7s, dead_letters: {keep: true}}]\n\
                topics: {retention: unlimited, list: [{name: orders, partitions: 3}]}\n\
                admin: {address: off}\ndata_dir: elsewhere\n";
    let config = good(text);
    assert_ne!(config, Config::default());
    assert_eq!(good(&config.to_yaml().unwrap()), config);
}

#[test]
fn a_rule_inherits_unset_values_from_retry() {
    let config = good(
        "groups:\n  - match: shop\n    max_reconsume_times: 5\n\
         retry: {levels: [1s, 2s], delivery: off}\n",
    );
    let rule = &config.groups[0];
    assert_eq!((rule.pattern.as_str(), rule.retry.max_reconsume_times), ("shop", 5));
    assert_eq!(rule.retry.delivery, RetryDelivery::Off);
    assert_eq!(rule.retry.levels, config.retry.levels);
}

/// (text, line:column of the problem, words that its message must contain)
const BAD: &[(&str, &str, &str)] = &[
    ("retry:\n  level: 1s\n", "2:3", "retry.level: unknown key; did you mean levels?"),
    ("retry: {backoff: {initial: 1m, max: 30s}}\n", "1:37", "max is shorter than backoff.initial"),
    ("retry: {backoff: {factor: 1.05}}\n", "1:27", "expected 1, or a factor from 1.1 to 100"),
    ("retry: {backoff: {jitter: 1.5}}\n", "1:27", "expected a share from 0 to 1"),
    ("topics: {produce_delay: soon}\n", "1:25", "expected true or false"),
    ("topics: {produce_delay_max: 400d}\n", "1:29", "a duration from 1s to 366d"),
    ("topics: {produce_delay_max_bytes: 1KiB}\n", "1:35", "a size from 1MiB to 1024TiB"),
    (
        "groups: [{match: a, topic: b, backoff: {initial: off}}]\n",
        "1:40",
        "initial: off says that levels has the delays: give them here too",
    ),
    (
        "upstream: {bootstrap: 'a:1'}\ntopics: {produce_delay: true}\n",
        "2:9",
        "produce_delay puts records of this node's topics off",
    ),
    ("retry: {rate: 0}\n", "1:15", "from 1 to 1000000"),
    (
        "groups: [{match: a, topic: b, delivery: off}]\n",
        "1:41",
        "delivery: is the whole group's; write it in a rule without topic",
    ),
    (
        "groups: [{match: a, topic: b, dead_letters: {max_bytes: 5MiB}}]\n",
        "1:46",
        "dead_letters.max_bytes: unknown key",
    ),
    (
        "groups: [{match: a, topic: b}, {match: a}, {match: a, topic: b}]\n",
        "1:52",
        "an earlier rule has the same pattern and wins",
    ),
    ("listen: nine\n", "1:9", "listen[0].address: \"nine\" is no address"),
    ("listen: [a:1, b]\n", "1:15", "listen[1].address: \"b\" is no address"),
    (
        "listen: {address: a:1}\n",
        "1:9",
        "expected a list, found a group of keys; its first item is listen[0]",
    ),
    ("listen: [{address: a:1, bind: all}]\n", "1:31", "expected one of auto, exact"),
    ("data_dri: x\n", "1:1", "did you mean data_dir?"),
    ("colour: red\n", "1:1", "unknown key; known here: listen"),
    ("upstream: {bootstrap: x}\n", "1:23", "\"x\" is no address; such as 127.0.0.1:9092"),
    ("upstream: {bootstrap: 'a:1, b:0'}\n", "1:23", "b:0: a broker needs a real port"),
    ("upstream: {bootstrap: []}\n", "1:23", "names no broker"),
    ("listen: [{address: a:1, sasl: {}}]\n", "1:31", "users_file: is missing"),
    ("listen: [{address: a:1, sasl: {users_file: /no/such}}]\n", "1:44", "/no/such cannot be read"),
    (
        "listen: [{address: a:1, sasl: {users_file: /dev/null, mechanisms: [GSSAPI]}}]\n",
        "1:67",
        "\"GSSAPI\" is not served",
    ),
    (
        "upstream: {bootstrap: a:1}\nlisten: [{address: a:2, sasl: {users_file: /dev/null}}]\n",
        "2:9",
        "in front of a cluster they log in to its brokers",
    ),
    (
        "upstream: {bootstrap: a:1}\ntopics: {list: [{name: orders}]}\n",
        "2:9",
        "in front of a cluster they are the cluster's",
    ),
    ("upstream: {bootstrap: 'localhost:9092'}\n", "1:11", "is the sidecar itself (listen[0])"),
    ("upstream: {connect_timeout: 1s}\n", "1:11", "upstream.bootstrap: is missing"),
    ("upstream:\n", "1:10", "upstream.bootstrap: is missing"),
    ("upstream: {bootstrap: a:1, connect_timeout: 1h}\n", "1:45", "from 10ms to 5m"),
    ("upstream: {bootstrap: a:1, sasl: {}}\n", "1:34", "sasl.mechanism: is missing; one of"),
    ("upstream: {bootstrap: a:1, sasl: {mechanism: MD5}}\n", "1:46", "one of PLAIN, SCRAM-SHA"),
    ("upstream: {bootstrap: a:1, sasl: {mechanism: PLAIN}}\n", "1:34", "sasl.username: is missing"),
    (
        "upstream: {bootstrap: a:1, sasl: {mechanism: PLAIN, username: u}}\n",
        "1:34",
        "sasl.password_file: is missing",
    ),
    (
        "upstream: {bootstrap: a:1, sasl: {mechanism: PLAIN, username: u, password: hush}}\n",
        "1:76",
        "sasl.password: a secret does not belong here",
    ),
    (
        "upstream: {bootstrap: a:1, sasl: {mechanism: PLAIN, username: u, password_file: no}}\n",
        "1:81",
        "sasl.password_file: no cannot be read",
    ),
    (
        "upstream: {bootstrap: a:1, sasl: {mechanism: PLAIN, username: u, token_file: no}}\n",
        "1:78",
        "sasl.token_file: is for OAUTHBEARER",
    ),
    (
        "upstream: {bootstrap: a:1, sasl: {mechanism: OAUTHBEARER, username: u}}\n",
        "1:69",
        "sasl.username: is of no use with OAUTHBEARER",
    ),
    (
        "upstream: {bootstrap: a:1, sasl: {mechanism: OAUTHBEARER}}\n",
        "1:34",
        "sasl.token_file: is missing",
    ),
    ("admin: {token_file: /no/such}\n", "1:21", "admin.token_file: /no/such cannot be read"),
    ("admin: {token_file: /dev/null}\n", "1:21", "/dev/null is empty; put the token into it"),
    ("groups: [{match: a, topic: b, breaker: off}]\n", "1:40", "breaker: is the whole group's"),
    (
        "groups: [{match: a, topic: b, crash_limit: 3}]\n",
        "1:44",
        "crash_limit: is the whole group's; write it in a rule without topic",
    ),
    ("listen:\n- address: a:1\n  consumers_only: on\n", "3:3", "unknown key"),
    ("upstream: {bootstrap: a:1, tls: {skip: 1}}\n", "1:34", "known here: ca, certificate, key"),
    ("upstream: {bootstrap: a:1, tls: {verify: false}}\n", "1:42", "are always verified"),
    ("upstream: {bootstrap: a:1, tls: {key: k}}\n", "1:33", "tls.certificate: is missing"),
    ("upstream: {bootstrap: a:1, tls: true}\n", "1:33", "expected keys below it"),
    ("upstream: {bootstrap: a:1, ca: x}\n", "1:28", "did you mean upstream.tls.ca?"),
    ("listen:\n- address: a:1\n  tls: {}\n", "3:8", "tls.certificate: is missing; the path"),
    ("listen:\n- address: a:1\n  tls: {key: nine}\n", "3:8", "tls.certificate: is missing"),
    ("listen:\n- address: a:1\n  tls: {certficate: a}\n", "3:9", "did you mean certificate?"),
    ("retry: {max_reconsume_times: lots}\n", "1:30", "expected a whole number from -1"),
    ("retry: {max_reconsume_times: 1.5}\n", "1:30", "expected a whole number"),
    ("retry: {max_reconsume_times: 99999999999999999999}\n", "1:30", "whole number"),
    ("retry: {max_reconsume_times: -2}\n", "1:30", "found `-2`"),
    ("retry:\n  - a\n", "2:3", "expected keys below it, found a list"),
    ("topics: {auto_create: maybe}\n", "1:23", "expected true or false, found \"maybe\""),
    ("topics: {auto_create: 1}\n", "1:23", "expected true or false, found `1`"),
    ("topics: {list: 3}\n", "1:16", "expected a list"),
    ("topics: {list: [{partitions: 3}]}\n", "1:17", "name: is missing"),
    ("topics: {list: [{name: a}, {name: a}]}\n", "1:35", "listed twice"),
    ("topics: {list: [{name: 'a b'}]}\n", "1:24", "no topic name"),
    ("limits: {idle: 10}\n", "1:16", "a duration from 1s to 1d"),
    ("limits: {idle: 10 parsecs}\n", "1:16", "no duration; such as 250ms"),
    ("limits: {idle: 10ms}\n", "1:16", "a duration from 1s to 1d"),
    ("limits: {frame_bytes: 64MB}\n", "1:23", "no size; such as"),
    ("limits:\n  preauth_frame_bytes: 512MiB\n", "2:24", "must be at most frame_bytes"),
    ("log:\n  format: text\n  format: json\n", "3:3", "written twice"),
    ("log: {}\nlog: {}\n", "2:1", "written twice"),
    ("log: {filter: 'reprise=loud'}\n", "1:15", "no log filter"),
    ("log: {format: xml}\n", "1:15", "expected one of text, json"),
    ("log:\n  format:\n", "2:10", "is empty"),
    ("retry: {levels: ''}\n", "1:17", "empty"),
    ("retry: {levels: []}\n", "1:17", "empty"),
    ("retry: {levels: 1s 2x}\n", "1:17", "\"2x\""),
    ("retry: {levels: 1s 0s}\n", "1:17", "\"0s\" is not a positive delay"),
    ("retry: {levels: 1s -3s}\n", "1:17", "\"-3s\""),
    ("retry: {levels: 10}\n", "1:17", "expected delays"),
    ("retry: {dead_letters: {max_bytes: 10KiB}}\n", "1:35", "from 1MiB to 1024TiB"),
    ("retry: {dead_letters: {max_bytes: lots}}\n", "1:35", "or unlimited"),
    ("retry: {delivery: virtual}\n", "1:19", "one of auto, topic, in-place, off"),
    ("retry: {crash_limit: 0}\n", "1:22", "a whole number from 1 to 100"),
    ("retry: {isolation_timeout: 11m}\n", "1:28", "a duration from 10ms to 10m"),
    ("retry: {breaker: on}\n", "1:18", "expected ratio, window and min, or off"),
    ("retry: {breaker: {ratio: 1.5}}\n", "1:26", "a part of 1 from 0.01 to 1"),
    ("retry: {breaker: {min: 200}}\n", "1:24", "at most window"),
    ("retry: {in_place_limit: 0}\n", "1:25", "a whole number from 1 to 100000"),
    ("retry: {on_seek_back: judge}\n", "1:23", "one of observe, retry"),
    ("retry: {max_reconsume_times: unlimited}\n", "1:30", "whose records wait in their own place"),
    (
        "retry: {delivery: off, order: {mode: partition}}\n",
        "1:31",
        "delivery must be auto or in-place",
    ),
    ("retry: {order: {rewind: seek}}\n", "1:25", "one of off, rebalance"),
    ("retry: {order: {interval: 31s}}\n", "1:27", "a duration from 10ms to 30s"),
    ("retry: {order: {mode: strict}}\n", "1:23", "one of off, partition"),
    ("retry: {order: {kind: record}}\n", "1:17", "known here: mode, interval, rewind"),
    ("groups: [{levels: 1s}]\n", "1:10", "match: is missing"),
    ("groups: [{match: a}, {match: a}]\n", "1:30", "an earlier rule"),
    ("listen: []\n", "1:9", "at least one listener"),
    ("listen: [{address: nine}]\n", "1:20", "no address; such as"),
    ("listen: [{address: a:1}, {address: a:1}]\n", "1:36", "cannot share"),
    ("listen: [{advertised: a:1}]\n", "1:10", "address: is missing"),
    ("admin: {address: 127.0.0.1:9092}\n", "1:8", "also a listener's"),
    ("names: {retry: '{group}'}\n", "1:16", "something besides {group}"),
    ("names: {retry: retry}\n", "1:16", "{group} exactly once"),
    (
        "names: {dead_letters: 'reprise.retry.{group}'}\n",
        "1:23",
        "overlap: a name could match both",
    ),
    ("data_dir: ${env:REPRISE_TEST_UNSET}\n", "1:11", "REPRISE_TEST_UNSET is not set"),
    ("- a\n- b\n", "1:1", "expected keys"),
    ("just text\n", "1:1", "expected keys"),
    ("a: [1\nb: 2\n", "2:2", "test.yaml:2"),
    ("a: 1\n\tb: 2\n", "2:1", "test.yaml:2"),
    ("a: !!binary x\n", "1:1", "unknown key"),
    ("*x\n", "1:1", "anchor"),
];

#[test]
fn each_kind_of_bad_input_is_refused_at_its_place() {
    let mut wrong = String::new();
    for (text, place, words) in BAD {
        let error = bad(text);
        let shown = error.to_string();
        let placed = error.problems().iter().any(|p| p.starts_with(&format!("test.yaml:{place}:")));
        if !shown.contains(words) || !placed {
            wrong.extend([format!("{text:?} shall be at {place}: {words}\n{shown}\n\n")]);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn all_problems_are_reported_in_order_with_line_and_caret() {
    let error = bad("drain: x\nretry:\n  levels: 1q\n  delivry: auto\nlimits:\n  idle: 3\n");
    let lines: Vec<&str> = error.problems().iter().map(String::as_str).collect();
    assert_eq!(lines.len(), 4, "{error}");
    assert!(lines[1].starts_with("test.yaml:3:11: retry.levels: "), "{error}");
    assert!(lines[1].ends_with("\n  3 |   levels: 1q\n    |           ^"), "{error}");
    assert!(lines[2].contains("did you mean delivery?"), "{error}");
}

#[test]
fn flags_win_over_variables_over_the_file_over_defaults() {
    let text = "retry: {max_reconsume_times: 3, delivery: topic}\nlog: {filter: warn}\n";
    let env = pairs(&[
        ("REPRISE_RETRY__MAX_RECONSUME_TIMES", "5"),
        ("REPRISE_LOG__FILTER", "debug"),
        ("HOME", "/root"),
    ]);
    let flags = ["retry.max_reconsume_times=7".to_owned(), "groups=[{match: '*'}]".to_owned()];
    let config = Config::parse("t", text, &env, &flags).unwrap().config;
    assert_eq!(config.retry.max_reconsume_times, 7);
    assert_eq!(config.retry.delivery, RetryDelivery::Topic);
    assert_eq!(config.log.filter, "debug");
    assert_eq!(config.retry.consume_timeout, Duration::from_mins(15));
    assert_eq!(config.groups[0].pattern, "*");
}

#[test]
fn problems_of_flags_and_variables_name_them() {
    let env = pairs(&[("REPRISE_RETRY__LEVEL", "1s"), ("REPRISE_FOO__BAR", "1")]);
    let flags = ["limits.idle=soon".to_owned(), "novalue".to_owned()];
    let shown = Config::parse("t", "", &env, &flags).unwrap_err().to_string();
    for words in [
        "environment REPRISE_RETRY__LEVEL: retry.level: unknown key; did you mean levels?",
        "environment REPRISE_FOO__BAR: foo: unknown key",
        "--set limits.idle=soon: limits.idle: \"soon\" is no duration",
        "--set novalue: expected key=value",
    ] {
        assert!(shown.contains(words), "{words} is missing in:\n{shown}");
    }
}

#[test]
fn a_whole_scalar_of_any_type_comes_from_the_environment() {
    let env = pairs(&[("DIR", "0123"), ("MAX", "4"), ("X", "a: b")]);
    let text = "data_dir: ${env:DIR}\nretry: {max_reconsume_times: '${env:MAX}'}\n";
    let config = Config::parse("t", text, &env, &[]).unwrap().config;
    assert_eq!(config.data_dir, "0123");
    assert_eq!(config.retry.max_reconsume_times, 4);
    let part = Config::parse("t", "data_dir: a-${env:DIR}\n", &env, &[]).unwrap().config;
    assert_eq!(part.data_dir, "a-${env:DIR}", "only whole scalars");
}

#[test]
fn a_password_comes_from_environment_or_file_and_stays_hidden() {
    let text = "upstream: {bootstrap: 'localhost:1,[::1]:2', \
                sasl: {mechanism: PLAIN, username: u, password: '${env:SECRET}'}}\n";
    let env = pairs(&[("SECRET", "0123")]);
    let loaded = Config::parse("t", text, &env, &[]).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    let shown = loaded.config.to_yaml().unwrap();
    assert!(shown.contains("password: '********'"), "{shown}");
    let all = format!("{shown}{:?}{}", loaded.config, serde_json::json!(loaded.config));
    assert!(!all.contains("0123"), "{all}");
    let again = Config::parse("t", &shown, &env, &[]).unwrap_err().to_string();
    assert!(again.contains("a secret does not belong here"), "{again}");
    let flag = ["upstream.sasl.password=hush".to_owned()];
    let refused = Config::parse("t", text, &env, &flag).unwrap_err().to_string();
    assert!(refused.contains("a secret does not belong here"), "{refused}");
    let empty = Config::parse("t", text, &pairs(&[("SECRET", "")]), &[]).unwrap_err().to_string();
    assert!(empty.contains("environment variable is empty"), "{empty}");
}

#[test]
fn a_misplaced_password_is_reported_without_its_value() {
    let start = "upstream: {bootstrap: 'localhost:1'}\n";
    let shown = |sasl: &str, flags: &[String]| {
        let text = format!("upstream:\n  bootstrap: 'localhost:1'\n  sasl:\n{sasl}");
        let text = if sasl.is_empty() { start } else { &text };
        Config::parse("t", text, &[], flags).unwrap_err().to_string()
    };
    let whole = "    mechanism: PLAIN\n    username: u\n";
    for (sasl, place) in [
        // The message names the line and does not quote it.
        (format!("{whole}    password: hunter2\n"), "t:6:15: upstream.sasl.password: a secret"),
        (format!("{whole}    password: [hunter2]\n"), "t:6:15: upstream.sasl.password"),
        (format!("{whole}    password: \"hunter\\x32\"\n"), "t:6:15: upstream.sasl.password"),
        // A misspelt key must not reveal the secret either.
        (format!("{whole}    pasword: hunter2\n"), "t:6:5: upstream.sasl.pasword: unknown key"),
        (format!("{whole}    pwd: hunter2\n"), "t:6:5: upstream.sasl.pwd: unknown key"),
        (format!("{whole}    password: \"hunter2\n"), "t:"),
        // Another problem on the line of a secret must not reveal it either.
        ("    {username: [], password: hunter2}\n".to_owned(), "upstream.sasl.username"),
        ("    {mechnism: x, password: hunter2}\n".to_owned(), "did you mean mechanism?"),
    ] {
        let shown = shown(&sasl, &[]);
        assert!(!shown.contains("hunter") && shown.contains(place), "{sasl}\n{shown}");
    }
    for (flag, says) in [
        ("upstream.sasl.password=hunter2", "--set upstream.sasl.password: upstream.sasl.password"),
        ("upstream.sasl.pasword=hunter2", "--set upstream.sasl.pasword: upstream.sasl.pasword"),
        ("upstream.sasl={username: [], password: hunter2}", "--set upstream.sasl: upstream.sasl"),
        ("upstream.sasl.password:hunter2", "--set upstream.sasl.password: expected key=value"),
    ] {
        let shown = shown("", &[flag.to_owned()]);
        assert!(!shown.contains("hunter") && shown.contains(says), "{flag}\n{shown}");
    }
    let shown = shown(&format!("{whole}    password_file: /no/such\n"), &[]);
    assert!(shown.contains("| ") && shown.contains("password_file: /no/such\n"), "{shown}");
}

#[test]
fn a_plain_password_to_another_machine_is_a_warning() {
    let warned = |sasl: &str| {
        let text = format!(
            "upstream: {{bootstrap: 'localhost:1, kafka-1:2', sasl: {{{sasl}, username: u, \
             password: '${{env:P}}'}}}}\n"
        );
        Config::parse("t", &text, &pairs(&[("P", "x")]), &[]).unwrap().warnings
    };
    let said = warned("mechanism: PLAIN");
    assert!(said.len() == 1 && said[0].contains("upstream.sasl.mechanism"), "{said:?}");
    assert!(said[0].contains("in plain text"), "{said:?}");
    assert!(warned("mechanism: SCRAM-SHA-512").is_empty());
}

#[test]
fn an_odd_delay_table_is_a_warning_with_its_item() {
    let loaded = Config::parse("t", "retry: {levels: 5s 1s 1s}\n", &[], &[]).unwrap();
    assert_eq!(loaded.warnings.len(), 2, "{:?}", loaded.warnings);
    assert!(loaded.warnings[0].contains("retry.levels") && loaded.warnings[0].contains("1s"));
}

#[test]
fn a_missing_unreadable_or_foreign_file_is_one_clear_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let load = |path: &Path| Config::load(Some(path), &[], &[]).unwrap_err().to_string();
    let missing = load(&dir.path().join("none.yaml"));
    assert!(missing.contains("none.yaml: no such file"), "{missing}");
    assert!(load(dir.path()).contains("is not a file"));
    let binary = dir.path().join("binary.yaml");
    std::fs::write(&binary, b"a: \xff\xfe").unwrap();
    assert!(load(&binary).contains("is not UTF-8 text (byte 3)"));
    let huge = dir.path().join("huge.yaml");
    std::fs::write(&huge, vec![b'#'; (1 << 20) + 1]).unwrap();
    assert!(load(&huge).contains("larger than 1 MiB"));
}

#[test]
fn an_alias_bomb_is_refused_and_deep_nesting_too() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for n in 1..12 {
        let items = vec![format!("*a{}", n - 1); 10].join(",");
        bomb.extend([format!("a{n}: &a{n} [{items}]\n")]);
    }
    bad(&bomb);
    bad(&"[".repeat(10_000));
}

#[test]
fn a_damaged_file_never_causes_a_panic() {
    let bytes = SAMPLE.as_bytes();
    let seeds = std::env::var("CONFIG_SEEDS").map_or(300, |n| n.parse().unwrap_or(300));
    for seed in 0..seeds {
        let mut random = fastrand::Rng::with_seed(seed);
        let mut damaged = bytes.to_vec();
        for _ in 0..random.usize(1..8) {
            let at = random.usize(..=damaged.len().saturating_sub(2));
            match random.u8(..3) {
                0 => damaged.truncate(at + 1),
                1 if at < damaged.len() => {
                    damaged[at] = *random.choice(b"{}[]:#&*!|>'\"%@`-\t \n09az").unwrap_or(&0);
                }
                _ => drop(damaged.drain(at..(at + random.usize(..40)).min(damaged.len()).max(at))),
            }
        }
        let text = String::from_utf8_lossy(&damaged);
        if let Err(error) = Config::parse("damaged", &text, &[], &[]) {
            assert!(!error.problems().is_empty(), "seed {seed}");
            drop(error.to_string());
        }
    }
}
