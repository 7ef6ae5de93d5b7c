//! Tokens of operators: the form, each route without one, and with a wrong one.

use crate::page::{browse, head_of, page, send};
use crate::support::Server;

#[test]
fn a_browser_logs_in_and_out_with_a_token() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, "wall read 0123456789abcdef\n").unwrap();
    let server = Server::with(&format!("admin: {{token_file: '{}'}}", file.display()));
    assert!(page(&server, "/login").contains("type=\"password\""));
    let (status, _, body) = browse(&server, "POST", "/login", "token=wrong");
    assert_eq!((status, body.contains("This is no token of this sidecar.")), (401, true));
    let (status, head, _) = browse(&server, "POST", "/login", "token=0123456789abcdef");
    assert_eq!(status, 303);
    let cookie = head.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    assert!(cookie.contains("httponly; samesite=strict"), "{cookie}");
    let session = cookie.split(';').next().unwrap().to_owned();
    let with = |method: &str, path: &str, form: &str, site: &str| {
        let headers = format!("Cookie: {session}\r\nSec-Fetch-Site: {site}\r\n{}", head_of(form));
        send(&server, method, path, &headers, form)
    };
    assert!(with("GET", "/login", "", "same-origin").2.contains("You are <strong>wall</strong>"));
    let act = "verb=discard&offsets=0&note=";
    let (status, _, says) = with("POST", "/groups/shop/act", act, "same-origin");
    assert_eq!((status, says.contains("the token of wall may only read")), (403, true), "{says}");
    assert_eq!(with("POST", "/logout", "x=", "cross-site").0, 403);
    assert_eq!(with("POST", "/logout", "x=", "same-origin").0, 303);
    assert!(with("GET", "/login", "", "same-origin").2.contains("type=\"password\""));
}

/// Routes of the JSON API, forms of the page, and probes; parameters are filled in.
fn routes(server: &Server) -> Vec<(&'static str, String)> {
    let operator = "Authorization: Bearer fedcba9876543210\r\n";
    let list = send(server, "GET", "/nowhere", operator, "").2;
    let list: serde_json::Value = serde_json::from_str(&list).unwrap();
    let texts = list["routes"].as_array().unwrap().iter().map(|route| route.as_str().unwrap());
    let forms = ["/groups/shop/act", "/groups/shop/jobs", "/jobs/1/act"];
    let pages = ["/", "/jobs", "/journal", "/audit", "/groups/shop", "/style.css"];
    let of = |text: &str| {
        let (method, path) = text.split_once(' ').unwrap_or(("GET", text));
        let path = path.split('?').next().unwrap();
        let path = path.replace("{group}", "shop").replace("{offset}", "0").replace("{id}", "1");
        let verb = path.find('{').map_or(String::new(), |at| path[at + 1..].replace('}', ""));
        let path = path.split('{').next().unwrap().to_owned() + verb.split('|').next().unwrap();
        (if method == "POST" { "POST" } else { "GET" }, path)
    };
    let forms = forms.iter().map(|form| ("POST", (*form).to_owned()));
    let pages = pages.iter().map(|page| ("GET", (*page).to_owned()));
    texts.map(of).chain(forms).chain(pages).collect()
}

#[test]
fn a_wrong_token_is_refused_on_every_route() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("tokens");
    std::fs::write(&file, "wall read 0123456789abcdef\nkim operate fedcba9876543210\n").unwrap();
    let required = ", token_on_loopback: required";
    for (terms, reads_without) in [("", true), (required, false)] {
        let yaml = format!("admin: {{token_file: '{}'{terms}}}", file.display());
        let server = Server::with(&yaml);
        let probes = ["/livez", "/readyz", "/startupz", "/metrics", "/version", "/drain"];
        let routes = routes(&server);
        assert!(routes.len() > 39, "{routes:?}");
        for (method, path) in &routes {
            let is_post = *method == "POST";
            let status = |headers: &str| {
                let form = if is_post { "verb=redrive&offsets=0&note=" } else { "" };
                send(&server, method, path, &format!("{headers}{}", head_of(form)), form).0
            };
            for wrong in ["Bearer wrong", "Bearer", "Basic a2ltOng=", "0123456789abcdef"] {
                let wrong = format!("Authorization: {wrong}\r\n");
                assert_eq!(status(&wrong), 401, "{method} {path} with {wrong}");
            }
            let is_open = probes.contains(&path.as_str()) || path == "/style.css";
            let refused = is_post || !reads_without && !is_open;
            let same = "Sec-Fetch-Site: same-origin\r\n";
            assert_eq!(status(same) == 401, refused, "{method} {path} without a token");
            let reader = status("Authorization: Bearer 0123456789abcdef\r\n");
            assert_eq!([401, 403].contains(&reader), is_post, "{method} {path} of a reader");
            let operator = status("Authorization: bearer fedcba9876543210\r\n");
            assert!(![401, 403].contains(&operator), "{method} {path} of an operator: {operator}");
        }
        let form = "verb=discard&offsets=0&note=";
        let (status, _, body) = browse(&server, "POST", "/groups/shop/act", form);
        assert_eq!((status, body.contains("type=\"password\"")), (401, true), "{body}");
    }
}
