//! The reason why nothing is acknowledged, for `/readyz`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
