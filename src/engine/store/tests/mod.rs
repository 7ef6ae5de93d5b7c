//! Tests of the store.

mod fixtures;
mod lockstep;
mod pages;
mod references;
mod replay;
