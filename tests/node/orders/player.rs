//! Plays requests on one broker and puts its answers into words.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::SocketAddr;

use kafka_protocol::messages::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopics,
};
use kafka_protocol::messages::offset_fetch_response::OffsetFetchResponsePartitions;
use kafka_protocol::messages::{DeleteTopicsRequest, FindCoordinatorRequest, OffsetFetchRequest};
use reprise::route::code;
use reprise::wire::ResponseError;

use crate::orders::groups::GroupMember;
use crate::orders::producers::TransactionalProducer;
use crate::orders::script::{RequestedOffset, Words};
use crate::support::client::s;
use crate::support::{Client, instant};

/// An empty name in a script.
const EMPTY: &str = "''";
/// Errors until Kafka has finished an earlier request: the request is sent again.
const RETRIABLE: [&str; 4] = [
    "CONCURRENT_TRANSACTIONS",
    "COORDINATOR_NOT_AVAILABLE",
    "COORDINATOR_LOAD_IN_PROGRESS",
    "NOT_COORDINATOR",
];
/// Time in which a request is sent again, seconds.
const RETRY_S: u64 = 15;

/// One client of a broker; each order has names of its own there.
pub(crate) struct Player {
    pub(crate) client: Client,
    pub(crate) address: SocketAddr,
    prefix: String,
    pub(crate) producers: BTreeMap<String, TransactionalProducer>,
    pub(crate) members: BTreeMap<String, GroupMember>,
}

impl Player {
    pub(crate) fn new(address: SocketAddr, prefix: String) -> Self {
        let client = Client::connect(address);
        let (producers, members) = (BTreeMap::new(), BTreeMap::new());
        Self { client, address, prefix, producers, members }
    }

    /// The broker was started again.
    pub(crate) fn reconnect(&mut self, address: SocketAddr) {
        self.address = address;
        self.client = Client::connect(address);
        for member in self.members.values_mut() {
            member.reconnect(Client::connect(address));
        }
    }

    /// A name of this order at the broker.
    pub(crate) fn name(&self, word: &str) -> String {
        if word == EMPTY { String::new() } else { format!("{}{word}", self.prefix) }
    }

    /// The answer to one request.
    pub(crate) fn play(&mut self, request: &str) -> String {
        let words = Words::of(request);
        let began = instant();
        loop {
            let answer = self.answer(&words);
            let again = RETRIABLE.iter().any(|name| answer.contains(name));
            if !again || began.elapsed().as_secs() >= RETRY_S {
                return answer;
            }
            self.find_coordinators();
        }
    }

    /// Kafka creates the topics of its coordinators at the first `FindCoordinator`.
    fn find_coordinators(&mut self) {
        for kind in [0, 1] {
            let request = FindCoordinatorRequest::default()
                .with_key_type(kind)
                .with_coordinator_keys(vec![s(&self.prefix)]);
            self.client.call(4, &request);
        }
    }

    fn answer(&mut self, words: &Words<'_>) -> String {
        match words.verb {
            "topic" => self.create_topic(words),
            "untopic" => self.delete_topic(words),
            "init" => self.init(words),
            "add" => self.add_offsets(words),
            "txn" => self.txn_commit(words),
            "end" => self.end(words),
            "commit" => self.commit(words),
            "fetch" => self.fetch(words),
            "until" => self.until(words),
            "join" | "enter" => self.join(words),
            "consume" => self.consume(words),
            "leave" => self.leave(words),
            "group" => self.describe(words),
            "list" => self.list(words),
            "delete" => self.delete_group(words),
            "forget" => self.delete_offsets(words),
            verb => panic!("nobody knows how to {verb}"),
        }
    }

    fn create_topic(&mut self, words: &Words<'_>) -> String {
        let name = self.name(words.positional[0]);
        self.client.create(&name, words.positional[1].parse().unwrap());
        let has_leader = |client: &mut Client| {
            let told = client.metadata(9, &[&name]);
            told.topics.iter().all(|topic| {
                topic.error_code == 0 && topic.partitions.iter().all(|p| p.error_code == 0)
            })
        };
        while !has_leader(&mut self.client) {}
        "ok".to_owned()
    }

