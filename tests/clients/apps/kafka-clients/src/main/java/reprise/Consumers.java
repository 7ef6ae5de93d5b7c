package reprise;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.TopicPartition;

/**
 * Many consumers in one process, each in a thread: stdin says who starts and who stops, and what an
 * administrator does. Argument: bootstrap. Commands and lines: tests/clients/harness/healthy/java.rs.
 */
public final class Consumers {
    private final String bootstrap;
    private final Admin admin;
    private final Map<String, Healthy> living = new HashMap<>();

    public static void main(String[] args) throws IOException {
        var consumers = new Consumers(args[0]);
        try (var lines = new BufferedReader(new InputStreamReader(System.in))) {
            for (var line = lines.readLine(); line != null; line = lines.readLine()) {
                consumers.run(line.split(" "));
            }
        }
        // Nobody listens any more.
        Runtime.getRuntime().halt(0);
    }

    private Consumers(String bootstrap) {
        this.bootstrap = bootstrap;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    private void run(String[] words) {
        var id = words[1];
        switch (words[0]) {
            case "start" -> {
                var consumer = new Healthy(bootstrap, words);
                living.put(id, consumer);
                in(id, consumer);
            }
            case "calm" -> living.get(id).calm();
            case "stop" -> living.get(id).stop();
            case "reset" -> in(id, () -> reset(words));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    /** Does it in a thread of its own, and says how that ended. */
    private static void in(String id, Runnable work) {
        new Thread(() -> {
            try {
                work.run();
                System.out.println("ended " + id);
            } catch (RuntimeException e) {
                e.printStackTrace();
                System.out.println("failed " + id + " " + e);
            }
        }, "consumer-" + id).start();
    }

    /** reset ID GROUP TOPIC [PARTITION OFFSET]…: what kafka-consumer-groups --reset-offsets does. */
    private void reset(String[] words) {
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (int at = 4; at < words.length; at += 2) {
            var partition = new TopicPartition(words[3], Integer.parseInt(words[at]));
            offsets.put(partition, new OffsetAndMetadata(Long.parseLong(words[at + 1])));
        }
        try {
            admin.alterConsumerGroupOffsets(words[2], offsets).all().get();
        } catch (ExecutionException e) {
            throw new IllegalStateException(e.getCause());
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
