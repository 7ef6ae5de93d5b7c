//! The business of the shop: twenty orders, three of which never succeed.

/// Orders that the demo places.
pub const ORDERS: u32 = 20;
/// Topic of the orders.
pub const TOPIC: &str = "orders";
/// Partitions of the topic.
pub const PARTITIONS: u32 = 3;
/// Group of the shop.
pub const GROUP: &str = "shop";
/// Retry topic of the shop's orders.
pub const RETRY_TOPIC: &str = "reprise.retry.shop--orders";
/// Dead letters of the shop's group.
pub const DEAD_LETTERS: &str = "reprise.dlq.shop";

/// Orders that no attempt completes, and the reason.
const NEVER: [(u32, &str); 3] =
    [(4, "card declined"), (11, "address unknown"), (17, "out of stock")];
/// Orders that the third attempt completes.
const THIRD_ATTEMPT: [u32; 2] = [7, 14];
const CUSTOMERS: [&str; 4] = ["ann", "bob", "cleo", "dan"];

/// Numbers, keys and values of the orders.
pub fn orders() -> impl Iterator<Item = (u32, String, String)> {
    (1..=ORDERS).zip(CUSTOMERS.iter().cycle()).map(|(number, customer)| {
        let value = format!("{{\"order\":{number},\"for\":\"{customer}\"}}");
        (number, format!("order-{number}"), value)
    })
}

/// Handles one delivery of an order; `attempt` counts from 1.
pub fn handle(order: u32, attempt: u32) -> Result<(), &'static str> {
    if let Some((_, reason)) = NEVER.iter().find(|(never, _)| *never == order) {
        return Err(reason);
    }
    if THIRD_ATTEMPT.contains(&order) && attempt < 3 {
        return Err("warehouse busy");
    }
    Ok(())
}

/// The order that a record's key names; 0 for any other key.
pub fn order_of(key: &[u8]) -> u32 {
    let key = String::from_utf8_lossy(key);
    key.strip_prefix("order-").and_then(|number| number.parse().ok()).unwrap_or(0)
}
