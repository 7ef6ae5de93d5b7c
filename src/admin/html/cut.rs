//! Text for a page, cut by the room that it takes there: `<` takes four bytes.

/// Text of one cell, in bytes of the page.
const CELL_ROOM: usize = 256;
/// A key on the page of its record.
pub(super) const KEY_ROOM: usize = 2 << 10;

/// The part of a text that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CutText<'a> {
    pub(super) text: &'a str,
    /// The offset of the rest; `None`: nothing is left out.
    pub(super) rest: Option<usize>,
}

/// The first part of a text that takes at most `room` bytes on a page.
pub(super) fn cut(text: &str, room: usize) -> CutText<'_> {
    let mut taken = 0;
    for (at, letter) in text.char_indices() {
        taken += letter_bytes(letter);
        if taken > room {
            return CutText { text: text.get(..at).unwrap_or_default(), rest: Some(at) };
        }
    }
    CutText { text, rest: None }
}

/// A text of one cell, with an ellipsis where it was cut.
pub(super) fn cell(text: &str) -> String {
    clipped(text, CELL_ROOM)
}

/// A text that takes so much room at most, with an ellipsis where it was cut.
pub(super) fn clipped(text: &str, room: usize) -> String {
    let cut = cut(text, room);
    let ellipsis = if cut.rest.is_some() { "…" } else { "" };
    format!("{}{ellipsis}", cut.text)
}

/// Bytes of a text on a page.
pub(super) fn page_bytes(text: &str) -> usize {
    text.chars().map(letter_bytes).sum()
}

fn letter_bytes(letter: char) -> usize {
    match letter {
        '&' => "&amp;".len(),
        '<' | '>' => "&lt;".len(),
        '"' => "&quot;".len(),
        other => other.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_its_bytes_on_the_page() {
        assert_eq!(cut("a<b", 5), CutText { text: "a<", rest: Some(2) });
        assert_eq!(cut("a<b", 6), CutText { text: "a<b", rest: None });
        assert_eq!(cut("é\"é", 2), CutText { text: "é", rest: Some(2) });
        assert_eq!(cut("", 0), CutText { text: "", rest: None });
        assert!(cell(&"<".repeat(500)).ends_with("<…"));
        assert_eq!(cell("short"), "short");
    }
}
