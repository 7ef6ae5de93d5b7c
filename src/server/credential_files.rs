//! Watches the files of certificates, users and tokens, and reads those that change. Kubelet moves
//! the link `..data` to a new directory; others write in place.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use tokio::sync::watch;

use crate::config::Config;
use crate::observe::Metrics;
use crate::server::credentials::{CredentialChannels, CredentialPart};

/// Time between two looks. A change counts once two looks agree: certificate and key are seldom
/// written in one step.
const LOOK: Duration = Duration::from_secs(10);

/// A version of a part's files: their paths, each with device, inode, length and time of change. A
/// missing file has none of these. Nor has a pipe, which must not be read twice.
type Version = Vec<(String, Option<(u64, u64, u64, i64, i64)>)>;

/// The parts of the configuration with the versions of their files.
#[derive(Debug)]
pub(super) struct CredentialFiles(Vec<WatchedPart>);

#[derive(Debug)]
struct WatchedPart {
    part: CredentialPart,
    /// The version at the last look.
    seen: Version,
    /// The version that was read, or refused.
    read: Version,
    is_refused: bool,
}

impl CredentialFiles {
    /// The files as they are now; they are read after this look, so that no change is missed.
    pub(super) fn look(config: &Config) -> Self {
        let watched = |part: CredentialPart| {
            let seen = version(part, config);
            WatchedPart { part, read: seen.clone(), seen, is_refused: false }
        };
        Self(CredentialPart::all(config).into_iter().map(watched).collect())
    }

    /// Runs for as long as the server does.
    pub(super) async fn watch(
        mut self,
        config: watch::Receiver<Config>,
        channels: CredentialChannels,
        metrics: Metrics,
    ) {
        loop {
            tokio::time::sleep(LOOK).await;
            let config = config.borrow().clone();
            self.renew(&config, &channels, &metrics);
        }
    }

    /// Reads each part whose files changed. A part that cannot be used keeps the former content and
    /// does not hold back the others.
    fn renew(&mut self, config: &Config, channels: &CredentialChannels, metrics: &Metrics) {
        let was_refused = self.has_refused();
        for watched in &mut self.0 {
            let now = version(watched.part, config);
            let is_stable = std::mem::replace(&mut watched.seen, now.clone()) == now;
            if !is_stable || watched.read == now {
                continue;
            }
            watched.read = now;
            let renewed = channels.renew(config, [watched.part]);
            watched.is_refused = renewed.is_err();
            if let Err(error) = renewed {
                tracing::warn!(
                    %error,
                    "R0507 a renewed file cannot be used: the former content stays in force; \
                     correct the file, and it is read again by itself"
                );
            }
        }
        if was_refused != self.has_refused() {
            metrics.set_reload_ok(was_refused);
        }
    }

    fn has_refused(&self) -> bool {
        self.0.iter().any(|watched| watched.is_refused)
    }
}

