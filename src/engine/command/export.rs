//! Export of entries to another sidecar.

use crate::engine::command::{Call, Command, Request};
use crate::engine::driver::Driver;
use crate::engine::error::EngineError;
use crate::engine::handle::Engine;
use crate::model::EntryId;
use crate::retry::{Answer, ExportOutcome, ExportStep, Input, Token};

/// A step of moving entries to another sidecar.
pub(in crate::engine) struct Export {
    step: ExportStep,
    ids: Vec<EntryId>,
}

impl Engine {
    /// Runs a step of moving entries to another sidecar; durable on return.
    pub async fn export(
        &self,
        step: ExportStep,
        ids: Vec<EntryId>,
    ) -> Result<Vec<ExportOutcome>, EngineError> {
        self.call(Export { step, ids }).await
    }
}

impl Request for Export {
    type Answer = Vec<ExportOutcome>;

    fn command(call: Call<Self>) -> Command {
        Command::Export(call)
    }

    fn run(self, driver: &mut Driver) -> Result<Vec<ExportOutcome>, EngineError> {
        let Self { step, ids } = self;
        match driver.ask(Input::Export { token: Token(0), step, ids })? {
            Some(Answer::Exported(outcomes)) => Ok(outcomes),
            _ => Err(EngineError::Stopped),
        }
    }
}
