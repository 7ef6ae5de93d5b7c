package reprise;

import static java.nio.charset.StandardCharsets.UTF_8;
import static org.apache.kafka.clients.consumer.CloseOptions.GroupMembershipOperation.REMAIN_IN_GROUP;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Future;
import java.util.regex.Pattern;
import org.apache.kafka.clients.consumer.CloseOptions;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Does what stdin says, one command a line, and prints JSON lines; judges nothing.
 * Arguments, commands and lines: tests/clients/harness/rig/client.rs. Bytes are hex in both directions.
 */
public final class Client {
    private final PrintStream out;
    private final String bootstrap;
    private final String group;
    /** Settings KEY=VALUE, those of one side behind "consumer." or "producer.". */
    private final List<String> settings;
    private final KafkaConsumer<byte[], byte[]> consumer;
    /** One producer for each codec. */
    private final Map<String, KafkaProducer<byte[], byte[]>> producers = new HashMap<>();
    /** What was received, by topic-partition@offset: a nack sends it back. */
    private final Map<String, ConsumerRecord<byte[], byte[]>> received = new HashMap<>();
    private final List<Sent> sent = new ArrayList<>();

    private record Sent(String tag, Future<RecordMetadata> future) {}

    public static void main(String[] args) throws Exception {
        if (args.length == 0) {
            host();
        } else {
            new Client(System.out, List.of(args)).serve(new BufferedReader(new InputStreamReader(System.in)));
        }
    }

    /**
     * Many clients in one process: its port is printed, and each connection is a client, whose arguments come
     * first, a line each, and an empty line behind them. It ends with stdin.
     */
    private static void host() throws IOException {
        ServerSocket door = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
        System.out.println(door.getLocalPort());
        Thread doorman = new Thread(() -> {
            while (true) {
                try {
                    Socket one = door.accept();
                    new Thread(() -> hosted(one)).start();
                } catch (IOException e) {
                    e.printStackTrace();
                }
            }
        });
        doorman.start();
        while (System.in.read() >= 0) {
            // Nothing is said there.
        }
        Runtime.getRuntime().halt(0);
    }

    private static void hosted(Socket one) {
        try (one) {
            one.setTcpNoDelay(true);
            BufferedReader in = new BufferedReader(new InputStreamReader(one.getInputStream(), UTF_8));
            List<String> args = new ArrayList<>();
            for (String line = in.readLine(); !line.isEmpty(); line = in.readLine()) {
                args.add(line);
            }
            new Client(new PrintStream(one.getOutputStream(), false, UTF_8), args).serve(in);
        } catch (Exception e) {
            e.printStackTrace();
        }
    }

