//! The disk's own latency: 4 KiB appended and fdatasync'd.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use reprise::clock::Clock;

/// Milliseconds of each append during `length`, one after the other.
pub(crate) fn syncs_ms(dir: &Path, length: Duration) -> Vec<f64> {
    let mut file = File::create(dir.join("disk")).unwrap();
    let (clock, bytes, mut took) = (Clock::start(), [7; 4096], Vec::new());
    while clock.elapsed() < length {
        let began = clock.elapsed();
        file.write_all(&bytes).unwrap();
        file.sync_data().unwrap();
        took.push(clock.elapsed().saturating_sub(began).as_secs_f64() * 1e3);
    }
    took
}
