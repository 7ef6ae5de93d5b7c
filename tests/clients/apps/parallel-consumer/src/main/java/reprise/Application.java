package reprise;

import io.confluent.parallelconsumer.ParallelConsumerOptions;
import io.confluent.parallelconsumer.ParallelStreamProcessor;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A handler that throws at a record called poison. Arguments: bootstrap, group, topic, and "throws".
 */
public final class Application {
    public static void main(String[] args) {
        var config = new Properties();
        config.put("bootstrap.servers", args[0]);
        config.put("group.id", args[1]);
        config.put("auto.offset.reset", "earliest");
        config.put("enable.auto.commit", "false");
        config.put("session.timeout.ms", System.getenv().getOrDefault("SESSION_MS", "6000"));
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        var options = ParallelConsumerOptions.<String, String>builder()
            .consumer(new KafkaConsumer<>(config))
            .build();
        var processor = ParallelStreamProcessor.createEosStreamProcessor(options);
        Runtime.getRuntime().addShutdownHook(new Thread(processor::close));
        processor.subscribe(List.of(args[2]));
        processor.poll(context -> handle(context.getSingleConsumerRecord()));
    }

    private static void handle(ConsumerRecord<String, String> order) {
        boolean fails = order.value().equals("poison");
        System.out.println((fails ? "failed " : "done ") + order.partition() + " " + order.offset() + " " + order.key());
        if (fails) {
            throw new IllegalStateException("cannot handle " + order.key());
        }
    }
}