    private void serve(BufferedReader in) throws IOException {
        say("ready", "");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] words = line.split(" ");
            try {
                run(words);
            } catch (Exception e) {
                say("failed", ",\"command\":\"" + words[0] + "\",\"error\":" + quote(e));
                if (words[0].equals("poll")) {
                    say("done", ",\"command\":\"poll\"");
                }
            }
            if (words[0].equals("close")) {
                return;
            }
        }
        // Whoever spoke to it is gone: so is it, as far as that can be done without ending the process.
        consumer.close(CloseOptions.timeout(Duration.ZERO).withGroupMembershipOperation(REMAIN_IN_GROUP));
        producers.values().forEach(producer -> producer.close(Duration.ZERO));
    }

    private Client(PrintStream out, List<String> args) {
        this.out = out;
        bootstrap = args.get(0);
        group = args.get(1);
        settings = args.subList(4, args.size());
        String sessionMs = args.get(2);
        String protocol = args.get(3);
        Properties config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("group.protocol", protocol);
        if (protocol.equals("classic")) {
            config.put("session.timeout.ms", sessionMs);
            config.put("heartbeat.interval.ms", "500");
        }
        config.put("enable.auto.commit", "false");
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", ByteArrayDeserializer.class);
        config.put("value.deserializer", ByteArrayDeserializer.class);
        addSettings(config, "consumer.", "producer.");
        consumer = new KafkaConsumer<>(config);
    }

    private void addSettings(Properties config, String own, String others) {
        for (String setting : settings) {
            String[] pair = setting.split("=", 2);
            if (!pair[0].startsWith(others)) {
                config.put(pair[0].startsWith(own) ? pair[0].substring(own.length()) : pair[0], pair[1]);
            }
        }
    }

    private void run(String[] words) throws Exception {
        switch (words[0]) {
            case "subscribe" -> {
                if (words[1].startsWith("^")) {
                    consumer.subscribe(Pattern.compile(words[1]), new Listener());
                } else {
                    consumer.subscribe(List.of(words[1].split(",")), new Listener());
                }
            }
            case "poll" -> {
                var batch = consumer.poll(Duration.ofMillis(Long.parseLong(words[1])));
                long at = System.currentTimeMillis();
                batch.forEach(record -> show(record, at));
            }
            case "produce" -> produce(words);
            case "nack" -> nack(words);
            case "flush" -> flush();
            case "commit" -> commit(words);
            case "mark" -> consumer.commitSync(Map.of(
                new TopicPartition(words[1], Integer.parseInt(words[2])),
                new OffsetAndMetadata(
                    Long.parseLong(words[3]), words.length > 4 ? new String(unhex(words[4])) : "")));
            case "seek" -> consumer.seek(
                new TopicPartition(words[1], Integer.parseInt(words[2])), Long.parseLong(words[3]));
            case "begin" -> producer("none").beginTransaction();
            case "offsets" -> producer("none").sendOffsetsToTransaction(positions(), consumer.groupMetadata());
            case "end" -> {
                if (words[1].equals("commit")) {
                    producer("none").commitTransaction();
                } else {
                    producer("none").abortTransaction();
                }
            }
            case "close" -> {
                consumer.close();
                producers.values().forEach(KafkaProducer::close);
            }
            default -> throw new IllegalArgumentException("no such command");
        }
        say("done", ",\"command\":\"" + words[0] + "\"");
    }

    /** commit [TOPIC PARTITION OFFSET]… */
    private void commit(String[] words) {
        if (words.length == 1) {
            consumer.commitSync();
            return;
        }
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (int i = 1; i < words.length; i += 3) {
            offsets.put(
                new TopicPartition(words[i], Integer.parseInt(words[i + 1])),
                new OffsetAndMetadata(Long.parseLong(words[i + 2])));
        }
        consumer.commitSync(offsets);
    }

    /** Where the consumer goes on, in every partition it holds. */
    private Map<TopicPartition, OffsetAndMetadata> positions() {
        var positions = new HashMap<TopicPartition, OffsetAndMetadata>();
        for (TopicPartition partition : consumer.assignment()) {
            positions.put(partition, new OffsetAndMetadata(consumer.position(partition)));
        }
        return positions;
    }

    /** produce TAG CODEC TOPIC PARTITION KEY VALUE [HEADER=VALUE]… */
    private void produce(String[] words) {
        var record = new ProducerRecord<>(
            words[3], Integer.valueOf(words[4]), unhex(words[5]), unhex(words[6]));
        addHeaders(record, words, 7);
        sent.add(new Sent(words[1], producer(words[2]).send(record)));
    }

    /** The retry topic for a record; a retry stays in its own. */
    private String retryTopic(String origin) {
        var topic = origin.substring(0, origin.lastIndexOf('-'));
        return topic.startsWith("reprise.retry.") ? topic : "reprise.retry." + group + "--" + topic;
    }

    /** nack TAG CODEC ORIGIN value|reference [HEADER=VALUE]… */
    private void nack(String[] words) {
        var failed = received.get(words[3]);
        boolean byValue = words[4].equals("value");
        var record = new ProducerRecord<>(
            retryTopic(words[3]), null, byValue ? failed.timestamp() : null,
            byValue ? failed.key() : null, byValue ? failed.value() : null);
        if (byValue) {
            failed.headers().forEach(record.headers()::add);
        } else {
            record.headers().add("x-retry-by-reference", "true".getBytes());
        }
        record.headers().add("x-retry-origin", words[3].getBytes());
        record.headers().add("x-retry-reason", ("because " + words[1]).getBytes());
        addHeaders(record, words, 5);
        sent.add(new Sent(words[1], producer(words[2]).send(record)));
    }

    private static void addHeaders(ProducerRecord<?, ?> record, String[] words, int from) {
        for (int i = from; i < words.length; i++) {
            String[] header = words[i].split("=", 2);
            record.headers().add(header[0], unhex(header[1]));
        }
    }

    private void flush() {
        producers.values().forEach(KafkaProducer::flush);
        for (Sent one : sent) {
            String tag = ",\"tag\":\"" + one.tag + "\"";
            try {
                RecordMetadata at = one.future.get();
                say("sent", tag + ",\"partition\":" + at.partition()
                    + ",\"offset\":" + at.offset() + ",\"timestamp\":" + at.timestamp());
            } catch (Exception e) {
                say("refused", tag + ",\"error\":" + quote(e.getCause()));
            }
        }
        sent.clear();
    }

    private KafkaProducer<byte[], byte[]> producer(String codec) {
        return producers.computeIfAbsent(codec, name -> {
            Properties config = new Properties();
            config.put("bootstrap.servers", bootstrap);
            config.put("compression.type", name);
            config.put("linger.ms", "50");
            config.put("key.serializer", ByteArraySerializer.class);
            config.put("value.serializer", ByteArraySerializer.class);
            addSettings(config, "producer.", "consumer.");
            KafkaProducer<byte[], byte[]> producer = new KafkaProducer<>(config);
            if (config.containsKey("transactional.id")) {
                producer.initTransactions();
            }
            return producer;
        });
    }

    private void show(ConsumerRecord<byte[], byte[]> record, long at) {
        var place = record.topic() + "-" + record.partition() + "@" + record.offset();
        received.put(place, record);
        var headers = new ArrayList<String>();
        for (Header header : record.headers()) {
            headers.add("[\"" + header.key() + "\"," + hex(header.value()) + "]");
        }
        say("record", ",\"topic\":\"" + record.topic() + "\",\"partition\":" + record.partition()
            + ",\"offset\":" + record.offset() + ",\"key\":" + hex(record.key())
            + ",\"value\":" + hex(record.value()) + ",\"timestamp\":" + record.timestamp()
            + ",\"at\":" + at + ",\"headers\":[" + String.join(",", headers) + "]");
    }

    private void say(String event, String rest) {
        out.println("{\"event\":\"" + event + "\"" + rest + "}");
        out.flush();
    }

    private static String hex(byte[] bytes) {
        return bytes == null ? "null" : "\"" + HexFormat.of().formatHex(bytes) + "\"";
    }

    private static byte[] unhex(String text) {
        return HexFormat.of().parseHex(text);
    }

    private static String quote(Throwable error) {
        String text = String.valueOf(error);
        return "\"" + text.replaceAll("[\\p{Cntrl}\"\\\\]", " ") + "\"";
    }

    private final class Listener implements ConsumerRebalanceListener {
        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", partitions);
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", partitions);
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            tell("lost", partitions);
        }

        private void tell(String event, Collection<TopicPartition> partitions) {
            var names = partitions.stream().map(p -> "\"" + p + "\"").sorted().toList();
            say(event, ",\"partitions\":[" + String.join(",", names) + "]");
        }
    }
}