fn version(part: CredentialPart, config: &Config) -> Version {
    let of = |path: String| {
        let meta = fs::metadata(&path).ok().filter(fs::Metadata::is_file);
        let version = meta.map(|m| (m.dev(), m.ino(), m.len(), m.ctime(), m.ctime_nsec()));
        (path, version)
    };
    part.paths(config).into_iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rcgen::{CertifiedKey, KeyPair, generate_simple_self_signed};
    use tokio::time::timeout;

    use super::*;
    use crate::socket::ServerTls;

    const MINUTE: Duration = Duration::from_mins(1);

    /// A directory laid out as kubelet does: `tls.crt` and `tls.key` are links through `..data`.
    fn mounted(secret: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        publish(dir.path(), secret, &made());
        for name in ["tls.crt", "tls.key"] {
            std::os::unix::fs::symlink(format!("..data/{name}"), dir.path().join(name)).unwrap();
        }
        dir
    }

    fn made() -> CertifiedKey<KeyPair> {
        generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap()
    }

    fn publish(dir: &Path, secret: &str, made: &CertifiedKey<KeyPair>) {
        let written = dir.join(secret);
        fs::create_dir(&written).unwrap();
        fs::write(written.join("tls.crt"), made.cert.pem()).unwrap();
        fs::write(written.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        std::os::unix::fs::symlink(secret, dir.join("..data_tmp")).unwrap();
        fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    }

    fn config(dirs: [&Path; 2]) -> Config {
        let listener = |dir: &Path| {
            let (certificate, key) = (dir.join("tls.crt"), dir.join("tls.key"));
            let (certificate, key) = (certificate.display(), key.display());
            format!("{{address: '127.0.0.1:0', tls: {{certificate: {certificate}, key: {key}}}}}")
        };
        let text = format!("listen: [{}]", dirs.map(listener).join(", "));
        Config::parse("t", &text, &[], &[]).unwrap().config
    }

    struct Rig {
        dirs: [tempfile::TempDir; 2],
        config: Config,
        files: CredentialFiles,
        channels: CredentialChannels,
        tls: [watch::Receiver<ServerTls>; 2],
        metrics: Metrics,
    }

    impl Rig {
        fn new() -> Self {
            let dirs = [mounted("..1"), mounted("..1")];
            let config = config([dirs[0].path(), dirs[1].path()]);
            let files = CredentialFiles::look(&config);
            let channels = CredentialChannels::open(&config).unwrap();
            let tls = [0, 1].map(|index| channels.listener(&config, index).unwrap().tls.unwrap());
            Self { dirs, config, files, channels, tls, metrics: Metrics::new(10).unwrap() }
        }

        /// Publishes a pair for the first listener.
        fn publish(&self, secret: &str, made: &CertifiedKey<KeyPair>) {
            publish(self.dirs[0].path(), secret, made);
        }

        fn look(&mut self) {
            self.files.renew(&self.config, &self.channels, &self.metrics);
        }

        /// Looks as often as a change needs. Returns which listeners have another certificate.
        fn renews(&mut self) -> [bool; 2] {
            self.look();
            self.look();
            self.tls.each_mut().map(|tls| {
                let is_new = tls.has_changed().unwrap();
                tls.mark_unchanged();
                is_new
            })
        }

        fn reload_ok(&self) -> bool {
            let text = self.metrics.render().unwrap();
            text.contains("reprise_config_last_reload_successful 1\n")
        }
    }

    #[tokio::test(start_paused = true)]
    #[expect(clippy::disallowed_methods, reason = "the watch runs meanwhile")]
    async fn a_renewed_certificate_is_in_force_within_a_minute() {
        let mut rig = Rig::new();
        let (_config, config) = watch::channel(rig.config.clone());
        let mut tls = rig.tls[0].clone();
        tokio::spawn(std::mem::replace(&mut rig.files, CredentialFiles(Vec::new())).watch(
            config,
            rig.channels.clone(),
            rig.metrics.clone(),
        ));
        timeout(MINUTE, tls.changed()).await.expect_err("nothing has changed");
        rig.publish("..2", &made());
        timeout(MINUTE, tls.changed()).await.unwrap().unwrap();
        timeout(MINUTE, tls.changed()).await.expect_err("it is read once");
    }

    #[test]
    fn a_broken_pair_keeps_the_old_certificate_until_corrected() {
        let mut rig = Rig::new();
        rig.publish("..2", &CertifiedKey { signing_key: KeyPair::generate().unwrap(), ..made() });
        publish(rig.dirs[1].path(), "..2", &made());
        assert_eq!(rig.renews(), [false, true], "one listener does not hold back the other");
        assert!(!rig.reload_ok());
        fs::remove_file(rig.dirs[0].path().join("..data")).unwrap();
        assert_eq!(rig.renews(), [false, false], "the files are missing");
        rig.publish("..3", &made());
        assert!(!rig.reload_ok());
        assert_eq!(rig.renews(), [true, false]);
        assert!(rig.reload_ok());
        assert_eq!(rig.renews(), [false, false], "nothing has changed since");
    }

    #[test]
    fn a_half_written_pair_is_not_read() {
        let mut rig = Rig::new();
        let (new, data) = (made(), rig.dirs[0].path().join("..1"));
        fs::write(data.join("tls.crt"), new.cert.pem()).unwrap();
        rig.look();
        fs::write(data.join("tls.key"), new.signing_key.serialize_pem()).unwrap();
        rig.look();
        assert!(rig.reload_ok(), "the pair is complete before it counts");
        assert_eq!(rig.renews(), [true, false]);
    }
}
