//! The reason why nothing is acknowledged, for `/readyz`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The reason, shared by the handle and the driver.
#[derive(Clone, Debug, Default)]
pub(super) struct EngineTrouble(Arc<Mutex<Option<Reason>>>);

#[derive(Clone, Debug)]
struct Reason {
    text: String,
    /// Only a restart ends it.
    is_final: bool,
}

impl EngineTrouble {
    /// Sets the reason, unless there is one: later reasons follow from the first.
    pub(super) fn begin(&self, text: &str) {
        self.lock().get_or_insert_with(|| Reason { text: text.to_owned(), is_final: false });
    }

    /// Makes the reason final: only a restart ends it.
    pub(super) fn stay(&self, text: &str) {
        let mut reason = self.lock();
        if reason.as_ref().is_none_or(|reason| !reason.is_final) {
            *reason = Some(Reason { text: text.to_owned(), is_final: true });
        }
    }

    /// Clears a reason that is not final.
    pub(super) fn end(&self) {
        self.lock().take_if(|reason| !reason.is_final);
    }

    pub(super) fn reason(&self) -> Option<String> {
        self.lock().as_ref().map(|reason| reason.text.clone())
    }

    /// The final reason, if any.
    pub(super) fn final_reason(&self) -> Option<String> {
        self.lock().as_ref().filter(|reason| reason.is_final).map(|reason| reason.text.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Reason>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
