package reprise;

import static java.nio.charset.StandardCharsets.UTF_8;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** The recipe of README.md: its handler throws at a record called poison. Arguments: bootstrap, group, topic, way. */
public class Recipe {
    static volatile boolean running = true;

    public static void main(String[] args) throws Exception {
        var bootstrap = args[0];
        var main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            running = false;
            try {
                main.join();
            } catch (InterruptedException ends) {
                main.interrupt();
            }
        }));
        // begin recipe
        var settings = Map.<String, Object>of("bootstrap.servers", bootstrap, "group.id", "shop",
            "enable.auto.commit", "false", "auto.offset.reset", "earliest");
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
             var producer = new KafkaProducer<>(
                 Map.of("bootstrap.servers", bootstrap), new StringSerializer(), new StringSerializer())) {
            consumer.subscribe(List.of("orders", "reprise.retry.shop--orders"));
            while (running) {
                var failed = new ArrayList<Future<RecordMetadata>>();
                for (var r : consumer.poll(Duration.ofSeconds(1))) {
                    try {
                        handle(r);
                    } catch (Exception why) {
                        var nack = new ProducerRecord<>("reprise.retry.shop--orders", null, r.timestamp(), r.key(), r.value(),
                            r.headers());
                        var origin = r.topic() + "-" + r.partition() + "@" + r.offset();
                        nack.headers().add("x-retry-origin", origin.getBytes(UTF_8));
                        nack.headers().add("x-retry-reason", String.valueOf(why).getBytes(UTF_8));
                        failed.add(producer.send(nack));
                    }
                }
                producer.flush();
                for (var nack : failed) nack.get();                    // throws: nothing is committed
                consumer.commitSync();
            }
        }                                                              // leaves the group: no start waits for it
        // end recipe
    }

    static void handle(ConsumerRecord<String, String> order) {
        // The record's own place, where it comes from the retry topic.
        var retried = order.headers().lastHeader("ORIGIN_MESSAGE_ID");
        var place = retried == null
            ? order.partition() + " " + order.offset()
            : new String(retried.value(), UTF_8).replaceAll(".*-(\\d+)@(\\d+)", "$1 $2");
        boolean fails = order.value().equals("poison");
        System.out.println((fails ? "failed " : "done ") + place + " " + order.key());
        if (fails) {
            throw new IllegalStateException("cannot handle " + order.key());
        }
    }
}
