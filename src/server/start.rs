//! The start of the server from a configuration.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, RwLock};

use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::admin::{self, Mask, OperatorTokens};
use crate::broker::Broker;
use crate::broker::error::BrokerError;
use crate::broker::settings::{TopicSpec, spelled};
use crate::client::{Acceptor, LeaveSignal, Listener, accept};
use crate::clock::Clock;
use crate::config::{Config, DrainMode, Ephemeral, HostPort, Payloads, TokenOnLoopback};
use crate::journal::{Disk, Journal, RealDisk};
use crate::model::TopicName;
use crate::model::ms;
use crate::observe::Metrics;
use crate::operations::{JobRunner, Operations, RecordSender};
use crate::route::clients::broker_ports::BrokerPorts;
use crate::route::clients::client_address::Tokens;
use crate::route::clients::member_connections::MemberConnections;
use crate::route::configs::bound_cache::TopicBounds;
use crate::route::groups::members::{self, ReaderTopics};
use crate::route::groups::membership_cache::MembershipCache;
use crate::route::nacks::origin_records::OriginRecordCache;
use crate::route::offsets::cluster_offsets::ClusterOffsetCache;
use crate::route::offsets::commit_markers::Markers;
use crate::route::topics::opened_topics::OpenedTopics;
use crate::route::topics::reserved_names::Names;
use crate::route::transactions::pending_transactions::PendingTransactions;
use crate::route::transactions::transaction_ends;
use crate::route::{self, ProduceDelay, Router, delivery};
use crate::server::core::DurableCore;
use crate::server::credential_files::CredentialFiles;
use crate::server::credentials::CredentialChannels;
use crate::server::housekeeping_rate::JournalThrottle;
use crate::server::limits::{limits, memory, size};
use crate::server::panic_guard::Guard;
use crate::server::running_server::Server;
use crate::server::start_error::StartError;
use crate::server::{
    broker_discovery, data_dir, disk_room, housekeeping, letter_topics, releases, topic_trimming,
};
use crate::socket::Budget;
use crate::wire::names::Templates;

/// Opens the disk of this machine and locks it for this process.
pub(super) fn open_disk(config: &Config) -> Result<Arc<dyn Disk>, StartError> {
    let dir = Path::new(&config.data_dir);
    let disk = RealDisk::open(dir)?;
    if config.journal.ephemeral == Ephemeral::Refuse {
        data_dir::check(dir, config.upstream.is_some())?;
    }
    Ok(disk)
}

/// Starts on the disk and the clock of this machine.
pub(super) async fn start(config: Config) -> Result<Server, StartError> {
    let disk = open_disk(&config)?;
    start_on(config, disk, Clock::start()).await
}