    fn delete_topic(&mut self, words: &Words<'_>) -> String {
        let name = self.name(words.positional[0]);
        let request =
            DeleteTopicsRequest::default().with_topic_names(vec![s(&name)]).with_timeout_ms(10_000);
        error_name(self.client.call(3, &request).responses[0].error_code)
    }

    /// `fetch G all|T/P… [stable] [as=M]`
    fn fetch(&mut self, words: &Words<'_>) -> String {
        let mut asked = OffsetFetchRequestGroup::default();
        asked.group_id = s(&self.name(words.positional[0]));
        if let Some(member) = words.option("as").map(|name| &self.members[name]) {
            asked.member_id = Some(s(&member.id));
            asked.member_epoch = words.number("gen").unwrap_or(member.generation);
        }
        asked.topics = None;
        if !words.has("all") {
            let of = |(topic, places): (String, Vec<RequestedOffset>)| {
                OffsetFetchRequestTopics::default()
                    .with_name(s(&self.name(&topic)))
                    .with_partition_indexes(places.iter().map(|place| place.partition).collect())
            };
            asked.topics = Some(words.topics().into_iter().map(of).collect());
        }
        let request = OffsetFetchRequest::default()
            .with_groups(vec![asked])
            .with_require_stable(words.has("stable"));
        let group = self.client.call(9, &request).groups.remove(0);
        if group.error_code != 0 {
            return error_name(group.error_code);
        }
        let mut found = Vec::new();
        for topic in &group.topics {
            let name = topic.name.strip_prefix(self.prefix.as_str()).unwrap();
            for one in &topic.partitions {
                let place = if words.has("all") {
                    format!("{name}/{}=", one.partition_index)
                } else {
                    String::new()
                };
                found.push(format!("{place}{}", offset_words(one)));
            }
        }
        if words.has("all") {
            found.sort();
        }
        if found.is_empty() { "nothing".to_owned() } else { found.join(" ") }
    }

    /// Kafka's names of these codes in the order of the request; a single name if all are equal.
    pub(crate) fn error_names(&self, words: &Words<'_>, codes: &[(String, i32, i16)]) -> String {
        let code = |place: RequestedOffset| {
            let name = self.name(&place.topic);
            let found = codes.iter().find(|one| one.0 == name && one.1 == place.partition);
            found.map_or("no answer".to_owned(), |(.., code)| error_name(*code))
        };
        let mut names: Vec<String> = words.places().into_iter().map(code).collect();
        if names.iter().all(|name| *name == names[0]) {
            names.truncate(1);
        }
        names.join(" ")
    }

    /// Fetches until the group has that offset.
    fn until(&mut self, words: &Words<'_>) -> String {
        let place = words.places().remove(0);
        let request =
            format!("fetch {} {}/{} stable", words.positional[0], place.topic, place.partition);
        let began = instant();
        loop {
            let answer = self.fetch(&Words::of(&request));
            if answer == place.offset.to_string() || began.elapsed().as_secs() >= RETRY_S {
                return answer;
            }
        }
    }
}

/// Offset, and what else was committed with it.
fn offset_words(one: &OffsetFetchResponsePartitions) -> String {
    if one.error_code != 0 {
        return error_name(one.error_code);
    }
    let mut words = one.committed_offset.to_string();
    if one.committed_leader_epoch >= 0 {
        write!(words, " epoch={}", one.committed_leader_epoch).unwrap();
    }
    match one.metadata.as_deref() {
        None => words.push_str(" meta=null"),
        Some("") => {}
        Some(long) if long.len() > 20 => write!(words, " meta={} bytes", long.len()).unwrap(),
        Some(metadata) => write!(words, " meta={metadata}").unwrap(),
    }
    words
}

/// Kafka's name of an error code.
pub(crate) fn error_name(error: i16) -> String {
    match ResponseError::try_from_code(error) {
        None => "ok".to_owned(),
        Some(error) => code::name(error),
    }
}
