//! The promises of the store.

mod fixtures;
mod lockstep;
mod references;
mod replay;
