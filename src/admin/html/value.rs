//! Key, value and headers of one record: as text, as indented JSON, or in hexadecimal, a part at a
//! time.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::cut::{clipped, cut, page_bytes};
use super::table::scroll_table;
use crate::admin::answer::Refusal;
use crate::admin::payload;
use crate::admin::payload::json::{has_members, indented, json_text};
use crate::admin::payload::mask::judge_bytes;
use crate::admin::state::Options;
use crate::operations::Concealment;

/// Room of the value on a page.
const VALUE_ROOM: usize = 48 << 10;
/// The largest JSON value that is indented unless the operator asks for another form.
const INDENTED_MAX: usize = 256 << 10;
/// Bytes of one part in hexadecimal, and of one row.
const HEX_PART: usize = 4 << 10;
const HEX_ROW: usize = 16;
/// Rows of headers on a page, their room, and that of one name or value.
const HEADERS_MAX: usize = 100;
const HEADER_ROOM: usize = 2 << 10;
const HEADERS_ROOM: usize = 24 << 10;

/// The part of a record that a page shows.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::admin) struct RecordQuery {
    /// `text`, `json` or `hex`.
    #[serde(rename = "as")]
    form: Option<String>,
    /// The first byte of the value.
    #[serde(default)]
    from: usize,
    /// The first header.
    #[serde(default)]
    headers: usize,
    /// `all`: the attempts are read from the whole journal, however large.
    pub(super) story: Option<String>,
}

/// A form of bytes on a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueForm {
    Text,
    Json,
    Hex,
}

impl ValueForm {
    const ALL: [Self; 3] = [Self::Text, Self::Json, Self::Hex];

    fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Json => "json",
            Self::Hex => "hex",
        }
    }

    /// Whether the form leaves out what is masked.
    fn is_masked(self) -> bool {
        self != Self::Hex
    }

    /// The form that shows most of a value.
    fn fitting(value: &[u8]) -> Self {
        let is_small = value.len() <= INDENTED_MAX;
        if is_small && json_text(value).is_some_and(has_members) {
            Self::Json
        } else if std::str::from_utf8(value).is_ok() {
            Self::Text
        } else {
            Self::Hex
        }
    }
}

impl RecordQuery {
    /// The requested form, or a refusal that lists the forms.
    fn form(&self, value: &[u8]) -> Result<ValueForm, Refusal> {
        let Some(word) = self.form.as_deref() else { return Ok(ValueForm::fitting(value)) };
        let known = ValueForm::ALL.into_iter().find(|form| form.word() == word);
        known.ok_or_else(|| Refusal::bad(format!("as={word:?} is unknown: text, json or hex")))
    }
}

/// A record, for its page.
#[derive(Clone, Copy, Debug)]
pub(super) struct ShownRecord<'a> {
    /// The page of the record.
    pub(super) path: &'a str,
    pub(super) value: Option<&'a [u8]>,
    pub(super) headers: &'a [(String, Option<Vec<u8>>)],
    /// Whether `admin.payloads` allows records to be shown.
    pub(super) show: bool,
    pub(super) concealment: Concealment,
}

/// Value and headers of a record.
pub(super) fn record(of: ShownRecord<'_>, query: &RecordQuery) -> Result<Markup, Refusal> {
    Ok(html! {
        h2 #value { "Value" }
        (value(of, query)?)
        h2 #headers { "Headers" }
        (headers(of, query.headers))
    })
}

/// A value as a file. The file name is made of our own numbers, never of the record's bytes.
pub(super) fn download(
    value: Option<Vec<u8>>,
    name: &str,
    options: &Options,
) -> Result<Response, Refusal> {
    if !options.show_payloads {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "admin.payloads is hide, and a value is shown to nobody: restart with --set \
             admin.payloads=show",
        ));
    }
    let value = value.ok_or_else(|| Refusal::missing("the record has no value: a tombstone"))?;
    let headers = [
        (header::CONTENT_TYPE, "application/octet-stream".to_owned()),
        (header::CONTENT_DISPOSITION, format!("attachment; filename=\"{name}.bin\"")),
        (header::CONTENT_SECURITY_POLICY, "default-src 'none'; sandbox".to_owned()),
        (header::CACHE_CONTROL, "no-store".to_owned()),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
    ];
    Ok((headers, value).into_response())
}

