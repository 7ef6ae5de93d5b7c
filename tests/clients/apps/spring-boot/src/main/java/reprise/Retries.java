package reprise;

import static java.nio.charset.StandardCharsets.UTF_8;

import org.apache.kafka.clients.producer.ProducerRecord;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.kafka.core.KafkaOperations;
import org.springframework.kafka.listener.DefaultErrorHandler;
import org.springframework.kafka.support.KafkaUtils;
import org.springframework.util.backoff.FixedBackOff;

/** The bean of docs/spring.md, word for word. */
@Configuration
class Retries {
    // begin recipe
    /** Nacks each record that a listener throws on; the container then commits past it. */
    @Bean
    DefaultErrorHandler nackingErrorHandler(KafkaOperations<Object, Object> kafka) {
        var handler = new DefaultErrorHandler((record, failure) -> {
            var why = failure.getCause() == null ? failure : failure.getCause();
            var origin = record.topic() + "-" + record.partition() + "@" + record.offset();
            var retry = "reprise.retry." + KafkaUtils.getConsumerGroupId() + "--" + record.topic();
            if (record.topic().startsWith("reprise.retry.")) {
                retry = record.topic();                // a retry stays in its topic
            }
            var nack = new ProducerRecord<>(retry, (Object) null);
            nack.headers().add("x-retry-origin", origin.getBytes(UTF_8));
            nack.headers().add("x-retry-reason", why.toString().getBytes(UTF_8));
            nack.headers().add("x-retry-by-reference", "true".getBytes(UTF_8));
            kafka.send(nack).join();                   // throws: the record is not committed
        }, new FixedBackOff(0, 0));
        handler.setSeekAfterError(false);
        return handler;
    }
    // end recipe
}
