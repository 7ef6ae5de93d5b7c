//! Columns of text, each as wide as its widest cell.

/// Longest cell shown; the JSON formats cut nothing.
const CELL_CHARS_MAX: usize = 60;

/// Renders rows under their titles; the last column is not padded.
pub(super) fn render(titles: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|cell| clean(cell)).collect()).collect();
    let widths: Vec<usize> = titles
        .iter()
        .enumerate()
        .map(|(column, title)| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).chain([title.len()]).max().unwrap_or(0)
        })
        .collect();
    let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
    let mut out = String::new();
    for row in std::iter::once(&titles).chain(&rows) {
        let mut line = String::new();
        for (cell, width) in row.iter().zip(&widths) {
            let pad = width.saturating_sub(cell.chars().count()) + 2;
            line.push_str(cell);
            line.push_str(&" ".repeat(pad));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// One line, no control characters (records come from anywhere; a terminal obeys escapes).
pub(super) fn clean(cell: &str) -> String {
    let mut out = defused(&cell.chars().take(CELL_CHARS_MAX).collect::<String>());
    if cell.chars().nth(CELL_CHARS_MAX).is_some() {
        out.push('…');
    }
    out
}

/// The same, of any length.
pub(super) fn defused(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_escapes_are_defused() {
        let rows = [vec!["a".into(), "x\u{1b}[31m".into()], vec!["long".into(), "y".into()]];
        assert_eq!(render(&["K", "V"], &rows), "K     V\na     x\u{fffd}[31m\nlong  y\n");
    }
}
