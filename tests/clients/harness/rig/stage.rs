//! Stage of one scenario: a directory, a sidecar, names, and clients of one program.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::rig::client::Client;
use crate::rig::cluster::{self, Admin};
use crate::rig::login::Login;
use crate::rig::program::Program;
use crate::rig::scene::Scene;
use crate::rig::sidecar::{CONSUMER_SESSION, PARTITIONS, Sidecar};

/// Longer than any restart of the sidecar.
pub(crate) const LONG_SESSION: Duration = Duration::from_secs(30);
/// Short, so that a killed client soon leaves its group.
pub(crate) const SHORT_SESSION: Duration = Duration::from_secs(3);

pub(crate) struct Stage {
    pub(crate) program: Program,
    pub(crate) dir: PathBuf,
    pub(crate) sidecar: Sidecar,
    pub(crate) scene: Scene,
    pub(crate) login: Option<Login>,
}

impl Stage {
    /// A stage with an empty directory, kept afterwards for its logs.
    pub(crate) fn new(program: Program, name: &str) -> Self {
        Self::with(program, name, Scene::new(), CONSUMER_SESSION)
    }

    /// A stage whose sidecar has the default rules.
    pub(crate) fn by_default_rules(program: Program, name: &str) -> Self {
        Self::by_rules(program, name, "")
    }

    /// A stage whose sidecar has these rules, lines of its configuration.
    pub(crate) fn by_rules(program: Program, name: &str, rules: &str) -> Self {
        let (dir, scene, login) = (empty_dir(program.name, name), Scene::new(), Login::wanted());
        let sidecar = Sidecar::by_rules(&dir, login.as_ref(), CONSUMER_SESSION, rules);
        let stage = Self { program, dir, sidecar, scene, login };
        stage.make_topic(&stage.scene.topic, PARTITIONS);
        stage
    }

    /// A stage with these names; `session` is the timeout of KIP-848 members.
    pub(crate) fn with(program: Program, name: &str, scene: Scene, session: &str) -> Self {
        let dir = empty_dir(program.name, name);
        let login = Login::wanted();
        let sidecar = Sidecar::start(&dir, &scene, login.as_ref(), session);
        let stage = Self { program, dir, sidecar, scene, login };
        if !stage.sidecar.is_the_cluster() {
            stage.make_topic(&stage.scene.topic, PARTITIONS);
        }
        stage
    }

    /// A stage without a cluster, whose user logs in with this SASL mechanism.
    pub(crate) fn with_users(program: Program, name: &str, mechanism: &str) -> Self {
        let (dir, scene) = (empty_dir(program.name, name), Scene::new());
        let login = Some(Login::of_users(&dir, mechanism));
        let sidecar = Sidecar::start(&dir, &scene, login.as_ref(), CONSUMER_SESSION);
        Self { program, dir, sidecar, scene, login }
    }

    /// Creates the topic through the sidecar, or in the cluster where the sidecar needs a login.
    pub(crate) fn make_topic(&self, topic: &str, partitions: i32) {
        let admin = match self.login {
            None => Admin::at(&self.sidecar.address()),
            Some(_) => Admin::direct(),
        };
        admin.make_topic(topic, partitions);
    }

    /// Starts a second sidecar in front of the same cluster.
    pub(crate) fn sidecar_beside(&self) -> Sidecar {
        Sidecar::start(&self.dir.join("beside"), &self.scene, self.login.as_ref(), CONSUMER_SESSION)
    }

    pub(crate) fn client(&self, name: &str, group: &str, session: Duration) -> Client {
        self.client_at(&self.sidecar.address(), (name, group, session), &[])
    }

    /// Starts a client that can be killed and soon leaves its group then.
    pub(crate) fn mortal(&self, name: &str, group: &str) -> Client {
        let (who, at) = ((name, group, SHORT_SESSION), self.sidecar.address());
        Client::process(self.program, &at, &self.dir, who, &self.settings(self.program, &[]))
    }

    /// Starts a client with any bootstrap address and more settings.
    pub(crate) fn client_at(
        &self,
        bootstrap: &str,
        who: (&str, &str, Duration),
        more: &[String],
    ) -> Client {
        self.client_of(self.program, bootstrap, who, more)
    }

    fn client_of(
        &self,
        program: Program,
        bootstrap: &str,
        who: (&str, &str, Duration),
        more: &[String],
    ) -> Client {
        Client::start(program, bootstrap, &self.dir, who, &self.settings(program, more))
    }

    /// Settings of a client: short waits, login, and `more`.
    fn settings(&self, program: Program, more: &[String]) -> Vec<String> {
        let login = self.login.as_ref().map(|login| login.settings(program));
        [program.paced(), login.unwrap_or_default(), more.to_vec()].concat()
    }

    /// Starts a member of the application's group with another program.
    pub(crate) fn member_of(&self, program: Program, name: &str, session: Duration) -> Client {
        let who = (name, self.scene.group.as_str(), session);
        let mut client = self.client_of(program, &self.sidecar.address(), who, &[]);
        client.run(&self.scene.subscription());
        client
    }

    /// Starts a member of the application's group.
    pub(crate) fn member(&self, name: &str, session: Duration) -> Client {
        let mut client = self.client(name, &self.scene.group, session);
        client.run(&self.scene.subscription());
        client
    }

    /// Starts a member with more settings and a long session.
    pub(crate) fn member_with(&self, name: &str, settings: &[String]) -> Client {
        let who = (name, self.scene.group.as_str(), LONG_SESSION);
        let mut client = self.client_at(&self.sidecar.address(), who, settings);
        client.run(&self.scene.subscription());
        client
    }
}

/// Empties the directory of one scenario, which is kept afterwards for its logs.
pub(crate) fn empty_dir(program: &str, name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("clients");
    let dir = root.join(cluster::place()).join(format!("{program}-{name}"));
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}
