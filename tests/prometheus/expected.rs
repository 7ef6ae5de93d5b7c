//! The numbers of the dashboard after the story.

/// A number that a query of a panel must have.
pub(crate) struct Exact {
    /// The title of the panel.
    pub(crate) panel: &'static str,
    /// Index of the query in the panel.
    pub(crate) query: usize,
    /// Labels of the series, where there are several.
    pub(crate) labels: &'static [(&'static str, &'static str)],
    pub(crate) value: f64,
}

const fn stat(panel: &'static str, value: f64) -> Exact {
    Exact { panel, query: 0, labels: &[], value }
}

const fn shop(panel: &'static str, query: usize, value: f64) -> Exact {
    Exact { panel, query, labels: &[("group", "shop")], value }
}

/// Failures of `shop`: orders 0, 1 twice, 2, 3, 4, 5. One more of `away`, `late` and `front` each.
pub(crate) const EXACT: &[Exact] = &[
    stat("Ready", 1.0),
    stat("Degraded", 0.0),
    stat("Configuration", 1.0),
    stat("Live members", 2.0),
    stat("Pending", 5.0),
    stat("Breakers open", 0.0),
    stat("Dead letters now", 2.0),
    stat("Unread", 2.0),
    stat("Waiting retries", 2.0),
    stat("Due retries", 1.0),
    stat("Panics", 0.0),
    stat("Failures since start", 10.0),
    stat("Stalled", 0.0),
    stat("Refused nacks", 1.0),
    stat("Scheduled since start", 7.0),
    stat("Redelivered since start", 5.0),
    stat("Acknowledged since start", 2.0),
    stat("Recovered since start", 2.0),
    shop("Failed records by state", 0, 1.0),
    shop("Failed records by state", 1, 0.0),
    shop("Failed records by state", 2, 2.0),
    shop("Failed records by state", 3, 0.0),
    Exact {
        panel: "Waiting or due, by level",
        query: 0,
        labels: &[("group", "shop"), ("level", "4")],
        value: 1.0,
    },
    stat("Delayed records", 0.0),
    stat("Dead-lettered since start", 3.0),
    stat("Redriven since start", 1.0),
    stat("Blocked", 0.0),
    stat("Discarded since start", 0.0),
    shop("Dead letters kept", 0, 1.0),
    stat("Open transactions", 0.0),
    stat("Cluster", 0.0),
    stat("Dead letters stopped", 0.0),
    stat("Write errors", 0.0),
    stat("Torn bytes", 0.0),
    stat("Folded series", 0.0),
];

/// Alerts that fire at once after the story, and how many of each.
pub(crate) const ALERTS: &[(&str, Option<f64>)] = &[
    ("RepriseNewDeadLetters", Some(2.0)),
    ("RepriseDown", None),
    ("RepriseDeadLettersHeld", None),
];
