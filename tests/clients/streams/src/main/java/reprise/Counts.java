package reprise;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts the words of its input topics and writes "word=count" to its output topic, exactly once: through a
 * repartition topic and a state store with a changelog. With the setting stateless=true it writes each word as
 * it comes, "word=". Prints a JSON line for each change of its state and for
 * an exception that ends it; a line on stdin closes it.
 *
 * Arguments: bootstrap, application id, input topics parted by commas, output topic, state directory, then
 * settings KEY=VALUE.
 */
public final class Counts {
    public static void main(String[] args) throws Exception {
        Properties config = new Properties();
        config.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
        config.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
        config.put(StreamsConfig.STATE_DIR_CONFIG, args[4]);
        config.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        config.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100);
        // Every count is written, none is swallowed by the next.
        config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        config.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        for (int i = 5; i < args.length; i++) {
            String[] setting = args[i].split("=", 2);
            config.put(setting[0], setting[1]);
        }
        StreamsBuilder builder = new StreamsBuilder();
        KStream<byte[], byte[]> input =
            builder.stream(List.of(args[2].split(",")), Consumed.with(Serdes.ByteArray(), Serdes.ByteArray()));
        KStream<String, String> words = input.map((key, value) -> KeyValue.pair(text(value), ""));
        if (!"true".equals(config.remove("stateless"))) {
            words = words
                .groupByKey(Grouped.with("words", Serdes.String(), Serdes.String()))
                .count(Materialized.with(Serdes.String(), Serdes.Long()))
                .toStream()
                .mapValues(count -> count.toString());
        }
        words
            .mapValues((word, count) -> word + "=" + count)
            .to(args[3], Produced.with(Serdes.String(), Serdes.String()));

        KafkaStreams streams = new KafkaStreams(builder.build(), config);
        streams.setStateListener((now, before) -> say("state", now.toString()));
        streams.setUncaughtExceptionHandler(error -> {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            say("died", cause.toString());
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        new BufferedReader(new InputStreamReader(System.in)).readLine();
        streams.close();
        say("state", "CLOSED");
    }

    private static String text(byte[] value) {
        return new String(value, StandardCharsets.UTF_8);
    }

    private static synchronized void say(String event, String text) {
        String plain = text.replaceAll("[\\p{Cntrl}\"\\\\]", " ");
        System.out.println("{\"event\":\"" + event + "\",\"text\":\"" + plain + "\"}");
        System.out.flush();
    }
}
