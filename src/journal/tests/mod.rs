//! Tests of the journal, one promise per file.

mod bits;
mod checkpoints;
mod compaction;
mod disk_full;
mod durable;
mod fixture;
mod giving_back;
mod keys;
mod poison;
mod power_cut;
mod quarantine;
mod read_all;
mod reopen;
mod stream;
mod support;
mod torn_end;
