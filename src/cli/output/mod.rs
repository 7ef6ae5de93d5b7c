//! Output of commands: tables, lines, JSON and the terminal.

pub(super) mod progress_bar;
pub(super) mod redraw;
pub(super) mod row_order;
pub(super) mod show;
pub(super) mod table;
pub(super) mod terminal_screen;
