package reprise;

import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;

/** One consumer that handles whatever it is given, with habits of its own. */
final class Healthy implements Runnable, ConsumerRebalanceListener {
    /** Records that its workers have at a time, where it has workers. */
    private static final int WORKERS = 4;

    private final String id;
    private final String topic;
    private final String style;
    private final int slowMs;
    /** While it handles a record, it polls on with every partition paused, as who must not be missed. */
    private final boolean polling;
    private final int pauses;
    private final int seeks;
    private final Random random;
    private final KafkaConsumer<String, String> consumer;
    /** Everything below is handled, since the partition was assigned or sought back in. */
    private final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();
    /**
     * What it was told is its own. The client's assignment() lags behind: by KIP-848 it holds a partition for a
     * moment after onPartitionsRevoked, and what is noted of that partition then would be committed much later.
     */
    private final Set<TopicPartition> mine = new HashSet<>();
    /** Given while it handled others. */
    private final Deque<ConsumerRecords<String, String>> waiting = new ArrayDeque<>();
    private long committedAt = System.nanoTime();
    private volatile boolean calm;
    private volatile boolean stopping;

    /** start ID GROUP TOPIC PROTOCOL INSTANCE STYLE SLOW_MS POLLING BATCH PAUSES SEEKS SEED */
    Healthy(String bootstrap, String[] words) {
        id = words[1];
        topic = words[3];
        style = words[6];
        slowMs = Integer.parseInt(words[7]);
        polling = Boolean.parseBoolean(words[8]);
        pauses = Integer.parseInt(words[10]);
        seeks = Integer.parseInt(words[11]);
        random = new Random(Long.parseLong(words[12]));
        var config = new Properties();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", words[2]);
        config.put("client.id", "healthy-" + id);
        config.put("auto.offset.reset", "earliest");
        config.put("key.deserializer", StringDeserializer.class);
        config.put("value.deserializer", StringDeserializer.class);
        config.put("max.poll.records", words[9]);
        if (words[4].equals("consumer")) {
            config.put("group.protocol", "consumer");
        } else {
            config.put("session.timeout.ms", "30000");
            config.put("heartbeat.interval.ms", "500");
            if (words[4].equals("cooperative")) {
                config.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
            }
        }
        if (!words[5].equals("-")) {
            config.put("group.instance.id", words[5]);
        }
        config.put("enable.auto.commit", Boolean.toString(isAuto()));
        config.put("auto.commit.interval.ms", "700");
        consumer = new KafkaConsumer<>(config);
    }

    /** From now on it hurries, commits whatever it has handled, and stays where it is. */
    void calm() {
        calm = true;
    }

    /** It commits what it has handled, and leaves. */
    void stop() {
        stopping = true;
    }

    @Override
    public void run() {
        try (consumer) {
            consumer.subscribe(List.of(topic), this);
            while (!stopping) {
                handle(waiting.isEmpty() ? consumer.poll(Duration.ofMillis(100)) : waiting.remove());
                if (calm) {
                    consumer.resume(consumer.paused());
                } else {
                    fidget();
                }
            }
            commit(next);
        }
    }

    private void handle(ConsumerRecords<String, String> records) {
        for (var partition : records.partitions()) {
            var left = new ArrayList<>(records.records(partition));
            while (!left.isEmpty() && isMine(partition) && (!stopping || isAuto())) {
                var taken = left.subList(0, Math.min(left.size(), style.equals("pool") ? WORKERS : 1));
                work(partition, new ArrayList<>(taken));
                taken.clear();
            }
        }
        boolean isTime = System.nanoTime() - committedAt > (calm ? 400_000_000L : 1_500_000_000L);
        boolean isBatch = calm || style.equals("batch");
        if (isBatch && !records.isEmpty() || (calm || style.equals("time")) && isTime) {
            commit(next);
        } else if (style.equals("async") && !next.isEmpty()) {
            consumer.commitAsync(Map.copyOf(next), null);
        }
    }