fn value(of: ShownRecord<'_>, query: &RecordQuery) -> Result<Markup, Refusal> {
    let Some(value) = of.value.filter(|_| of.show) else {
        return Ok(html! { pre { (payload::text(of.value, of.show)) } });
    };
    if of.concealment == Concealment::Whole {
        return Ok(html! {
            p.empty {
                (value.len()) " bytes, hidden: the value is no JSON, in which members that are "
                "masked (admin.mask.json) could be found."
            }
        });
    }
    let form = query.form(value)?;
    let is_whole = of.concealment == Concealment::None;
    if form == ValueForm::Hex {
        judge_bytes(of.concealment)?;
    }
    Ok(html! {
        p {
            (value.len()) " bytes. "
            @for other in ValueForm::ALL.into_iter().filter(|form| is_whole || form.is_masked()) {
                @if other == form {
                    strong { (other.word()) } " "
                } @else {
                    a href={ (of.path) "?as=" (other.word()) "#value" } { (other.word()) } " "
                }
            }
            @if is_whole { a href={ (of.path) "/value" } { "download" } }
        }
        @if !is_whole { p { "Members named by admin.mask.json are masked." } }
        @match form {
            ValueForm::Text => (text_part(of.path, value, query.from)),
            ValueForm::Json => (json(value)),
            ValueForm::Hex => (hex_part(of.path, value, query.from)),
        }
    })
}

fn text_part(path: &str, value: &[u8], from: usize) -> Markup {
    let part = value.get(from..).unwrap_or_default();
    // Four bytes more than fit: a character that the end of the part splits lies behind the cut.
    let end = part.len().min(VALUE_ROOM + 4);
    let text = String::from_utf8_lossy(part.get(..end).unwrap_or_default());
    let cut = cut(&text, VALUE_ROOM);
    let is_text = std::str::from_utf8(value).is_ok();
    let next = cut.rest.filter(|_| is_text).map(|rest| from.saturating_add(rest));
    html! {
        @if !is_text {
            p { "These bytes are not text: the signs � stand for them. Use hex for the rest." }
        }
        pre { (cut.text) }
        (part_links(path, "text", from, next))
    }
}

fn json(value: &[u8]) -> Markup {
    let Some(text) = json_text(value) else {
        return html! { p.empty { "The value is not JSON." } };
    };
    let indented = indented(text, VALUE_ROOM);
    let cut = cut(&indented, VALUE_ROOM);
    html! {
        pre { (cut.text) }
        @if cut.rest.is_some() { p { "The document goes on: see it as text, or download it." } }
    }
}

fn hex_part(path: &str, value: &[u8], from: usize) -> Markup {
    let from = from.min(value.len());
    let from = from - from % HEX_ROW;
    let part = value.get(from..).unwrap_or_default();
    let rows = part.get(..HEX_PART).unwrap_or(part).chunks(HEX_ROW);
    let lines: String = (from..).step_by(HEX_ROW).zip(rows).map(hex_row).collect();
    let next = (part.len() > HEX_PART).then(|| from + HEX_PART);
    html! {
        pre.hex tabindex="0" { (lines) }
        (part_links(path, "hex", from, next))
    }
}

/// A row: the offset, sixteen bytes, and the same as ASCII.
fn hex_row((offset, row): (usize, &[u8])) -> String {
    let digits = |place: usize| {
        let gap = if place.is_multiple_of(8) { " " } else { "" };
        let byte = row.get(place).map_or_else(|| "  ".to_owned(), |byte| format!("{byte:02x}"));
        format!("{gap}{byte} ")
    };
    let digits: String = (0..HEX_ROW).map(digits).collect();
    let letter = |byte: &u8| if matches!(byte, b' '..=b'~') { char::from(*byte) } else { '.' };
    let letters: String = row.iter().map(letter).collect();
    format!("{offset:08x} {digits} |{letters}|\n")
}

/// Links to the first and to the next part of a value.
fn part_links(path: &str, form: &str, from: usize, next: Option<usize>) -> Markup {
    html! {
        @if from > 0 || next.is_some() {
            p {
                "From byte " (from) ". "
                @if from > 0 { a href={ (path) "?as=" (form) "#value" } { "First part" } " " }
                @if let Some(next) = next {
                    a href={ (path) "?as=" (form) "&from=" (next) "#value" } { "Next part" }
                }
            }
        }
    }
}

