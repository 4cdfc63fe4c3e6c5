package stepinto.probe.launch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * What the program writes, in order and bounded.
 *
 * <p>It is read only if the pipe is known to hold something, under a lock: so an answer can
 * take all that the program wrote before its stop, which a thread blocked in a read could still
 * be holding back.
 */
public final class Output implements Runnable {
    private static final int LONGEST_WAIT = 16;
    private static final int READS_AT_ONCE = 256;
    private final InputStream stream;
    private final Ring ring;
    private final byte[] buffer = new byte[1 << 16];
    private boolean following;

    Output(InputStream stream, int limit) {
        this.stream = stream;
        ring = new Ring(limit);
    }

    @Override
    public void run() {
        int wait = 1;
        try {
            while (true) {
                awaitProgram();
                wait = drain() ? 1 : Math.min(wait * 2, LONGEST_WAIT);
                Thread.sleep(wait);
            }
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Whether the program runs, so that it may block on a full pipe. */
    public synchronized void follow(boolean runs) {
        following = runs;
        notifyAll();
    }

    /**
     * Take what the program wrote up to its end, while its virtual machine is still held there:
     * once the process is gone, the JDK empties the pipe at a time of its own.
     */
    public synchronized void atDeath() {
        drain();
    }

    private synchronized void awaitProgram() throws InterruptedException {
        while (!following) {
            wait();
        }
    }

    /** Take what is there; whether there was any. Bounded, so that a flood can't hold us here. */
    private synchronized boolean drain() {
        boolean any = false;
        try {
            for (int turn = 0; turn < READS_AT_ONCE && stream.available() > 0; turn++) {
                int size = stream.read(buffer, 0, Math.min(stream.available(), buffer.length));
                ring.add(buffer, Math.max(size, 0));
                any = true;
            }
        } catch (IOException error) {
            return any; // the pipe was closed with the program: there is no more
        }
        return any;
    }

    /** Put what was written since the last answer into an answer. */
    public synchronized void putInto(Map<String, Object> answer) {
        drain();
        boolean truncated = ring.truncated();
        String text = ring.take();
        if (!text.isEmpty()) {
            answer.put("output", text);
        }
        if (truncated) {
            answer.put("output_truncated", true);
        }
    }

    /** The head and the tail of what the program wrote since the last answer. */
    private static final class Ring {
        private final int half;
        private final byte[] tail;
        private final ByteArrayOutputStream head = new ByteArrayOutputStream();

        /** Bytes that came after the head; the last of them are in the tail, a ring. */
        private long late;

        Ring(int limit) {
            half = Math.max(limit / 2, 1);
            tail = new byte[half];
        }

        void add(byte[] data, int size) {
            int first = Math.min(size, half - head.size());
            head.write(data, 0, first);
            int from = Math.max(first, size - half);
            late += from - first;
            for (int at = from; at < size; at++) {
                tail[(int) (late++ % half)] = data[at];
            }
        }

        /** Whether bytes were cut. */
        boolean truncated() {
            return late > half;
        }

        /** The text, its middle cut if it was too long; the ring starts over. */
        String take() {
            if (head.size() == 0) {
                return "";
            }
            int kept = (int) Math.min(late, half);
            byte[] end = new byte[kept];
            for (int at = 0; at < kept; at++) {
                end[at] = tail[(int) ((late - kept + at) % half)];
            }
            String text = text(head.toByteArray());
            if (truncated()) {
                text += "\n... " + (late - half) + " bytes cut ...\n" + text(end);
            } else {
                byte[] all = new byte[head.size() + kept];
                System.arraycopy(head.toByteArray(), 0, all, 0, head.size());
                System.arraycopy(end, 0, all, head.size(), kept);
                text = text(all);
            }
            head.reset();
            late = 0;
            return text;
        }

        private static String text(byte[] bytes) {
            return new String(bytes, StandardCharsets.UTF_8);
        }
    }
}
