//! Tables of text: each column is as wide as its widest cell. A terminal cuts the widest columns.

use super::terminal_screen::{TerminalScreen, Tone, tone};
use crate::api::Cell;

/// Spaces between two columns.
const GAP: usize = 2;
/// Columns are not cut below this width.
const CELL_WIDTH_MIN: usize = 6;
/// Ranges of characters that take two columns of a terminal (East Asian Width W and F), inclusive.
const WIDE: [(char, char); 9] = [
    ('\u{1100}', '\u{115f}'),
    ('\u{2e80}', '\u{a4cf}'),
    ('\u{ac00}', '\u{d7a3}'),
    ('\u{f900}', '\u{faff}'),
    ('\u{fe30}', '\u{fe6f}'),
    ('\u{ff00}', '\u{ff60}'),
    ('\u{ffe0}', '\u{ffe6}'),
    ('\u{1f300}', '\u{1faff}'),
    ('\u{20000}', '\u{3fffd}'),
];

fn cell_text(cell: &Cell, screen: &TerminalScreen) -> String {
    let text = match cell {
        Cell::Text(text) => text.as_deref().map(defused),
        Cell::State(text) => Some(defused(text)),
        Cell::Time(at_ms) => at_ms.map(|at_ms| screen.time(at_ms)),
    };
    text.unwrap_or_else(|| "-".to_owned())
}

fn cell_tone(cell: &Cell) -> Option<Tone> {
    match cell {
        Cell::State(word) => tone(word),
        Cell::Text(_) | Cell::Time(_) => None,
    }
}

/// Renders rows under their titles; the last column is not padded.
pub(in crate::cli) fn render(
    titles: &[&str],
    rows: &[Vec<Cell>],
    screen: &TerminalScreen,
) -> String {
    let text = |row: &Vec<Cell>| row.iter().map(|cell| cell_text(cell, screen)).collect();
    let texts: Vec<Vec<String>> = rows.iter().map(text).collect();
    let mut widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = texts.iter().filter_map(|row| row.get(column));
            cells.map(|cell| width(cell)).chain([title.len()]).max().unwrap_or(0)
        })
        .collect();
    if let Some(size) = screen.size {
        fit(&mut widths, titles, size.columns);
    }
    let mut out = String::new();
    line(&mut out, screen, titles.iter().map(|title| (*title, None)).zip(&widths));
    for (row, texts) in rows.iter().zip(&texts) {
        let cells = texts.iter().map(String::as_str).zip(row.iter().map(cell_tone));
        line(&mut out, screen, cells.zip(&widths));
    }
    out
}

/// Writes one line of cells with their widths.
fn line<'a>(
    out: &mut String,
    screen: &TerminalScreen,
    cells: impl Iterator<Item = ((&'a str, Option<Tone>), &'a usize)>,
) {
    let mut blanks = 0;
    for ((text, tone), cell_width) in cells {
        let text = cut(text, *cell_width);
        if !text.is_empty() {
            out.extend(std::iter::repeat_n(' ', blanks));
            out.push_str(&screen.paint(&text, tone));
            blanks = 0;
        }
        blanks += (cell_width + GAP).saturating_sub(width(&text));
    }
    out.push('\n');
}

/// Narrows the widest columns until a table fits; a column is never narrower than its title.
fn fit(widths: &mut [usize], titles: &[&str], columns: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    let lowered = |cap: usize, (width, title): (&usize, &&str)| (*width).min(cap.max(title.len()));
    let mut cap = columns.max(CELL_WIDTH_MIN);
    let total = |widths: &[usize], cap: usize| -> usize {
        widths.iter().zip(titles).map(|pair| lowered(cap, pair)).sum()
    };
    while cap > CELL_WIDTH_MIN && total(widths, cap) + gaps > columns {
        cap -= 1;
    }
    for (width, title) in widths.iter_mut().zip(titles) {
        *width = lowered(cap, (width, title));
    }
}

/// A text of at most so many columns; `…` stands for the rest.
pub(in crate::cli) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let (mut out, mut left) = (String::new(), columns.saturating_sub(1));
    for char in text.chars() {
        let Some(rest) = left.checked_sub(char_width(char)) else { break };
        left = rest;
        out.push(char);
    }
    out.push('…');
    out
}

/// Columns that a text takes on a terminal.
pub(in crate::cli) fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

fn char_width(char: char) -> usize {
    match char {
        // Combining marks, joiners and variation selectors.
        '\u{300}'..='\u{36f}' | '\u{200b}'..='\u{200f}' | '\u{fe00}'..='\u{fe0f}' => 0,
        _ if WIDE.iter().any(|(first, last)| (*first..=*last).contains(&char)) => 2,
        _ => 1,
    }
}

/// A text in one line without control characters: records come from anywhere, and a terminal obeys
/// escape sequences.
pub(in crate::cli) fn defused(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::output::terminal_screen::Size;

    fn text(text: &str) -> Cell {
        Cell::Text(Some(text.to_owned()))
    }

    fn terminal(columns: usize) -> TerminalScreen {
        TerminalScreen { size: Some(Size { columns, rows: 24 }), now_ms: 60_000, has_color: true }
    }

    #[test]
    fn columns_line_up_and_escapes_are_defused() {
        let rows = [vec![text("a"), text("x\u{1b}[31m")], vec![text("long"), text("y")]];
        let shown = render(&["K", "V"], &rows, &TerminalScreen::default());
        assert_eq!(shown, "K     V\na     x\u{fffd}[31m\nlong  y\n");
    }

    #[test]
    fn cells_are_cut_on_a_terminal_only() {
        let reason = "no stock ".repeat(20);
        let rows = [vec![text("shop"), Cell::Time(Some(0)), text(&reason)]];
        let titles = ["GROUP", "AT", "REASON"];
        let piped = render(&titles, &rows, &TerminalScreen::default());
        assert!(piped.contains(reason.trim_end()) && piped.contains("1970-01-01T00:00:00Z"));
        let shown = render(&titles, &rows, &terminal(40));
        assert!(shown.lines().all(|line| width(line) <= 40), "{shown}");
        assert!(shown.contains("shop   60 s ago  no stock") && shown.contains('…'), "{shown}");
    }

    #[test]
    fn a_narrow_terminal_keeps_titles() {
        let rows = [vec![text("0123456789"), text("0123456789")]];
        let shown = render(&["IDENTITY", "B"], &rows, &terminal(5));
        assert_eq!(shown, "IDENTITY  B\n0123456…  01234…\n");
    }

    #[test]
    fn states_are_coloured_and_line_up() {
        let state = |word: &str| vec![Cell::State(word.to_owned()), text("x")];
        let shown = render(&["STATE", "K"], &[state("blocked"), state("odd")], &terminal(80));
        assert_eq!(shown, "STATE    K\n\x1b[31mblocked\x1b[0m  x\nodd      x\n");
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!((width("日本"), width("e\u{301}"), width("abc")), (4, 1, 3));
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
    }
}
