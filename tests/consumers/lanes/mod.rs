//! The retry topic of a group, as members and other clients see it.

mod assigned;
mod consumers;
mod handed;
mod members;
mod replayed;
mod seen;
mod single;
mod states;
