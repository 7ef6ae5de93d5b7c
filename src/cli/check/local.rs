//! The check of this host: data directory, free space, addresses, certificates, files, the clock.

use std::path::Path;

use rustix::process::{Resource, getrlimit};
use tokio::net::TcpListener;
use tokio::sync::watch;

use super::finding::Finding;
use super::reserved::ReservedPorts;
use crate::client::Listener;
use crate::clock::Clock;
use crate::config::{Config, Ephemeral};
use crate::journal::DirectoryFacts;
use crate::model::WallMs;
use crate::socket::{ClientTls, ServerTls};

/// With space for fewer segments new records are refused.
const SEGMENTS_LEAST: u64 = 2;
/// With space for fewer segments compaction runs without a rate limit.
const SEGMENTS_SHORT: u64 = 4;
/// Open files of a sidecar besides connections: segments, lookup files, listeners, a port for each
/// broker.
const OTHER_FILES: u64 = 256;
/// A clock before this moment was never set: 2024-01-01.
const CLOCK_LEAST: WallMs = WallMs(1_704_067_200_000);
/// A clock after this moment is wrong: 2100-01-01.
const CLOCK_MOST: WallMs = WallMs(4_102_444_800_000);
/// The wall clock may be this much behind the newest time in the data directory.
const CLOCK_BEHIND_MS: u64 = 60_000;
/// The subject of a finding about the whole host.
const HOST: &str = "this host";

/// The findings, and the ports that stay reserved until the check ends.
pub(super) async fn look(config: &Config, clock: Clock) -> (Vec<Finding>, ReservedPorts) {
    let now = clock.now().wall;
    let mut findings = data_dir(config, now);
    let certificates: Result<Vec<_>, _> =
        (0..config.listen.len()).map(|index| config.listener_tls(index)).collect();
    let tls = certificates.as_deref().unwrap_or_default();
    let reserved = reserve(config, tls, &mut findings).await;
    match &certificates {
        Ok(certificates) => {
            let named = config.listen.iter().zip(certificates);
            findings.extend(named.filter_map(|(listener, tls)| {
                let until = tls.as_ref().and_then(ServerTls::valid_until)?;
                let on = &listener.address.to_string();
                Some(Finding::of_certificate("certificate", on, until, now, ""))
            }));
        }
        Err(error) => findings.push(Finding::fail("certificate", "listen", error.to_string(), "")),
    }
    match config.upstream_tls() {
        Ok(tls) => {
            let until = tls.as_ref().and_then(ClientTls::valid_until);
            findings.extend(
                until.map(|until| {
                    Finding::of_certificate("certificate", "upstream", until, now, "")
                }),
            );
        }
        Err(error) => {
            findings.push(Finding::fail("certificate", "upstream", error.to_string(), ""));
        }
    }
    findings.push(open_files(config));
    findings.extend(dead_letters(config));
    (findings, reserved)
}

/// A finding about dead letters without a bound.
fn dead_letters(config: &Config) -> Option<Finding> {
    let rule = &config.retry.dead_letters;
    let is_bounded = !rule.keep || rule.max_bytes.is_some() || rule.retention.is_some();
    let found = "kept until somebody acts on them; their room on the disk only grows";
    let way_out = "set retry.dead_letters.retention or max_bytes, or watch the alert \
                   RepriseDiskWillFill";
    (!is_bounded).then(|| Finding::warn("dead_letters", HOST, found, way_out))
}

fn data_dir(config: &Config, now: WallMs) -> Vec<Finding> {
    let on = &config.data_dir;
    let place = match DirectoryFacts::look(Path::new(on)) {
        Ok(place) => place,
        // The error itself says what to do.
        Err(error) => return vec![Finding::fail("data_dir", on, error.to_string(), "")],
    };
    let state = if place.exists { "there, and writable" } else { "not there; a start makes it" };
    let mut findings = vec![Finding::ok("data_dir", on, state)];
    if let Some(kind) = place.ephemeral.filter(|_| config.journal.ephemeral == Ephemeral::Refuse) {
        let found = format!("on {kind}, which does not outlive this machine or pod");
        let way_out = "put it on a real volume, or set journal.ephemeral: accept";
        findings.push(if config.upstream.is_some() {
            Finding::fail("data_dir", on, format!("{found}: the sidecar does not start"), way_out)
        } else {
            Finding::warn("data_dir", on, found, way_out)
        });
    }
    findings.extend(place.free_bytes.map(|free| room(config, free)));
    findings.push(wall_clock(now, place.written));
    findings
}

fn room(config: &Config, free_bytes: u64) -> Finding {
    let segment_bytes = config.journal.segment_bytes;
    let mib = |bytes: u64| bytes >> 20;
    let found = |least: u64| {
        let wanted = mib(segment_bytes.saturating_mul(least));
        format!("{} MiB free, {wanted} MiB wanted", mib(free_bytes))
    };
    let more = "make room; in time it takes twice what is live and two segments";
    if free_bytes < segment_bytes.saturating_mul(SEGMENTS_LEAST) {
        let found = format!("{}: new records would be refused", found(SEGMENTS_LEAST));
        return Finding::fail("disk_room", &config.data_dir, found, more);
    }
    if free_bytes < segment_bytes.saturating_mul(SEGMENTS_SHORT) {
        return Finding::warn("disk_room", &config.data_dir, found(SEGMENTS_SHORT), more);
    }
    Finding::ok("disk_room", &config.data_dir, found(SEGMENTS_SHORT))
}