pub(super) async fn start_on(
    config: Config,
    disk: Arc<dyn Disk>,
    clock: Clock,
) -> Result<Server, StartError> {
    let metrics = Metrics::new(config.metrics.max_groups)?;
    let templates = Templates::new(&config.names.retry, &config.names.dead_letters)?;
    let files = CredentialFiles::look(&config);
    let credentials = CredentialChannels::open(&config)?;
    let guard = Guard::new(metrics.clone());
    let (stop, stopped) = watch::channel(false);
    let core = DurableCore::open(&config, &templates, disk, clock, &metrics, &guard)?;
    begin_broker(&core.broker, &config).await?;
    let router = Arc::new(router(&config, templates, &core, &credentials, &metrics, clock));
    router.remember_brokers();
    router.reopen_retry_topics();
    let driver = guard.thread("retry-engine", move || core.driver.run())?;
    core.engine.caught_up().await;
    let (limits, limits_seen) = watch::channel(limits(&config));
    let (draining, told_to_drain) = watch::channel(false);
    let leaving = leaving(&config, &told_to_drain);
    let acceptor = Acceptor::new(Arc::clone(&router), limits_seen, leaving);
    let (config_sent, config_seen) = watch::channel(config.clone());
    core.broker.groups.open();
    let watching = files.watch(config_seen.clone(), credentials.clone(), metrics.clone());
    let mut tasks = Tasks { guard: guard.clone(), stopped: stopped.clone(), all: JoinSet::new() };
    tasks.spawn("group-timers", core.broker.groups.clone().run_timers());
    tasks.spawn("membership", members::run(Arc::clone(&router), core.events));
    spawn_upkeep(&mut tasks, &core.journal, &router, &config);
    tasks.spawn("credential-files", watching);
    let (job_wake, sender) = spawn_jobs(&mut tasks, &router);
    let (listening, doors) =
        listen(&config, &credentials, &acceptor, &router, &stopped, &mut tasks).await?;
    let operations = Operations {
        router: Arc::clone(&router),
        acceptor: acceptor.clone(),
        journal: core.journal.clone(),
        config: config_seen,
        listening: listening.iter().map(|(name, _)| name.clone()).collect(),
        oldest: Arc::default(),
        waiting_counts: Arc::default(),
        draining: told_to_drain,
        panics: guard.panics(),
        job_wake,
        sender,
    };
    let probes = open_probes(&config, &operations, &metrics, &stopped, &mut tasks).await?;
    let admin_terms = (&config, credentials.tokens.clone());
    let admin = open_admin(admin_terms, operations, metrics.clone(), stopped, &mut tasks).await?;
    // After all configured ports are bound, so that no broker port takes one of them.
    broker_discovery::reopen(&router, &doors).await;
    tasks.spawn("broker-discovery", broker_discovery::greet(Arc::clone(&router), doors));
    metrics.set_ready(true);
    Ok(Server {
        router,
        acceptor,
        limits,
        config: config_sent,
        credentials,
        engine: core.engine,
        journal: core.journal,
        stop,
        draining,
        tasks: tasks.all,
        guard,
        threads: std::iter::once(driver).chain(core.writers).collect(),
        listening,
        admin,
        probes,
    })
}

/// Starts the tasks that need no listener.
fn spawn_upkeep(tasks: &mut Tasks, journal: &Journal, router: &Arc<Router>, config: &Config) {
    tasks.spawn("detection", delivery::run(Arc::clone(router)));
    tasks.spawn("member-timers", members::watch(Arc::clone(router)));
    tasks.spawn("transactions", transaction_ends::run(Arc::clone(router)));
    tasks.spawn("dead-letter-lines", housekeeping::log_finals(router.engine.clone()));
    if config.upstream.is_some() {
        let topics = Arc::clone(router);
        tasks.spawn("retry-topics", async move { topics.open_wanted().await });
        for _ in 0..releases::WRITERS {
            let writer = releases::run(Arc::clone(router), tasks.stopped.clone());
            tasks.spawn_unbound("releases", writer);
        }
        tasks.spawn("dead-letter-topics", letter_topics::run(Arc::clone(router)));
        tasks.spawn("topic-trimming", topic_trimming::run(Arc::clone(router)));
    }
    // Before the first scrape, which would read 0 bytes free.
    housekeeping::measure(journal, router);
    let pace = JournalThrottle { segment_bytes: config.journal.segment_bytes };
    let upkeep = housekeeping::run(journal.clone(), Arc::clone(router), pace);
    tasks.spawn("housekeeping", upkeep);
    let room = disk_room::run(journal.clone(), Arc::clone(router), config.data_dir.clone());
    tasks.spawn("disk-room", room);
}

/// A gateway tells its clients to leave once it drains; a sidecar waits for them.
fn leaving(config: &Config, told_to_drain: &watch::Receiver<bool>) -> LeaveSignal {
    match config.drain.mode {
        DrainMode::Sidecar => LeaveSignal::never(),
        DrainMode::Gateway => LeaveSignal::when(told_to_drain.clone()),
    }
}

