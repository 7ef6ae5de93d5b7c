//! The figures: one JSON line each.
#![allow(dead_code, reason = "each program uses a part of it")]

use serde_json::{Value, json};

/// What a figure is held against.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Goal {
    /// At least so much.
    Least(f64),
    /// At most so much.
    Most(f64),
    /// Told for comparison only.
    None,
}

/// One figure.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    /// By which program.
    pub(crate) bench: &'static str,
    /// What was measured.
    pub(crate) metric: &'static str,
    /// How much.
    pub(crate) value: f64,
    /// Of what.
    pub(crate) unit: &'static str,
    /// The same, or its lower bound, by the plainest code in the same run.
    pub(crate) baseline: Option<f64>,
    /// What it is held against.
    pub(crate) goal: Goal,
}

impl Figure {
    /// Prints the line.
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

/// The middle one.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// The value that so much of them, in percent, stays below.
pub(crate) fn quantile(values: &mut [f64], share: usize) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = values.len() * share / 100;
    values[at.min(values.len() - 1)]
}

/// Three decimals below 100, none above.
fn rounded(value: f64) -> Value {
    let scale = if value.abs() < 100.0 { 1000.0 } else { 1.0 };
    json!((value * scale).round() / scale)
}
