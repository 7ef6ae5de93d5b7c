//! The style sheet of the page, light and dark, from phone to desktop, and its script.

use axum::http::header;
use axum::response::{IntoResponse, Response};

const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1b1f24; --paper: #fff; --line: #d0d7de; --soft: #f3f5f7;
  --link: #0a58ca; --alarm: #9a1c1c; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --paper: #14181c; --line: #3a424a;
  --soft: #1f252b; --link: #8ab8ff; --alarm: #ff9a94; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; }
header { display: flex; flex-wrap: wrap; gap: .5rem 2rem; align-items: baseline;
  padding: .75rem 1rem;
  border-bottom: 1px solid var(--line); }
header .name { font-weight: 700; color: inherit; text-decoration: none; }
nav a { margin-right: 1rem; } #live { margin-left: auto; font-size: .9rem; }
main { max-width: 72rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; } h2 { font-size: 1.2rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 0; overflow-wrap: anywhere; }
a { color: var(--link); }
p { overflow-wrap: anywhere; }
.table { overflow-x: auto; margin: .5rem 0; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; }
th, td { text-align: left; padding: .35rem .45rem; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { font-weight: 600; }
.number, .short, .chip, time { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; }
.text { overflow-wrap: anywhere; min-width: 7rem; }
td form { width: 10rem; margin: 0; gap: .25rem; }
td label { display: flex; width: 100%; gap: .25rem; align-items: center; }
td input { min-width: 0; width: 100%; }
td input, td button { padding: .1rem .35rem; min-height: 1.7rem; }
a.chip { text-decoration: none; } span.alarm { display: inline-block; }
.chip { display: inline-block; background: var(--soft); border: 1px solid var(--line);
  border-radius: 1rem; padding: 0 .6rem; }
.cause { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem 1rem;
  margin: .75rem 0; }
.cause p { margin: .25rem 0; } .cause label { display: inline-block; margin: .25rem .5rem 0 0; }
.spark { vertical-align: middle; border-bottom: 1px solid var(--line); }
td .spark { width: 4.5rem; } td time { display: block; }
.spark rect { fill: var(--link); }
.alarm { border-left: .3rem solid var(--alarm); padding: .4rem .8rem; background: var(--soft); }
#silent { margin: 0; } progress { vertical-align: middle; accent-color: var(--link); }
.said form { display: inline-flex; margin: 0 0 0 1rem; }
.said { border-left: .3rem solid var(--link); padding: .4rem .8rem; background: var(--soft); }
.empty { background: var(--soft); padding: 1rem; border-radius: .5rem; }
form { display: flex; flex-wrap: wrap; gap: .5rem; align-items: center; margin: .5rem 0; }
form.list { display: block; }
button, input, select { font: inherit; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: .3rem; padding: .3rem .7rem; min-height: 2rem; }
textarea { font: inherit; font-family: monospace; color: inherit; background: var(--soft);
  border: 1px solid var(--line); border-radius: .3rem; padding: .5rem; width: 100%; }
form.edit label:has(textarea) { width: 100%; } summary { cursor: pointer; }
button { cursor: pointer; } button.danger { color: var(--alarm); }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .25rem 1rem; }
dt { font-weight: 600; } dd { margin: 0; overflow-wrap: anywhere; }
pre { background: var(--soft); padding: 1rem; overflow-x: auto; white-space: pre-wrap;
  overflow-wrap: anywhere; }
.mark input { min-height: 0; width: 1.2rem; height: 1.2rem; }
pre.hex { white-space: pre; overflow-wrap: normal; font-size: .85rem; }
dialog { background: var(--paper); color: var(--ink); border: 1px solid var(--line); }
@media (max-width: 40rem) { dl { grid-template-columns: 1fr; } th, td { padding: .3rem; }
  td.text, td:has(wbr) { min-width: 12rem; }
  form.list tr { display: grid; grid-template-columns: 2rem 1fr; border-bottom: 1px solid; }
  form.list td { grid-column: 2; border: 0; text-align: left; }
  form.list td.mark { grid-area: 1 / 1; } form.list th:not(.mark) { display: none; }
  form.list [data-name]::before { content: attr(data-name) ': '; font-weight: 600; }
  form.list time { display: inline; } }
";

const SCRIPT: &str = include_str!("refresh.js");

pub(in crate::admin) async fn style() -> Response {
    file("text/css; charset=utf-8", STYLE)
}

pub(in crate::admin) async fn script() -> Response {
    file("text/javascript; charset=utf-8", SCRIPT)
}

fn file(kind: &'static str, text: &'static str) -> Response {
    let headers = [
        (header::CONTENT_TYPE, kind),
        (header::CACHE_CONTROL, "max-age=3600"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, text).into_response()
}
