//! Write calls of a proxy for each readiness event that epoll reports.

use std::fs;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::load::Load;
use crate::proxy::Proxy;
use crate::sheet::Goal;
use crate::tell;

/// Wait until strace traces every thread.
const ATTACHED: Duration = Duration::from_secs(1);

/// Measures and prints; skipped where strace cannot be run.
#[expect(clippy::print_stderr, reason = "standard output is for the figures")]
pub(crate) fn run(proxies: &[Proxy; 2]) {
    let (Some(bare), Some(ours)) = (counted(&proxies[0]), counted(&proxies[1])) else {
        eprintln!("strace cannot be run here: no writes_per_event");
        return;
    };
    tell("writes_per_event", ours, "writes", Some(bare), Goal::Most(1.0));
}

fn counted(proxy: &Proxy) -> Option<f64> {
    let log = tempfile::NamedTempFile::new().unwrap();
    let mut strace = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=epoll_wait,epoll_pwait,sendto,sendmsg,writev", "-o"])
        .arg(log.path())
        .args(["-p", &proxy.pid()?.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .ok()?;
    std::thread::sleep(ATTACHED);
    Load::LOOKED_AT.run(proxy);
    let pid = rustix::process::Pid::from_child(&strace);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    strace.wait().unwrap();
    let (mut writes, mut events) = (0.0, 0.0);
    for line in fs::read_to_string(log.path()).unwrap().lines() {
        let answer = line.rsplit_once("= ").and_then(|(_, n)| n.split(' ').next()?.parse().ok());
        let answer: f64 = answer.filter(|n| *n > 0.0).unwrap_or(0.0);
        if line.contains("epoll_") {
            events += answer;
        } else if answer > 0.0 {
            writes += 1.0;
        }
    }
    (events > 0.0).then_some(writes / events)
}
