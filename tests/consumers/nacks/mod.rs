//! Produce to a retry topic: the effect of each nack, and its retry.

mod anew;
mod bad;
mod batches;
mod bound;
mod ladder;
mod large;
mod marked;
mod named;
mod posted;
mod reload;
mod renamed;
mod taken;
