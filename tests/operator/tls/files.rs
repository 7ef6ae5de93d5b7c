//! Unusable certificate and key files: all are reported at load, with the file and the next step.

use std::fs;

use reprise::config::{Config, ConfigError};

use crate::tls::authority::{Authority, HOST};

/// The loader reads only the label of this PEM block.
const LOCKED: &[u8] =
    b"-----BEGIN ENCRYPTED PRIVATE KEY-----\nMA==\n-----END ENCRYPTED PRIVATE KEY-----\n";

fn bad(yaml: &str) -> ConfigError {
    Config::parse("test.yaml", yaml, &[], &[]).unwrap_err()
}

fn says(yaml: &str, words: &[&str]) {
    let shown = bad(yaml).to_string();
    for word in words {
        assert!(shown.contains(word), "{word:?} is missing in:\n{shown}");
    }
}

fn listen(certificate: &str, key: &str) -> String {
    format!("listen: [{{address: a:1, tls: {{certificate: {certificate}, key: {key}}}}}]\n")
}

#[test]
fn a_bad_tls_file_is_reported_with_name_and_remedy() {
    let authority = Authority::new();
    let (one, other) = (authority.signs("one", &[HOST]), authority.signs("other", &[HOST]));
    let (certificate, key) = (one.certificate.display().to_string(), one.key.display().to_string());
    let at = |name: &str, bytes: &[u8]| {
        let path = authority.dir().join(name);
        fs::write(&path, bytes).unwrap();
        path.display().to_string()
    };
    let whole = fs::read_to_string(&one.certificate).unwrap();
    let cut = at("cut.pem", &whole.as_bytes()[..whole.len() / 2]);
    let nonsense = whole.replace("MII", "AAA");
    for (certificate, key, words) in [
        ("none.pem", key.as_str(), ["1:44: listen[0].tls.certificate: none.pem does not exist"]),
        (authority.dir().to_str().unwrap(), &key, ["is not a file"]),
        (&at("empty.pem", b""), &key, ["holds no certificate; expected PEM with -----BEGIN"]),
        (&at("text.pem", b"hello"), &key, ["text.pem holds no certificate"]),
        (&at("der.pem", &one.der()), &key, ["found DER or PKCS#12; openssl x509"]),
        (&cut, &key, ["cut.pem is cut off: a line with -----END is missing"]),
        (&at("other.pem", nonsense.as_bytes()), &key, ["begins with a certificate that cannot be"]),
        (&key, &certificate, ["one.key holds no certificate"]),
        (&certificate, &certificate, ["one.pem holds no private key; expected PEM with"]),
        (&certificate, "none.key", ["listen[0].tls.key: none.key does not exist"]),
        (&certificate, &other.key.display().to_string(), ["is not the key of the first cert"]),
        (
            &certificate,
            &at("locked.key", LOCKED),
            ["locked.key is encrypted and there is nobody to ask for the password"],
        ),
    ] {
        says(&listen(certificate, key), &words);
    }
}

#[test]
fn certificate_and_key_are_checked_together_and_missing_files_named() {
    let shown = bad(&listen("none.pem", "none.key")).to_string();
    assert!(shown.contains("none.pem") && shown.contains("none.key"), "{shown}");
    says("listen: [{address: a:1, tls: {}}]\n", &["tls.certificate: is missing", "tls.key: is"]);
    says("upstream: {bootstrap: a:1, tls: {key: x}}\n", &["upstream.tls.certificate: is missing"]);
    says("upstream: {bootstrap: a:1, tls: {ca: none.pem}}\n", &["1:38: upstream.tls.ca: none.pem"]);
}

#[test]
fn a_client_ca_without_a_certificate_prevents_the_start() {
    let authority = Authority::new();
    let made = authority.signs("one", &[HOST]);
    let ca = format!(", client_ca: {}", made.key.display());
    says(&made.listen(&ca), &["tls.client_ca: ", "one.key holds no certificate"]);
}

#[test]
fn an_expired_certificate_is_a_warning_with_its_date() {
    let authority = Authority::new();
    let yaml = authority.signed_long_ago().listen("");
    let loaded = Config::parse("test.yaml", &yaml, &[], &[]).unwrap();
    assert_eq!(
        loaded.warnings,
        ["listen[0].tls.certificate: has expired, on 2020-12-31 00:00 UTC; renew it"]
    );
    let fresh = authority.signs("fresh", &[HOST]).listen("");
    assert!(Config::parse("test.yaml", &fresh, &[], &[]).unwrap().warnings.is_empty());
}

#[test]
fn nothing_turns_the_check_of_brokers_off() {
    let authority = Authority::new();
    let with = |verify: &str| {
        let ca = authority.ca().display().to_string();
        format!("upstream: {{bootstrap: a:1, tls: {{ca: {ca}, verify: {verify}}}}}\n")
    };
    assert!(Config::parse("test.yaml", &with("true"), &[], &[]).is_ok());
    for other in ["false", "off", "none", "0", "''"] {
        says(&with(other), &["upstream.tls.verify: brokers are always verified; put the cert"]);
    }
}
