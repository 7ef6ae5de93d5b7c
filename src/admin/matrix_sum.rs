//! The counts of several groups: `GET /api/v1/matrix`.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query as FromQuery, State};
use axum::http::StatusCode;
use axum::response::Response;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answer::{Refusal, json_answer};
use super::matrix::{COUNTED_MAX, Matrix};
use super::source::{Source, Unavailable};
use super::state::Admin;
use super::views::GroupView;

/// Groups that a sum counts, and the groups of which it learns whether they have entries.
const SUM_GROUPS_MAX: usize = 50;
const GROUPS_MAX: usize = 500;
/// Time after which a sum counts no further group.
const TIME_MAX_MS: i64 = 50;

/// The counts of several groups.
#[derive(Debug, Default)]
pub(super) struct MatrixSum {
    pub(super) parts: Vec<(String, Matrix)>,
    /// Groups with entries that were not counted.
    pub(super) left: usize,
}

impl MatrixSum {
    pub(super) fn of_group(group: &str, matrix: Matrix) -> Self {
        Self { parts: vec![(group.to_owned(), matrix)], left: 0 }
    }

    /// Counts groups until the sum has read as many entries as the count of one group may, or has
    /// taken its time. Counts are remembered, so the next sum reaches further groups.
    pub(super) async fn of_groups<S: Source>(
        source: &S,
        groups: &[GroupView],
    ) -> Result<Self, Unavailable> {
        let most = u64::try_from(COUNTED_MAX).unwrap_or(u64::MAX);
        let (mut sum, mut entries) = (Self::default(), 0);
        let until_ms = source.now_ms().saturating_add(TIME_MAX_MS);
        for group in groups {
            let more = group.pending.min(most) + group.dead_letters.min(most);
            let is_late = sum.is_counting() || source.now_ms() > until_ms;
            if is_late || sum.parts.len() == SUM_GROUPS_MAX || entries + more > 2 * most {
                sum.left += usize::from(more > 0);
            } else if more > 0 {
                sum.parts.push((group.group.clone(), source.matrix(&group.group).await?));
                entries += more;
            }
        }
        Ok(sum)
    }

    pub(super) fn is_counting(&self) -> bool {
        self.parts.iter().any(|(_, matrix)| matrix.is_counting)
    }

    pub(super) fn is_waiting_cut(&self) -> bool {
        self.parts.iter().any(|(_, matrix)| matrix.is_waiting_cut)
    }

    pub(super) fn is_dead_cut(&self) -> bool {
        self.parts.iter().any(|(_, matrix)| matrix.is_dead_cut)
    }

    fn json(&self) -> Value {
        let mut all = Matrix::default();
        self.parts.iter().for_each(|(_, matrix)| all.add(matrix));
        json!({
            "groups": self.parts.len(),
            "groups_left": self.left,
            "waiting": all.waiting_json(),
            "counting": all.is_counting,
            "waiting_cut": all.is_waiting_cut,
            "dead": all.dead_json(),
            "dead_cut": all.is_dead_cut,
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MatrixQuery {
    group: Option<String>,
}

/// The counts of one group, or the sums of all groups.
pub(super) async fn counts<S: Source>(
    State(admin): State<Arc<Admin<S>>>,
    asked: Result<FromQuery<MatrixQuery>, QueryRejection>,
) -> Result<Response, Refusal> {
    let FromQuery(query) = asked.map_err(|error| Refusal::bad(error.body_text()))?;
    let source = &admin.source;
    let sum = if let Some(group) = query.group {
        if source.group(&group).await?.is_none() {
            return Err(Refusal::unknown_group(&group));
        }
        MatrixSum::of_group(&group, source.matrix(&group).await?)
    } else {
        let ids = source.group_ids().await?;
        let unread = ids.len().saturating_sub(GROUPS_MAX);
        let mut groups = Vec::new();
        for id in ids.into_iter().take(GROUPS_MAX) {
            groups.extend(source.group(&id).await?);
        }
        let sum = MatrixSum::of_groups(source, &groups).await?;
        MatrixSum { left: sum.left + unread, ..sum }
    };
    Ok(json_answer(StatusCode::OK, &sum.json()))
}
