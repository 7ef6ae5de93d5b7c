//! The reason why nothing is acknowledged, for `/readyz`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::engine::driver::Driver;
use crate::engine::error::EngineError;

/// Shared by the handle and the driver.
#[derive(Clone, Debug, Default)]
pub(super) struct Trouble(Arc<Mutex<Option<Reason>>>);

#[derive(Clone, Debug)]
struct Reason {
    text: String,
    /// Only a restart helps.
    is_final: bool,
}

impl Trouble {
    /// The first reason stays: later ones follow from it.
    pub(super) fn begin(&self, text: &str) {
        self.lock().get_or_insert_with(|| Reason { text: text.to_owned(), is_final: false });
    }

    /// Only a restart helps now.
    pub(super) fn stay(&self, text: &str) {
        let mut reason = self.lock();
        if reason.as_ref().is_none_or(|reason| !reason.is_final) {
            *reason = Some(Reason { text: text.to_owned(), is_final: true });
        }
    }

    /// Ends a trouble that passes.
    pub(super) fn end(&self) {
        self.lock().take_if(|reason| !reason.is_final);
    }

    pub(super) fn reason(&self) -> Option<String> {
        self.lock().as_ref().map(|reason| reason.text.clone())
    }

    /// The reason for which only a restart helps.
    pub(super) fn final_reason(&self) -> Option<String> {
        self.lock().as_ref().filter(|reason| reason.is_final).map(|reason| reason.text.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reason>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Driver {
    /// Whether decisions of the machine may be believed.
    pub(super) fn usable(&self) -> Result<(), EngineError> {
        if let Some(why) = &self.ahead {
            return Err(EngineError::Ahead(why.clone()));
        }
        let Some(why) = self.machine.store().failed() else { return Ok(()) };
        let error = EngineError::Tables(why);
        self.trouble.begin(&error.to_string());
        Err(error)
    }

    /// Whether a new decision may be made. A decision that is made already is journalled as long
    /// as the store is usable.
    pub(super) fn may_decide(&mut self) -> Result<(), EngineError> {
        self.usable()?;
        if self.is_crowded() { Err(EngineError::Crowded) } else { Ok(()) }
    }

    /// A decision did not come into the log. The renewal of a failed store forgets it; otherwise
    /// a restart has to.
    pub(super) fn stop(&mut self, why: &EngineError) {
        if !self.is_renewing() {
            self.give_up(why);
        }
    }

    /// Only a restart helps.
    pub(super) fn give_up(&mut self, why: &EngineError) {
        tracing::error!(
            error = %why,
            "R0402 the retry engine stops acknowledging until a restart: restart reprise, \
             everything acknowledged is in the log"
        );
        self.ahead = Some(why.to_string());
        self.trouble.stay(&EngineError::Ahead(why.to_string()).to_string());
    }
}
