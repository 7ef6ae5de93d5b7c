//! The order of rows.

use std::cmp::Ordering;

use crate::api::Cell;

/// Compares cells: moments by time, numbers inside texts by value.
pub(in crate::cli) fn compare(a: &Cell, b: &Cell) -> Ordering {
    match (a, b) {
        (Cell::Time(a), Cell::Time(b)) => a.cmp(b),
        (Cell::Time(_), _) => Ordering::Less,
        (_, Cell::Time(_)) => Ordering::Greater,
        (a, b) => natural(words(a), words(b)),
    }
}

fn words(cell: &Cell) -> &str {
    match cell {
        Cell::Text(text) => text.as_deref().unwrap_or_default(),
        Cell::State(text) => text,
        Cell::Time(_) => "",
    }
}

/// Whether a cell is empty; rows with an empty cell are last in any order.
pub(in crate::cli) fn is_absent(cell: &Cell) -> bool {
    matches!(cell, Cell::Time(None) | Cell::Text(None))
}

/// Compares names by the numbers in them: `orders-9@2` is before `orders-10@1`.
fn natural(mut a: &str, mut b: &str) -> Ordering {
    while !a.is_empty() && !b.is_empty() {
        let ((piece_a, rest_a), (piece_b, rest_b)) = (piece(a), piece(b));
        let order = match (number(piece_a), number(piece_b)) {
            // Without leading zeros, the longer one is larger.
            (Some(a), Some(b)) => a.len().cmp(&b.len()).then_with(|| a.cmp(b)),
            _ => piece_a.cmp(piece_b),
        };
        if order.is_ne() {
            return order;
        }
        (a, b) = (rest_a, rest_b);
    }
    a.len().cmp(&b.len())
}

/// The digits at the start, or else one character, and the rest of the text.
fn piece(text: &str) -> (&str, &str) {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let first = text.chars().next().map_or(0, char::len_utf8);
    text.split_at(if digits > 0 { digits } else { first })
}

fn number(piece: &str) -> Option<&str> {
    piece.starts_with(|c: char| c.is_ascii_digit()).then(|| piece.trim_start_matches('0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_inside_of_texts_are_ordered_by_value() {
        for (less, more) in [
            ("9", "10"),
            ("orders-9@2", "orders-10@1"),
            ("2/16", "10/16"),
            ("a", "b"),
            ("a", "a1"),
            ("007", "8"),
            ("99999999999999999999998", "99999999999999999999999"),
            ("é", "日"),
        ] {
            assert_eq!(natural(less, more), Ordering::Less, "{less} {more}");
            assert_eq!(natural(more, less), Ordering::Greater, "{less} {more}");
        }
        assert_eq!(natural("07", "7"), Ordering::Equal);
    }

    #[test]
    fn moments_are_ordered_by_time() {
        let (early, late) = (Cell::Time(Some(9)), Cell::Time(Some(10)));
        assert_eq!(compare(&early, &late), Ordering::Less);
        assert!(is_absent(&Cell::Time(None)) && is_absent(&Cell::Text(None)));
    }
}
