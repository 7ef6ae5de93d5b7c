package reprise;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.WakeupException;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A loop that commits by a habit, and whose process ends at a record called poison, or at any record while the file
 * OUTAGE exists. Habits: tests/clients/harness/signals/grid.rs.
 */
final class Grid {
    private static final Path OUTAGE = Path.of(System.getenv().getOrDefault("OUTAGE", "/nonexistent"));
    private static final long COMMIT_NS = 500_000_000L;
    private static final int COMMIT_COUNT = 10;

    private final String habit;
    private final KafkaConsumer<String, String> consumer;
    private final Map<TopicPartition, OffsetAndMetadata> handled = new HashMap<>();
    private int count;
    private long committedAt = System.nanoTime();
    private volatile boolean closing;

    static void run(String[] args) {
        var grid = new Grid(args);
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> grid.stop(main)));
        grid.run(args[2]);
    }

    private Grid(String[] args) {
        habit = args[3].substring("grid-".length());
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        config.put("session.timeout.ms", System.getenv().getOrDefault("SESSION_MS", "6000"));
        config.put("heartbeat.interval.ms", "300");
        config.put("enable.auto.commit", Boolean.toString(habit.equals("auto")));
        config.put("auto.commit.interval.ms", "500");
        consumer = new KafkaConsumer<>(config);
    }

    private void run(String topic) {
        try (consumer) {
            consumer.subscribe(List.of(topic));
            while (!closing) {
                try {
                    for (var order : consumer.poll(Duration.ofMillis(200))) {
                        handle(order);
                    }
                } catch (WakeupException e) {
                    break;
                }
                if (habit.equals("batch") || habit.equals("time") && System.nanoTime() - committedAt > COMMIT_NS) {
                    commit();
                }
            }
            if (!habit.equals("never") && !habit.equals("auto")) {
                commit();
            }
        }
    }

    private void handle(ConsumerRecord<String, String> order) {
        if (Files.exists(OUTAGE)) {
            Runtime.getRuntime().halt(1);
        }
        boolean fails = order.value().equals("poison");
        System.out.println((fails ? "failed " : "done ") + order.partition() + " " + order.offset() + " " + order.key());
        if (fails) {
            Runtime.getRuntime().halt(1);
        }
        var partition = new TopicPartition(order.topic(), order.partition());
        handled.put(partition, new OffsetAndMetadata(order.offset() + 1));
        count += 1;
        if (habit.equals("record") || habit.equals("count") && count % COMMIT_COUNT == 0) {
            commit();
        }
    }

    private void commit() {
        committedAt = System.nanoTime();
        if (!handled.isEmpty()) {
            consumer.commitSync(Map.copyOf(handled));
            handled.clear();
        }
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
