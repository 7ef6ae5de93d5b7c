package reprise;

import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.springframework.context.annotation.AnnotationConfigApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.kafka.annotation.EnableKafka;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.config.ConcurrentKafkaListenerContainerFactory;
import org.springframework.kafka.core.ConsumerFactory;
import org.springframework.kafka.core.DefaultKafkaConsumerFactory;
import org.springframework.kafka.listener.BatchListenerFailedException;
import org.springframework.kafka.listener.ContainerProperties.AckMode;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.KafkaHeaders;
import org.springframework.util.backoff.FixedBackOff;

/**
 * A listener that throws at a record called poison. Arguments: bootstrap, group, topic, and the way
 * errors are handled: default, in-memory, back-off or long-back-off; or that of a listener of batches
 * which says that it failed, batch, or also on what, batch-named; or retry-topics, Spring's own. With
 * grid-HABIT its process ends at the record, or at any record while the file OUTAGE exists; habits of commits:
 * tests/clients/harness/signals/grid.rs.
 */
@Configuration
@EnableKafka
public class Application {
    private static String way;

    public static void main(String[] args) {
        way = args[3];
        var context = new AnnotationConfigApplicationContext();
        Map<String, Object> said = Map.of("bootstrap", args[0], "group", args[1], "topic", args[2], "way", args[3]);
        context.getEnvironment().getPropertySources().addFirst(new MapPropertySource("arguments", said));
        context.register(Application.class, switch (args[3]) {
            case "batch", "batch-named" -> BatchListener.class;
            case "retry-topics" -> RetryTopics.class;
            default -> RecordListener.class;
        });
        context.registerShutdownHook();
        context.refresh();
    }

    @Bean
    ConsumerFactory<String, String> consumerFactory(Environment environment) {
        return new DefaultKafkaConsumerFactory<>(Map.of(
            ConsumerConfig.ENABLE_AUTO_COMMIT_CONFIG, environment.getRequiredProperty("way").equals("grid-auto"),
            ConsumerConfig.AUTO_COMMIT_INTERVAL_MS_CONFIG, "500",
            ConsumerConfig.BOOTSTRAP_SERVERS_CONFIG, environment.getRequiredProperty("bootstrap"),
            ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest",
            ConsumerConfig.SESSION_TIMEOUT_MS_CONFIG, environment.getProperty("SESSION_MS", "6000"),
            ConsumerConfig.HEARTBEAT_INTERVAL_MS_CONFIG, "500",
            ConsumerConfig.KEY_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class,
            ConsumerConfig.VALUE_DESERIALIZER_CLASS_CONFIG, StringDeserializer.class));
    }

    @Bean
    ConcurrentKafkaListenerContainerFactory<String, String> kafkaListenerContainerFactory(
            ConsumerFactory<String, String> consumers, Environment environment) {
        var factory = new ConcurrentKafkaListenerContainerFactory<String, String>();
        factory.setConsumerFactory(consumers);
        switch (environment.getRequiredProperty("way")) {
            case "default", "batch", "batch-named", "retry-topics", "grid-auto" -> { }
            case "grid-never" -> factory.getContainerProperties().setAckMode(AckMode.MANUAL);
            case "grid-record" -> factory.getContainerProperties().setAckMode(AckMode.RECORD);
            case "grid-batch" -> factory.getContainerProperties().setAckMode(AckMode.BATCH);
            case "grid-time", "grid-close" -> {
                factory.getContainerProperties().setAckMode(AckMode.TIME);
                // What is not committed yet is, when the container stops.
                factory.getContainerProperties().setAckTime(
                    environment.getRequiredProperty("way").equals("grid-time") ? 500 : 3_600_000);
            }
            case "grid-count" -> {
                factory.getContainerProperties().setAckMode(AckMode.COUNT);
                factory.getContainerProperties().setAckCount(10);
            }
            case "in-memory" -> {
                var handler = new DefaultErrorHandler();
                handler.setSeekAfterError(false);
                factory.setCommonErrorHandler(handler);
            }
            case "back-off" -> factory.setCommonErrorHandler(new DefaultErrorHandler(new FixedBackOff(500, 9)));
            case "long-back-off" -> factory.setCommonErrorHandler(new DefaultErrorHandler(new FixedBackOff(3000, 4)));
            default -> throw new IllegalArgumentException("no such way");
        }
        return factory;
    }

    static void handle(ConsumerRecord<String, String> order) {
        boolean isGrid = System.getenv("OUTAGE") != null && way.startsWith("grid-");
        if (isGrid && Files.exists(Path.of(System.getenv("OUTAGE")))) {
            Runtime.getRuntime().halt(1);
        }
        boolean fails = order.value().equals("poison");
        // Where it first lay, when it comes from a topic of Spring's.
        var partition = order.headers().lastHeader(KafkaHeaders.ORIGINAL_PARTITION);
        var offset = order.headers().lastHeader(KafkaHeaders.ORIGINAL_OFFSET);
        System.out.println((fails ? "failed " : "done ")
            + (partition == null ? order.partition() : ByteBuffer.wrap(partition.value()).getInt()) + " "
            + (offset == null ? order.offset() : ByteBuffer.wrap(offset.value()).getLong()) + " " + order.key());
        if (fails && isGrid) {
            Runtime.getRuntime().halt(1);
        }
        if (fails) {
            throw new IllegalStateException("cannot handle " + order.key());
        }
    }

    static class RecordListener {
        @KafkaListener(topics = "${topic}", groupId = "${group}")
        void handleOne(ConsumerRecord<String, String> order) {
            handle(order);
        }
    }

    static class BatchListener {
        private final boolean names;

        BatchListener(Environment environment) {
            names = environment.getRequiredProperty("way").equals("batch-named");
        }

        @KafkaListener(topics = "${topic}", groupId = "${group}", batch = "true")
        void handleAll(List<ConsumerRecord<String, String>> orders) {
            for (var order : orders) {
                try {
                    handle(order);
                } catch (IllegalStateException e) {
                    throw names ? new BatchListenerFailedException("not all", e, order) : e;
                }
            }
        }
    }
}
