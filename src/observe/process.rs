//! The `process_*` metrics, read from `/proc`; absent on a system without `/proc`.

use std::fs;

/// Clock ticks per second in `/proc/self/stat` (`USER_HZ`, 100 on every Linux ABI).
const TICKS_PER_SECOND: f64 = 100.0;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Process {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: i64,
    pub(super) virtual_bytes: i64,
    pub(super) open_fds: i64,
    pub(super) max_fds: i64,
    pub(super) threads: i64,
    pub(super) start_seconds: f64,
}

/// Reads all values; `None` when `/proc` is missing or has an unknown format.
pub(super) fn read() -> Option<Process> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The second field, the command in brackets, may hold spaces: fields count from behind it.
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<f64> =
        rest.split_ascii_whitespace().skip(1).map(|f| f.parse().unwrap_or(0.0)).collect();
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let boot = fs::read_to_string("/proc/stat").ok()?;
    Some(Process {
        // Fields 14, 15 and 22 of proc(5); `fields` starts at field 4.
        cpu_seconds: (fields.get(10)? + fields.get(11)?) / TICKS_PER_SECOND,
        start_seconds: fields.get(18)? / TICKS_PER_SECOND + number(&boot, "btime")?,
        resident_bytes: kibibytes(&status, "VmRSS:")?,
        virtual_bytes: kibibytes(&status, "VmSize:")?,
        threads: word(&status, "Threads:")?.parse().ok()?,
        open_fds: i64::try_from(fs::read_dir("/proc/self/fd").ok()?.count()).ok()?,
        max_fds: max_fds().unwrap_or(0),
    })
}

fn word<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(key))?.split_ascii_whitespace().next()
}

fn number(text: &str, key: &str) -> Option<f64> {
    word(text, key)?.parse().ok()
}

fn kibibytes(text: &str, key: &str) -> Option<i64> {
    word(text, key)?.parse::<i64>().ok()?.checked_mul(1024)
}

fn max_fds() -> Option<i64> {
    word(&fs::read_to_string("/proc/self/limits").ok()?, "Max open files")?.parse().ok()
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn the_process_reports_memory_files_and_a_plausible_start() {
        let process = super::read().unwrap();
        assert!(process.resident_bytes > 100_000, "{process:?}");
        assert!(process.virtual_bytes >= process.resident_bytes, "{process:?}");
        assert!(process.open_fds >= 3 && process.max_fds >= process.open_fds, "{process:?}");
        assert!(process.threads >= 1, "{process:?}");
        assert!(process.start_seconds > 1_600_000_000.0, "{process:?}");
    }
}