/// The server's own tasks: each ends with the server and is guarded.
struct Tasks {
    guard: Guard,
    stopped: watch::Receiver<bool>,
    all: JoinSet<()>,
}

impl Tasks {
    fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        self.all.spawn(self.guard.task(name, until(self.stopped.clone(), task)));
    }

    /// A task that checks by itself whether the server stops.
    fn spawn_unbound(
        &mut self,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) {
        self.all.spawn(self.guard.task(name, task));
    }
}

async fn until(mut stop: watch::Receiver<bool>, task: impl Future<Output = ()>) {
    tokio::select! {
        () = task => {}
        _ = stop.wait_for(|stop| *stop) => {}
    }
}

async fn listen(
    config: &Config,
    credentials: &CredentialChannels,
    acceptor: &Acceptor,
    router: &Arc<Router>,
    stopped: &watch::Receiver<bool>,
    tasks: &mut Tasks,
) -> Result<(Vec<(String, SocketAddr)>, Vec<Arc<BrokerPorts>>), StartError> {
    let (mut listening, mut behind) = (Vec::new(), Vec::new());
    let mut known = router.broker.nodes.known();
    let specs = (0..).map_while(|index| credentials.listener(config, index));
    for spec in specs {
        let mut listener = Listener::bind(&spec).await?;
        let port = listener.address.port();
        if listener.binds_all() {
            tracing::info!(
                listener = listener.name,
                "the listener binds every address of this host (0.0.0.0:{port}), because each \
                 client object is told an address of its own in 127/8; a connection to any other \
                 address is dropped before a byte is read (listen[].bind: exact binds one address)"
            );
        }
        let before = known.doors.remove(&port).unwrap_or_default();
        let (doors, asked) = BrokerPorts::new(port, before);
        if config.upstream.is_some() {
            let doors = Arc::new(doors);
            behind.push(Arc::clone(&doors));
            listener = listener.with_doors(doors);
        }
        listening.push((listener.name.clone(), listener.address));
        let accepting = accept(acceptor.clone(), listener, asked, stopped.clone());
        tasks.spawn_unbound("listener", accepting);
    }
    Ok((listening, behind))
}

/// Starts the job runner. Returns its waker, and the sender of its records.
fn spawn_jobs(tasks: &mut Tasks, router: &Arc<Router>) -> (Arc<Notify>, Arc<RecordSender>) {
    let job_wake = Arc::new(Notify::new());
    let sender = Arc::new(RecordSender::new(Arc::clone(router)));
    let runner = JobRunner::new(Arc::clone(router), Arc::clone(&job_wake), Arc::clone(&sender));
    tasks.spawn("jobs", runner.run());
    (job_wake, sender)
}

async fn open_admin(
    (config, operator_tokens): (&Config, OperatorTokens),
    operations: Operations,
    metrics: Metrics,
    stopped: watch::Receiver<bool>,
    tasks: &mut Tasks,
) -> Result<Option<SocketAddr>, StartError> {
    let Some(address) = &config.admin.address else { return Ok(None) };
    let (listener, bound) = bind("admin.address", address).await?;
    let own = std::iter::once(address.host.clone());
    let options = admin::Options {
        show_payloads: config.admin.payloads == Payloads::Show,
        mask: Mask::new(config.admin.mask.headers.clone(), &config.admin.mask.json),
        tokens: operator_tokens,
        loopback_needs_token: config.admin.token_on_loopback == TokenOnLoopback::Required,
        identity_header: config.admin.identity_header.clone(),
        trusted_proxies: config.admin.trusted_proxies.clone(),
        hosts: own.chain(config.admin.hosts.iter().cloned()).collect(),
    };
    tasks.spawn_unbound("admin", async move {
        let stop = until(stopped, std::future::pending());
        admin::serve(listener, operations, metrics, options, stop).await;
    });
    Ok(Some(bound))
}

