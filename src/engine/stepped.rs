//! Answers of an engine that a test steps itself.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Steps within which every answer comes.
const STEPS: usize = 16;

/// Polls `asked` and steps in turn. `None`: no answer came, as after a power cut.
pub(super) fn answered<T>(asked: impl Future<Output = T>, mut step: impl FnMut()) -> Option<T> {
    let mut asked = pin!(asked);
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..STEPS {
        if let Poll::Ready(answer) = asked.as_mut().poll(&mut context) {
            return Some(answer);
        }
        step();
    }
    None
}