fn headers(of: ShownRecord<'_>, from: usize) -> Markup {
    let rows = of.headers.iter().skip(from).take(HEADERS_MAX);
    let (mut shown, mut room) = (Vec::new(), HEADERS_ROOM);
    for (name, value) in rows {
        let is_shown = of.show || payload::is_ours(name);
        let value = payload::text(value.as_deref(), is_shown);
        let (name, value) = (clipped(name, HEADER_ROOM), clipped(&value, HEADER_ROOM));
        let taken = page_bytes(&name) + page_bytes(&value);
        if taken > room && !shown.is_empty() {
            break;
        }
        room = room.saturating_sub(taken);
        shown.push((name, value));
    }
    let next = from.saturating_add(shown.len());
    html! {
        @if of.headers.is_empty() {
            p.empty { "The record has no headers." }
        } @else {
            (scroll_table("Headers", &html! { tbody {
                @for (name, value) in &shown { tr { th.text { (name) } td.text { (value) } } }
            } }))
            @if from > 0 || next < of.headers.len() {
                p {
                    (shown.len()) " of " (of.headers.len()) " headers, from " (from) " on. "
                    @if next < of.headers.len() {
                        a href={ (of.path) "?headers=" (next) "#headers" } { "Next headers" }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole() -> ShownRecord<'static> {
        let concealment = Concealment::None;
        ShownRecord { path: "/r", value: None, headers: &[], show: true, concealment }
    }

    fn shown(value: &[u8], query: &RecordQuery) -> String {
        let of = ShownRecord { value: Some(value), ..whole() };
        record(of, query).unwrap().into_string()
    }

    fn query(form: &str, from: usize) -> RecordQuery {
        RecordQuery { form: Some(form.to_owned()), from, ..RecordQuery::default() }
    }

    #[test]
    fn hexadecimal_rows_have_offset_bytes_and_letters() {
        let page = shown(b"ab\0<script>\xff and more", &query("hex", 0));
        let row = "00000000  61 62 00 3c 73 63 72 69  70 74 3e ff 20 61 6e 64  \
                   |ab.&lt;script&gt;. and|";
        assert!(page.contains(row), "{page}");
        let last = format!("00000010  20 6d 6f 72 65 {} | more|", " ".repeat(34));
        assert!(page.contains(&last), "{page}");
    }

    #[test]
    fn parts_of_a_value_are_together_the_whole() {
        let value: String = ('a'..='z').cycle().take(200_000).collect();
        let (mut from, mut seen) = (0, String::new());
        loop {
            let page = shown(value.as_bytes(), &query("text", from));
            let text = page.split("<pre>").nth(1).unwrap().split("</pre>").next().unwrap();
            seen.push_str(text);
            let Some((_, next)) = page.split_once("&amp;from=") else { break };
            from = next.split('#').next().unwrap().parse().unwrap();
        }
        assert_eq!(seen, value);
        assert!(shown(value.as_bytes(), &query("hex", 4096)).contains("00001000"));
        assert!(shown(b"short", &query("hex", usize::MAX)).contains("00000000  73 68"));
        assert!(shown(b"short", &query("text", usize::MAX)).contains("<pre></pre>"));
    }

    #[test]
    fn large_values_and_headers_stay_within_the_page() {
        let quotes = "\"".repeat(10 << 20);
        let json = format!("[{}1]", "\"<\",".repeat(40_000));
        for (value, form) in [(&quotes, "text"), (&quotes, "hex"), (&json, "json")] {
            let size = shown(value.as_bytes(), &query(form, 0)).len();
            assert!(size < 60 << 10, "{form}: {size}");
        }
        let mut headers = vec![("\"".repeat(300), Some(vec![0xff; 300])); 10_000];
        headers.insert(0, (quotes.clone(), Some(vec![0xff; 1 << 20])));
        let of = ShownRecord { headers: &headers, ..whole() };
        let page = record(of, &RecordQuery::default()).unwrap().into_string();
        assert!(page.len() < 60 << 10, "{}", page.len());
        assert!(page.contains("?headers="), "{page}");
    }

    #[test]
    fn the_fitting_form_is_taken_and_others_are_refused() {
        assert_eq!(ValueForm::fitting(b" {\"a\":1}"), ValueForm::Json);
        assert_eq!(ValueForm::fitting(b"12"), ValueForm::Text);
        assert_eq!(ValueForm::fitting(b"\xff"), ValueForm::Hex);
        let refusal = query("xml", 0).form(b"").unwrap_err();
        assert_eq!(refusal.says(), "as=\"xml\" is unknown: text, json or hex");
    }
}