async fn open_probes(
    config: &Config,
    operations: &Operations,
    metrics: &Metrics,
    stopped: &watch::Receiver<bool>,
    tasks: &mut Tasks,
) -> Result<Option<SocketAddr>, StartError> {
    let Some(address) = &config.admin.probes else { return Ok(None) };
    let (listener, bound) = bind("admin.probes", address).await?;
    let stop = until(stopped.clone(), std::future::pending());
    let serving = admin::serve_probes(listener, operations.clone(), metrics.clone(), stop);
    tasks.spawn_unbound("probes", serving);
    Ok(Some(bound))
}

async fn bind(
    key: &'static str,
    address: &HostPort,
) -> Result<(TcpListener, SocketAddr), StartError> {
    let failed = |cause| StartError::Admin { key, address: address.to_string(), cause };
    let listener =
        TcpListener::bind((address.host.as_str(), address.port)).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

async fn begin_broker(broker: &Broker, config: &Config) -> Result<(), BrokerError> {
    broker.started().await?;
    if config.upstream.is_none() {
        broker.keep_simple_groups();
    }
    make_topics(broker, config).await
}

async fn make_topics(broker: &Broker, config: &Config) -> Result<(), BrokerError> {
    for topic in &config.topics.list {
        // `unlimited` is written out: an absent setting would mean the default of all topics.
        let settings = vec![
            ("retention.ms".to_owned(), spelled(topic.retention.map(ms))),
            ("retention.bytes".to_owned(), spelled(topic.retention_bytes)),
        ];
        let spec =
            TopicSpec { name: TopicName::new(&topic.name), partitions: topic.partitions, settings };
        match broker.topics.create(&spec, Uuid::new_v4()) {
            Ok((_, seq)) => broker.durable(seq).await?,
            Err(BrokerError::TopicExists(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn router(
    config: &Config,
    templates: Templates,
    core: &DurableCore,
    credentials: &CredentialChannels,
    metrics: &Metrics,
    clock: Clock,
) -> Router {
    let budget = Budget::new(memory(config));
    Router {
        broker: Arc::clone(&core.broker),
        engine: core.engine.clone(),
        upstream: config.cluster(credentials.upstream(), &budget, metrics, clock),
        members: MembershipCache::new(config.consumer().session_timeout_ms),
        positions: ClusterOffsetCache::default(),
        transactions: Arc::new(PendingTransactions::default()),
        markers: Markers::default(),
        origins: OriginRecordCache::default(),
        bounds: TopicBounds::default(),
        topic_ids: core.engine.topic_ids(),
        names: names(templates, core),
        tokens: Tokens::new(token_seed()),
        reader_topics: ReaderTopics::default(),
        voices: MemberConnections::default(),
        detectors: core.engine.detectors(),
        topics_behind: OpenedTopics::default(),
        budget,
        metrics: metrics.clone(),
        clock,
        config: route_config(config),
        policies: RwLock::new(config.policies()),
    }
}

fn names(templates: Templates, core: &DurableCore) -> Names {
    let names = Names::new(templates, core.broker.cluster_id());
    for pair in &core.retry_pairs {
        names.register(pair);
    }
    names
}

fn route_config(config: &Config) -> route::NodeConfig {
    route::NodeConfig {
        auto_create: config.topics.auto_create,
        default_partitions: config.topics.default_partitions,
        frame_bytes_max: size(config.limits.frame_bytes),
        fetch_bytes_max: size(config.limits.frame_bytes),
        produce_delay: produce_delay(config),
    }
}

fn produce_delay(config: &Config) -> ProduceDelay {
    let topics = &config.topics;
    let listed = topics.list.iter().map(|topic| (TopicName::new(&topic.name), topic.produce_delay));
    ProduceDelay {
        others: topics.produce_delay,
        listed: listed.collect(),
        ms_max: ms(topics.produce_delay_max),
    }
}

fn token_seed() -> u32 {
    u32::try_from(Uuid::new_v4().as_u128() & 0xffff_ffff).unwrap_or(0)
}
