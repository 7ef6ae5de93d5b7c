//! Orders of requests and the answers that Apache Kafka gave, as `measured.txt` has them.
//!
//! ```text
//! == title of an order
//! verb words option=value -> answer
//! ```

use std::fmt::Write as _;

/// One order of requests.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) title: String,
    pub(crate) steps: Vec<Step>,
}

/// One request and the answer that was measured; empty before the first measurement.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) request: String,
    pub(crate) answer: String,
}

/// The words of one request.
#[derive(Clone, Debug)]
pub(crate) struct Words<'a> {
    pub(crate) verb: &'a str,
    /// Words without an option name.
    pub(crate) positional: Vec<&'a str>,
    options: Vec<(&'a str, &'a str)>,
}

/// A partition and the offset that a request gives it.
#[derive(Clone, Debug)]
pub(crate) struct RequestedOffset {
    pub(crate) topic: String,
    pub(crate) partition: i32,
    pub(crate) offset: i64,
}

/// All orders of a file, and the comment in front of them.
pub(crate) fn parse(text: &str) -> (String, Vec<Order>) {
    let mut head = String::new();
    let mut orders: Vec<Order> = Vec::new();
    for line in text.lines() {
        if let Some(title) = line.strip_prefix("== ") {
            orders.push(Order { title: title.to_owned(), steps: Vec::new() });
        } else if let Some(order) = orders.last_mut() {
            if !line.trim().is_empty() {
                let (request, answer) = line.split_once(" -> ").unwrap_or((line, ""));
                let (request, answer) = (request.trim().to_owned(), answer.trim().to_owned());
                order.steps.push(Step { request, answer });
            }
        } else {
            head.push_str(line);
            head.push('\n');
        }
    }
    (head, orders)
}

/// The file of these orders.
pub(crate) fn print(head: &str, orders: &[Order]) -> String {
    let blocks: Vec<String> = orders
        .iter()
        .map(|order| {
            let mut block = format!("== {}\n", order.title);
            for step in &order.steps {
                writeln!(block, "{:<44} -> {}", step.request, step.answer).unwrap();
            }
            block
        })
        .collect();
    format!("{head}{}", blocks.join("\n"))
}

impl<'a> Words<'a> {
    pub(crate) fn of(request: &'a str) -> Self {
        let mut all = request.split_whitespace();
        let verb = all.next().unwrap();
        let (mut words, mut options) = (Vec::new(), Vec::new());
        for word in all {
            match word.split_once('=') {
                Some((name, value)) if !name.contains('/') => options.push((name, value)),
                _ => words.push(word),
            }
        }
        Self { verb, positional: words, options }
    }

    pub(crate) fn option(&self, name: &str) -> Option<&'a str> {
        self.options.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    pub(crate) fn number<T: std::str::FromStr>(&self, name: &str) -> Option<T> {
        self.option(name)
            .map(|value| value.parse().ok().unwrap_or_else(|| panic!("{name}={value}")))
    }

    pub(crate) fn has(&self, word: &str) -> bool {
        self.positional.contains(&word)
    }

    /// The partitions that the request names, in its order.
    pub(crate) fn places(&self) -> Vec<RequestedOffset> {
        let places = self.positional.iter().filter_map(|word| {
            let (place, offset) = word.split_once('=').unwrap_or((word, "-1"));
            let (topic, partition) = place.split_once('/')?;
            let topic = topic.to_owned();
            let (partition, offset) = (partition.parse().unwrap(), offset.parse().unwrap());
            Some(RequestedOffset { topic, partition, offset })
        });
        places.collect()
    }

    /// The partitions that the request names, by topic.
    pub(crate) fn topics(&self) -> Vec<(String, Vec<RequestedOffset>)> {
        let mut topics: Vec<(String, Vec<RequestedOffset>)> = Vec::new();
        for place in self.places() {
            match topics.iter_mut().find(|(topic, _)| *topic == place.topic) {
                Some((_, places)) => places.push(place),
                None => topics.push((place.topic.clone(), vec![place])),
            }
        }
        topics
    }
}