    /** Workers are done in any order, and each commits its own record. */
    private void work(TopicPartition partition, List<ConsumerRecord<String, String>> records) {
        long end = records.get(records.size() - 1).offset() + 1;
        Collections.shuffle(records, random);
        for (var record : records) {
            handle(record);
            if (style.equals("pool")) {
                consumer.commitAsync(Map.of(partition, new OffsetAndMetadata(record.offset() + 1)), null);
            }
        }
        if (!isMine(partition)) {
            return;
        }
        next.put(partition, new OffsetAndMetadata(end));
        if (style.equals("record")) {
            commit(Map.of(partition, new OffsetAndMetadata(end)));
        }
    }

    private void handle(ConsumerRecord<String, String> record) {
        if (!calm && slowMs > 0) {
            pass(random.nextInt(slowMs + 1));
        }
        System.out.println("done " + id + " " + record.partition() + " " + record.offset());
    }

    private void pass(long ms) {
        if (polling) {
            long since = System.nanoTime();
            consumer.pause(consumer.assignment());
            while (System.nanoTime() - since < ms * 1_000_000 && !stopping) {
                var others = consumer.poll(Duration.ofMillis(20));
                if (!others.isEmpty()) {
                    waiting.add(others);
                }
            }
            consumer.resume(consumer.paused());
        } else {
            try {
                Thread.sleep(ms);
            } catch (InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
    }

    /** What is refused now is committed with what comes next, or read again by somebody else. */
    private void commit(Map<TopicPartition, OffsetAndMetadata> offsets) {
        committedAt = System.nanoTime();
        if (isAuto() || offsets.isEmpty()) {
            return;
        }
        try {
            consumer.commitSync(Map.copyOf(offsets));
        } catch (KafkaException e) {
            System.err.println(id + ": commit: " + e);
        }
    }

    private void fidget() {
        try {
            pause();
            replay();
        } catch (KafkaException | IllegalStateException e) {
            System.err.println(id + ": while it is assigned others: " + e);
        }
    }

    /** Now and then it resumes what it has paused, and pauses others, some only for a moment. */
    private void pause() {
        if (random.nextInt(1000) >= pauses) {
            return;
        }
        boolean moment = random.nextBoolean();
        for (var partition : Set.copyOf(consumer.assignment())) {
            boolean resumes = consumer.paused().contains(partition);
            if (!resumes && random.nextBoolean()) {
                consumer.pause(Set.of(partition));
                resumes = moment;
            }
            if (resumes) {
                consumer.resume(Set.of(partition));
            }
        }
    }

    /** Now and then it goes back to what is committed, or before. */
    private void replay() {
        var assigned = new ArrayList<>(consumer.assignment());
        if (random.nextInt(1000) < seeks && !assigned.isEmpty()) {
            var partition = assigned.get(random.nextInt(assigned.size()));
            var committed = consumer.committed(Set.of(partition)).get(partition);
            long back = random.nextInt(20) + (style.equals("close") ? 1 : 0);
            if (committed != null && committed.offset() >= back) {
                next.remove(partition);
                consumer.seek(partition, committed.offset() - back);
            }
        }
    }

    /** What was taken away meanwhile is somebody else's; but auto-commit has passed it. */
    private boolean isMine(TopicPartition partition) {
        return isAuto() || mine.contains(partition);
    }

    private boolean isAuto() {
        return style.equals("auto");
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        var revoked = new HashMap<>(next);
        revoked.keySet().retainAll(partitions);
        commit(revoked);
        onPartitionsLost(partitions);
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        next.keySet().removeAll(partitions);
        mine.addAll(partitions);
    }

    @Override
    public void onPartitionsLost(Collection<TopicPartition> partitions) {
        next.keySet().removeAll(partitions);
        mine.removeAll(partitions);
    }
}
