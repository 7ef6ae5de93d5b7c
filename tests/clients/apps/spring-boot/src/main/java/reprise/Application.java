package reprise;

import java.nio.charset.StandardCharsets;
import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.kafka.annotation.KafkaListener;

/**
 * A Spring Boot application with the bean of docs/spring.md. Its listener throws at a record called poison. Arguments:
 * bootstrap, group, topic and way; the group is shop, and the topic orders.
 */
@SpringBootApplication
public class Application {
    public static void main(String[] args) {
        var application = new SpringApplication(Application.class);
        application.setDefaultProperties(Map.of(
            "spring.main.banner-mode", "off",
            "spring.kafka.bootstrap-servers", args[0],
            "spring.kafka.consumer.group-id", args[1],
            "spring.kafka.consumer.auto-offset-reset", "earliest",
            "spring.kafka.consumer.properties.session.timeout.ms", System.getenv().getOrDefault("SESSION_MS", "6000"),
            "spring.kafka.consumer.properties.heartbeat.interval.ms", "500"));
        application.run();
    }

    // begin recipe
    @KafkaListener(topics = {"orders", "reprise.retry.shop--orders"})
    void onOrder(ConsumerRecord<String, String> order) {
        handle(order);
    }
    // end recipe

    static void handle(ConsumerRecord<String, String> order) {
        // The record's own place, where it comes from the retry topic.
        var retried = order.headers().lastHeader("ORIGIN_MESSAGE_ID");
        var place = retried == null
            ? order.partition() + " " + order.offset()
            : new String(retried.value(), StandardCharsets.UTF_8).replaceAll(".*-(\\d+)@(\\d+)", "$1 $2");
        boolean fails = order.value().equals("poison");
        System.out.println((fails ? "failed " : "done ") + place + " " + order.key());
        if (fails) {
            throw new IllegalStateException("cannot handle " + order.key());
        }
    }
}
