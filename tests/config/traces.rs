//! `traces`: valid collector addresses, and no secret in an error.

use reprise::config::Config;

use super::{bad, pairs};

#[test]
fn a_build_without_export_refuses_traces() {
    let text = "traces: {endpoint: 'http://127.0.0.1:4318'}\n";
    let parsed = Config::parse("test.yaml", text, &[], &[]);
    if cfg!(feature = "otlp") {
        assert!(parsed.is_ok());
    } else {
        let error = parsed.unwrap_err().to_string();
        for words in ["test.yaml:1", "traces: this build has no OTLP export", "--features otlp"] {
            assert!(error.contains(words), "{words} is missing in {error}");
        }
    }
}

#[test]
fn bad_traces_are_refused_with_their_place() {
    for (text, words) in [
        ("traces: {}\n", "traces.endpoint: is missing"),
        ("traces: {endpoint: collector}\n", "traces.endpoint: \"collector\" begins with neither"),
        ("traces: {endpoint: 'http://u:p@a'}\n", "traces.endpoint: has a user in it"),
        ("traces: {endpoint: 'http://a', sample: 2}\n", "traces.sample: expected a share"),
        ("traces: {endpoint: 'http://a', sample: 0.0001}\n", "traces.sample: expected a share"),
        ("traces: {endpoint: 'http://a', headers: [a]}\n", "traces.headers: expected names"),
        ("traces: {endpoint: 'http://a', sampel: 1}\n", "did you mean sample?"),
    ] {
        let error = bad(text).to_string();
        assert!(error.contains(words), "{words} is missing in {error}");
    }
}

#[test]
fn the_value_of_a_header_is_never_shown() {
    let hidden = |text: &str, words: &str| {
        let env = pairs(&[("TOKEN", "hush"), ("LINES", "hush\r\nX: hush")]);
        let error = Config::parse("test.yaml", text, &env, &[]).unwrap_err().to_string();
        assert!(error.contains(words), "{words} is missing in {error}");
        assert!(!error.contains("hush"), "{error}");
    };
    let headers = |headers: &str| format!("traces: {{endpoint: 'http://a', headers: {headers}}}\n");
    hidden(&headers("{authorization: hush}"), "traces.headers.authorization: a value may be");
    hidden(&headers("{a: '${env:LINES}'}"), "traces.headers: a: its value has other characters");
    hidden(&headers("{host: '${env:TOKEN}'}"), "traces.headers: host: is set by reprise itself");
    hidden(&headers("{'a b': '${env:TOKEN}'}"), "is no name of an HTTP header");
}
