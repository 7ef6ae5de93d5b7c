//! The durable half of the server, which is recovered before a client is let in.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread;

use crate::broker::groups::{GroupEvent, Groups};
use crate::broker::offsets::OffsetStore;
use crate::broker::settings::TopicSettings;
use crate::broker::topics::Topics;
use crate::broker::{Broker, Expiration};
use crate::clock::Clock;
use crate::config::{Config, ProduceDurability as ConfigDurability};
use crate::engine::{Driver, Engine, EngineParts, Replay, check_start_names};
use crate::journal::{Disk, Durability, Journal, Recovery, Writer};
use crate::model::ms;
use crate::model::{RetryPair, TopicPartition};
use crate::observe::Metrics;
use crate::server::limits::size;
use crate::server::panic_guard::Guard;
use crate::server::probe::JournalProbe;
use crate::server::start_error::StartError;
use crate::wire::names::Templates;

/// The parts with durable state: the journal, the broker and the retry engine.
pub(super) struct DurableCore {
    pub(super) journal: Journal,
    pub(super) broker: Arc<Broker>,
    pub(super) engine: Engine,
    pub(super) driver: Driver,
    /// The writer threads: of the retry tables first, then of the journal.
    pub(super) writers: Vec<thread::JoinHandle<()>>,
    pub(super) retry_pairs: Vec<RetryPair>,
    pub(super) events: tokio::sync::mpsc::UnboundedReceiver<GroupEvent>,
}

impl DurableCore {
    /// Opens the journal and recovers the state of every owner from its own checkpoint.
    pub(super) fn open(
        config: &Config,
        templates: &Templates,
        disk: Arc<dyn Disk>,
        clock: Clock,
        metrics: &Metrics,
        guard: &Guard,
    ) -> Result<Self, StartError> {
        let began = clock.elapsed();
        let mut settings = config.journal_config();
        settings.probe = Arc::new(JournalProbe::new(metrics.clone()));
        let (journal, writer, recovery) = Journal::open(disk, settings)?;
        let writer = guard.thread("journal-writer", move || Writer::run(writer))?;
        let (groups, events) = {
            let now = move || clock.now();
            Groups::new(journal.clone(), config.classic(), config.consumer(), now)
        };
        let broker = Broker::new(
            Topics::new(journal.clone(), topic_settings(config), size(config.limits.frame_bytes)),
            groups,
            OffsetStore::new(journal.clone()),
            journal.clone(),
            durability(config),
            clock,
        );
        let broker = Arc::new(broker.expiring(expiration(config)));
        let parts = EngineParts {
            journal: journal.clone(),
            templates: templates.clone(),
            policies: config.policies(),
            clock,
            metrics: metrics.clone(),
            delayed_bytes_max: config.topics.produce_delay_max_bytes,
            producers_expire_ms: expiration(config).producer_id_ms,
        };
        let mut replay = Replay::new(Some(Replay::tables(&journal)?), &parts);
        // The flusher writes recovered rows to the tables while the recovery goes on.
        let flusher = replay.flusher();
        let flusher = guard.nice_thread("retry-tables", move || flusher.run())?;
        read_back(&recovery, &broker, &mut replay)?;
        replay.check()?;
        let retry_pairs = replay.retry_pairs(templates);
        if let Some(entry) = check_start_names(&journal, templates, replay.has_retries())?
            && let Err(error) = journal.append_reserved(vec![entry])
        {
            tracing::debug!(%error, "the next start stores the names of topics");
        }
        let (engine, driver) = replay.finish(parts);
        let seconds = clock.elapsed().saturating_sub(began).as_secs_f64();
        report(&recovery, metrics, seconds);
        Ok(Self {
            journal,
            broker,
            engine,
            driver,
            writers: vec![flusher, writer],
            retry_pairs,
            events,
        })
    }
}

/// Recovers the broker on a second thread: the recovery of retries waits while rows are written.
fn read_back(recovery: &Recovery, broker: &Broker, replay: &mut Replay) -> Result<(), StartError> {
    let from = broker.replay_from(recovery.checkpointed())?;
    thread::scope(|scope| {
        let beside = scope.spawn(|| recovery.replay(from, &mut |entry, _| broker.replay(entry)));
        recovery.replay(replay.from(), &mut |entry, at| replay.entry(entry, at))?;
        beside.join().unwrap_or_else(|panic| resume_unwind(panic))
    })?;
    for group in broker.offsets.groups() {
        for (topic, partition, committed) in broker.offsets.fetch(&group, None) {
            if let Some(committed) = committed {
                let of = TopicPartition { topic, partition };
                replay.committed(group.clone(), of, committed.offset, committed.metadata);
            }
        }
    }
    Ok(())
}

fn report(recovery: &Recovery, metrics: &Metrics, seconds: f64) {
    metrics.journal_recovered(seconds, recovery.torn_bytes());
    if recovery.torn_bytes() > 0 {
        let bytes = recovery.torn_bytes();
        tracing::info!(
            bytes,
            "the end of the log was torn by a crash and cut; nothing acknowledged was in it"
        );
    }
    for name in recovery.foreign() {
        tracing::info!(file = %name, "a file in the data directory is not ours; it is left alone");
    }
}

fn topic_settings(config: &Config) -> TopicSettings {
    let topics = &config.topics;
    TopicSettings {
        retention_ms: topics.retention.map(ms),
        retention_bytes: topics.retention_bytes,
        max_message_bytes: size(topics.max_message_bytes),
    }
}

fn expiration(config: &Config) -> Expiration {
    Expiration {
        producer_id_ms: ms(config.topics.producer_id_expiration),
        transactional_id_ms: ms(config.topics.transactional_id_expiration),
    }
}

fn durability(config: &Config) -> Durability {
    match config.topics.durability {
        ConfigDurability::Fsync => Durability::Fsync,
        ConfigDurability::Os => Durability::Os,
    }
}
