//! Parts of tables: the box in which a wide table scrolls, times, and names with places to break.

use maud::{Markup, html};

use crate::model::utc;

/// A table that scrolls sideways in a box of its own where the window is narrow.
pub(super) fn scroll_table(label: &str, rows: &Markup) -> Markup {
    html! {
        div.table role="group" aria-label=(label) tabindex="0" { table { (rows) } }
    }
}

/// Unix milliseconds as text that stays on one line.
pub(super) fn moment(unix_ms: i64) -> Markup {
    html! { time { (utc(unix_ms)) } }
}

/// The name of a topic or a group: a browser may break it after a dot or an underscore.
pub(super) fn breakable(text: &str) -> Markup {
    html! {
        @for (at, part) in text.split_inclusive(['.', '_']).enumerate() {
            @if at > 0 { wbr; }
            (part)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_breaks_after_its_dots_and_underscores() {
        assert_eq!(breakable("a.b_c-0@1").into_string(), "a.<wbr>b_<wbr>c-0@1");
        assert_eq!(breakable("<.").into_string(), "&lt;.");
        assert_eq!(breakable("").into_string(), "");
    }
}
