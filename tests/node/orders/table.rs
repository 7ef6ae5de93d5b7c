//! The table of orders in `docs/protocol.md`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::orders::script::Order;

const HEAD: &str = "| order | requests and Kafka's answers | reprise |\n|---|---|---|\n";
/// Requests that make the scene of an order.
const SCENE: [&str; 4] = ["topic ", "init ", "join ", "consume "];

fn page() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/protocol.md")
}

/// The lines of these orders.
pub(crate) fn of(orders: &[Order]) -> String {
    let mut table = String::new();
    for order in orders {
        let steps: Vec<String> = order
            .steps
            .iter()
            .filter(|step| {
                step.answer != "ok" || !SCENE.iter().any(|scene| step.request.starts_with(scene))
            })
            .map(|step| match step.answer.as_str() {
                "ok" => format!("`{}`", step.request),
                answer => format!("`{}` **{answer}**", step.request),
            })
            .collect();
        writeln!(table, "| {} | {} | the same |", order.title, steps.join("; ")).unwrap();
    }
    table
}

/// The lines that the page has.
pub(crate) fn written() -> String {
    let text = fs::read_to_string(page()).unwrap();
    let (_, rest) = text.split_once(HEAD).unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with('|'));
    lines.fold(String::new(), |table, line| table + line + "\n")
}

/// Puts the lines of these orders into the page.
pub(crate) fn write(orders: &[Order]) {
    let text = fs::read_to_string(page()).unwrap();
    let (before, rest) = text.split_once(HEAD).unwrap();
    let old: usize =
        rest.lines().take_while(|line| line.starts_with('|')).map(|line| line.len() + 1).sum();
    let (table, after) = (of(orders), &rest[old..]);
    fs::write(page(), format!("{before}{HEAD}{table}{after}")).unwrap();
}
