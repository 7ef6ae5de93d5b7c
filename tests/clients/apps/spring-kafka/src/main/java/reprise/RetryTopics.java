package reprise;

import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.StringSerializer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;
import org.springframework.kafka.annotation.BackOff;
import org.springframework.kafka.annotation.EnableKafkaRetryTopic;
import org.springframework.kafka.annotation.KafkaListener;
import org.springframework.kafka.annotation.RetryableTopic;
import org.springframework.kafka.core.DefaultKafkaProducerFactory;
import org.springframework.kafka.core.KafkaAdmin;
import org.springframework.kafka.core.KafkaTemplate;
import org.springframework.scheduling.TaskScheduler;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;

/** Spring's own retries: a topic for them and one for what is given up, and what it needs to make and fill them. */
@Configuration
@EnableKafkaRetryTopic
class RetryTopics {
    @Bean
    KafkaAdmin kafkaAdmin(Environment environment) {
        return new KafkaAdmin(Map.of("bootstrap.servers", environment.getRequiredProperty("bootstrap")));
    }

    @Bean
    KafkaTemplate<String, String> kafkaTemplate(Environment environment) {
        return new KafkaTemplate<>(new DefaultKafkaProducerFactory<>(Map.of(
            ProducerConfig.BOOTSTRAP_SERVERS_CONFIG, environment.getRequiredProperty("bootstrap"),
            ProducerConfig.KEY_SERIALIZER_CLASS_CONFIG, StringSerializer.class,
            ProducerConfig.VALUE_SERIALIZER_CLASS_CONFIG, StringSerializer.class)));
    }

    @Bean
    TaskScheduler taskScheduler() {
        return new ThreadPoolTaskScheduler();
    }

    @RetryableTopic(attempts = "3", backOff = @BackOff(300))
    @KafkaListener(topics = "${topic}", groupId = "${group}")
    void handleOne(ConsumerRecord<String, String> order) {
        Application.handle(order);
    }
}
