//! Retries that wait, are released into the retry topic of their group, and are read there.

mod divided;
mod members;
mod replayed;
mod retry_topic;
mod states;
