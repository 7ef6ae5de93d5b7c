//! Flags → command → exit code.

fn main() {}
