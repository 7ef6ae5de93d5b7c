//! `admin`: addresses of the port of records and of the probes, and the names served.

use reprise::config::TokenOnLoopback;

use super::{bad, good};

#[test]
fn an_open_admin_address_needs_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "t0ken").unwrap();
    for address in ["0.0.0.0:9664", "'[::]:9664'", "10.1.2.3:9664", "sidecar.shop.svc:9664"] {
        let error = bad(&format!("admin: {{address: {address}}}\n")).to_string();
        for words in ["admin.address", "not a loopback address", "token_file", "admin.probes"] {
            assert!(error.contains(words), "{address}: {words} is missing in {error}");
        }
        let with_token =
            format!("admin: {{address: {address}, token_file: '{}'}}\n", file.display());
        assert!(good(&with_token).admin.token_file.is_some());
    }
    for address in ["127.0.0.1:0", "127.7.7.7:1", "'[::1]:9664'", "localhost:9664", "off"] {
        good(&format!("admin: {{address: {address}}}\n"));
    }
}

#[test]
fn probes_need_no_token_on_any_address() {
    let config = good("admin: {address: off, probes: 0.0.0.0:9665}\n");
    assert_eq!(config.admin.probes.map(|probes| probes.to_string()), Some("0.0.0.0:9665".into()));
    for (text, words) in [
        ("admin: {probes: 127.0.0.1:9664}\n", "is also admin.address"),
        ("admin: {probes: 127.0.0.1:9092}\n", "probes is also a listener's"),
        ("admin: {probes: soon}\n", "or off"),
    ] {
        let error = bad(text).to_string();
        assert!(error.contains(words), "{error}");
    }
    good("admin: {address: 127.0.0.1:0, probes: 127.0.0.1:0}\nlisten: [127.0.0.1:0]\n");
}

#[test]
fn admin_hosts_are_names_without_ports() {
    let expected = ["reprise", "reprise.shop.svc"];
    for hosts in ["[reprise, reprise.shop.svc]", "'reprise, reprise.shop.svc'"] {
        assert_eq!(good(&format!("admin: {{hosts: {hosts}}}\n")).admin.hosts, expected);
    }
    for hosts in ["['reprise:9664']", "'http://reprise'", "'a,'", "[{}]"] {
        bad(&format!("admin: {{hosts: {hosts}}}\n"));
    }
}

#[test]
fn named_tokens_have_a_role_and_a_secret() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    let yaml = |text: &str| {
        std::fs::write(&file, text).unwrap();
        format!("admin: {{token_file: '{}'}}\n", file.display())
    };
    let tokens = |text: &str| good(&yaml(text)).admin.tokens;
    let lone = tokens("just-one\n");
    assert_eq!((lone[0].name.as_str(), lone[0].may_change), ("admin", true));
    let required = yaml("just-one\n").replace('}', ", token_on_loopback: required}");
    assert_eq!(good(&required).admin.token_on_loopback, TokenOnLoopback::Required);
    for (word, says) in [("required", "needs token_file"), ("never", "to-change, required")] {
        let error = bad(&format!("admin: {{token_on_loopback: {word}}}\n")).to_string();
        assert!(error.contains(says), "{error}");
    }
    let two = tokens("# people\nkim operate 0123456789abcdef\n\nwall read fedcba9876543210\n");
    let told: Vec<_> = two.iter().map(|token| (token.name.as_str(), token.may_change)).collect();
    assert_eq!(told, [("kim", true), ("wall", false)]);
    assert!(!format!("{two:?}").contains("0123456789abcdef"), "no secret in a log line");
    let secret = "s3cret-s3cret-s3cret";
    for (text, says) in [
        (format!("kim {secret} operate\n"), "line 1: the second word is the role"),
        (format!("kim operate\nwall read {secret}\n"), "line 1: a line is `name role token`"),
        (
            format!("kim operate {secret}\nkim read {secret}2\n"),
            "line 2: the name or the token stands",
        ),
        (format!("k/m operate {secret}\n"), "line 1: a name has at most 64"),
        ("kim operate short\n".to_owned(), "line 1: a token has at least 16"),
        ("# nobody\n".to_owned(), "is empty"),
    ] {
        let error = bad(&yaml(&text)).to_string();
        assert!(error.contains(says), "{error}");
        assert!(!error.contains(secret), "the error shows a secret: {error}");
    }
}

#[test]
fn masks_are_names_of_headers_and_paths() {
    for yaml in [
        "admin: {mask: {headers: [authorization, X-Key], json: [card.number, items.*.iban]}}\n",
        "admin: {mask: {headers: 'authorization,X-Key', json: 'card.number, items.*.iban'}}\n",
    ] {
        let mask = good(yaml).admin.mask;
        assert_eq!(mask.headers, ["authorization", "X-Key"]);
        assert_eq!(mask.json, ["card.number", "items.*.iban"]);
    }
    assert_eq!(good("").admin.mask.json, [""; 0]);
    let many = format!("[{}]", vec!["a"; 65].join(", "));
    for (text, words) in [
        ("{json: [card..number]}", "\"card..number\" is no path"),
        ("{json: ['$.card']}", "such as card.number or items.*.iban"),
        ("{json: 'a,'}", "is no path"),
        ("{headers: 'a,'}", "a name of a header is empty"),
        ("{values: [a]}", "admin.mask.values"),
        (&format!("{{json: {many}}}"), "has 65 paths; 64 are the most"),
    ] {
        let error = bad(&format!("admin:\n  mask: {text}\n")).to_string();
        assert!(error.contains(words) && error.contains("admin.mask"), "{text}: {error}");
        assert!(error.contains("2:"), "the place is named: {error}");
    }
}
