package reprise;

import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A loop with a handler that throws at a record called poison. Arguments: bootstrap, group, topic,
 * and what happens then: leaves (the consumer is closed), dies (it is not), seeks (the loop catches
 * and seeks back), skips (it catches and goes on); with -record each record is committed, with -async each
 * batch without waiting, with -auto by the client itself, and with -848 the group speaks KIP-848. For
 * grid-HABIT see Grid.
 */
public final class Application {
    private final KafkaConsumer<String, String> consumer;
    private final String way;
    private volatile boolean closing;

    public static void main(String[] args) {
        if (args[3].startsWith("grid-")) {
            Grid.run(args);
            return;
        }
        var application = new Application(args);
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> application.stop(main)));
        application.run(args[2]);
    }

    private Application(String[] args) {
        way = args[3];
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        if (way.contains("-848")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("session.timeout.ms", System.getenv().getOrDefault("SESSION_MS", "6000"));
            config.put("heartbeat.interval.ms", "500");
        }
        if (!way.contains("-auto")) {
            config.put("enable.auto.commit", "false");
        }
        consumer = new KafkaConsumer<>(config);
    }

    private void run(String topic) {
        try (consumer) {
            consumer.subscribe(List.of(topic));
            while (!closing) {
                var orders = consumer.poll(Duration.ofMillis(500));
                if (way.startsWith("seeks")) {
                    consumer.commitSync(handled(orders));
                } else if (way.contains("-record")) {
                    orders.forEach(order -> commit(handle(order)));
                } else {
                    orders.forEach(this::handle);
                    commit();
                }
            }
        } catch (WakeupException e) {
            // it is to stop
        }
    }

    private void commit() {
        if (way.contains("-async")) {
            consumer.commitAsync();
        } else if (!way.contains("-auto")) {
            consumer.commitSync();
        }
    }

    private void commit(ConsumerRecord<String, String> order) {
        var partition = new TopicPartition(order.topic(), order.partition());
        consumer.commitSync(Map.of(partition, new OffsetAndMetadata(order.offset() + 1)));
    }

    /** Handles what it can, and goes back to what it cannot. */
    private Map<TopicPartition, OffsetAndMetadata> handled(ConsumerRecords<String, String> orders) {
        var handled = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (var partition : orders.partitions()) {
            for (var order : orders.records(partition)) {
                try {
                    handle(order);
                    if (way.contains("-record")) {
                        commit(order);
                    }
                } catch (IllegalStateException e) {
                    consumer.seek(partition, order.offset());
                    break;
                }
                handled.put(partition, new OffsetAndMetadata(order.offset() + 1));
            }
        }
        return handled;
    }

    private ConsumerRecord<String, String> handle(ConsumerRecord<String, String> order) {
        boolean fails = order.value().equals("poison");
        System.out.println((fails ? "failed " : "done ") + order.partition() + " " + order.offset() + " " + order.key());
        if (fails && way.startsWith("dies")) {
            Runtime.getRuntime().halt(1);
        }
        if (fails && !way.startsWith("skips")) {
            throw new IllegalStateException("cannot handle " + order.key());
        }
        return order;
    }

    private void stop(Thread main) {
        closing = true;
        consumer.wakeup();
        try {
            main.join();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
    }
}
