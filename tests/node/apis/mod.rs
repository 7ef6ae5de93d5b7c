//! Every API at every advertised version, over TCP.

#[path = "../../hostile_frames/cases.rs"]
#[expect(dead_code, reason = "how requests are read is looked at beside them")]
mod cases;

mod admin;
mod admission;
mod changes;
mod consumers;
mod delayed;
mod fetch;
mod figures;
mod forgotten;
mod groups;
mod letters;
mod login;
mod memory;
mod no_room;
mod offsets;
mod one_node;
mod patterns;
mod produce;
mod settings;
mod side_by_side;
mod times;
mod transactions;
mod versions;
mod whole;
