//! Export of entries to another sidecar.

use std::collections::BTreeMap;

use crate::engine::audit::{AuditLog, AuditRecord};
use crate::engine::command::Request;
use crate::engine::command::operate::number;
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::engine::operator::Operator;
use crate::model::{EntryId, GroupId};
use crate::retry::{ExportOutcome, ExportStep, Fact, LedgerAnswer, LedgerInput};

/// A step of moving entries to another sidecar.
struct Export {
    step: ExportStep,
    ids: Vec<EntryId>,
    by: Operator,
}

impl Engine {
    /// Runs a step of moving entries to another sidecar; durable on return.
    pub async fn export(
        &self,
        step: ExportStep,
        ids: Vec<EntryId>,
        by: Operator,
    ) -> Result<Vec<ExportOutcome>, EngineError> {
        self.call(Export { step, ids, by }).await
    }
}

impl Request for Export {
    type Answer = Vec<ExportOutcome>;

    fn run(self, driver: &mut Driver) -> Result<Vec<ExportOutcome>, EngineError> {
        let Self { step, ids, by } = self;
        driver.may_decide()?;
        let log = AuditLog::open(&driver.journal)?;
        let now = driver.clock.now();
        let (answer, facts) = driver.handle_at(now, LedgerInput::Export { step, ids });
        let Some(LedgerAnswer::Exported(outcomes)) = answer else {
            return Err(EngineError::Stopped);
        };
        let mut audits = Vec::new();
        for (group, facts) in by_group(&facts) {
            let by = (now.wall, by.clone());
            let counts = (number(facts.len()), 0);
            let audit = AuditRecord::of(by, (word(step), group), counts, facts);
            audits.push(log.entry(&audit));
        }
        driver.persist(&facts, &[], audits)?;
        Ok(outcomes)
    }
}

/// The action of a step in the audit log.
fn word(step: ExportStep) -> &'static str {
    match step {
        ExportStep::Begin => "export",
        ExportStep::End => "export_end",
        ExportStep::Undo => "export_undo",
    }
}

/// The changed entries of each group.
fn by_group(facts: &[Fact]) -> BTreeMap<&GroupId, Vec<&Fact>> {
    let mut groups: BTreeMap<&GroupId, Vec<&Fact>> = BTreeMap::new();
    for fact in facts {
        if let Fact::Entry { entry, .. } = fact {
            groups.entry(&entry.group).or_default().push(fact);
        }
    }
    groups
}
