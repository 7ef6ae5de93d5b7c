//! Printed figures, one JSON line each.
#![allow(dead_code, reason = "each program uses a part of it")]

use serde_json::{Value, json};

/// The bound of a figure.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    Least(f64),
    Most(f64),
    /// Printed for comparison only.
    None,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// Name of the bench program.
    pub(crate) bench: &'static str,
    pub(crate) metric: &'static str,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    /// The value of the baseline in the same run, or a lower bound of it.
    pub(crate) baseline: Option<f64>,
    pub(crate) goal: Goal,
}

impl Figure {
    #[expect(clippy::print_stdout, reason = "the figures are what this program is for")]
    pub(crate) fn print(self) {
        let (goal, ok) = match self.goal {
            Goal::Least(least) => (Some(least), self.value >= least),
            Goal::Most(most) => (Some(most), self.value <= most),
            Goal::None => (None, true),
        };
        let ratio = self.baseline.map(|baseline| self.value / baseline);
        println!(
            "{}",
            json!({
                "bench": self.bench,
                "metric": self.metric,
                "value": rounded(self.value),
                "unit": self.unit,
                "baseline": self.baseline.map(rounded),
                "ratio": ratio.map(rounded),
                "goal": goal,
                "ok": ok,
            })
        );
    }
}

/// The upper middle value of an even number; 0 for none.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// `share` is in percent.
pub(crate) fn quantile(values: &mut [f64], share: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len() * share / 100;
    values[at.min(values.len() - 1)]
}

/// Rounds to three decimals below 100, else to none.
fn rounded(value: f64) -> Value {
    let scale = if value.abs() < 100.0 { 1000.0 } else { 1.0 };
    json!((value * scale).round() / scale)
}