/// Checks the wall clock, because due times are saved by it; Kafka's protocol gives no time to
/// compare with.
fn wall_clock(now: WallMs, written: Option<WallMs>) -> Finding {
    let ntp = "set the clock of this host (NTP) before the start";
    if !(CLOCK_LEAST..CLOCK_MOST).contains(&now) {
        let found = format!("{} ms since 1970 is no present time", now.0);
        return Finding::fail("clock", HOST, found, ntp);
    }
    let behind_ms = written.map_or(0, |written| written.since(now));
    if behind_ms > CLOCK_BEHIND_MS {
        let found = format!(
            "{} s behind the last write to the data directory: what waits would wait longer",
            behind_ms / 1000
        );
        return Finding::warn("clock", HOST, found, ntp);
    }
    Finding::ok("clock", HOST, "plausible, and not behind the data directory")
}

/// Binds the configured addresses as a start does: listeners first, then the admin port and the
/// probe port.
async fn reserve(
    config: &Config,
    certificates: &[Option<ServerTls>],
    findings: &mut Vec<Finding>,
) -> ReservedPorts {
    let mut reserved = ReservedPorts::default();
    for (index, listener) in config.listen.iter().enumerate() {
        let tls = certificates.get(index).cloned().flatten().map(|tls| watch::channel(tls).1);
        let Some(spec) = config.listener(index, tls, None) else { continue };
        let on = &listener.address.to_string();
        findings.push(match Listener::bind(&spec).await {
            Ok(bound) => {
                reserved.add(index, bound, config.upstream.is_some());
                Finding::ok("listen", on, "free")
            }
            Err(error) => Finding::fail("listen", on, error.to_string(), ""),
        });
    }
    let addresses = [
        ("admin", "another admin.address", &config.admin.address),
        ("probes", "another admin.probes", &config.admin.probes),
    ];
    for (name, way_out, address) in addresses {
        let Some(address) = address else { continue };
        let on = &address.to_string();
        findings.push(match TcpListener::bind((address.host.as_str(), address.port)).await {
            Ok(bound) => {
                reserved.admin.push(bound);
                Finding::ok(name, on, "free")
            }
            Err(error) => Finding::fail(name, on, format!("cannot listen: {error}"), way_out),
        });
    }
    reserved
}

fn open_files(config: &Config) -> Finding {
    let clients = u64::try_from(config.limits.connections).unwrap_or(u64::MAX);
    let each = if config.upstream.is_some() { 2 } else { 1 };
    let wanted = clients.saturating_mul(each).saturating_add(OTHER_FILES);
    let Some(most) = getrlimit(Resource::Nofile).current else {
        return Finding::ok("open_files", HOST, "no limit");
    };
    if most < wanted {
        let found = format!(
            "{most} may be open, limits.connections ({clients}) takes up to {wanted}: beyond it \
             connections wait"
        );
        let way_out = "raise the limit (ulimit -n, LimitNOFILE), or lower limits.connections";
        return Finding::warn("open_files", HOST, found, way_out);
    }
    Finding::ok("open_files", HOST, format!("{most} may be open, up to {wanted} are wanted"))
}

#[cfg(test)]
mod tests {
    use super::super::finding::Grade;
    use super::*;

    #[test]
    fn room_is_measured_in_segments() {
        let config = Config::default();
        let segment = config.journal.segment_bytes;
        let grade = |free: u64| room(&config, free).grade;
        assert_eq!((grade(2 * segment - 1), grade(2 * segment)), (Grade::Fail, Grade::Warn));
        assert_eq!((grade(4 * segment - 1), grade(4 * segment)), (Grade::Warn, Grade::Ok));
    }

    #[test]
    fn an_unset_or_set_back_clock_is_reported() {
        let now = WallMs(1_800_000_000_000);
        let grade = |now, written| wall_clock(now, written).grade;
        assert_eq!(grade(now, None), Grade::Ok);
        assert_eq!(grade(WallMs(0), None), Grade::Fail);
        assert_eq!(grade(CLOCK_MOST, None), Grade::Fail);
        assert_eq!(grade(now, Some(now.plus(CLOCK_BEHIND_MS))), Grade::Ok);
        assert_eq!(grade(now, Some(now.plus(CLOCK_BEHIND_MS + 1))), Grade::Warn);
    }

    #[test]
    fn a_client_of_a_cluster_needs_two_open_files() {
        let mut config = Config::default();
        config.limits.connections = 1;
        assert!(open_files(&config).found.ends_with("up to 257 are wanted"));
        config.upstream = Some(crate::config::UpstreamConfig::default());
        assert!(open_files(&config).found.ends_with("up to 258 are wanted"));
        config.limits.connections = usize::MAX;
        assert_eq!(open_files(&config).grade, Grade::Warn);
    }
}
