package stepinto.probe.launch;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import stepinto.probe.wire.Fields;

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
    private final byte[] buffer = new byte[1 << 16];
    private final ByteArrayOutputStream head = new ByteArrayOutputStream();
    private final byte[] tail;
    /** Bytes that came after the head; the last of them are in the tail, a ring. */
    private long late;
    private boolean following;

    Output(InputStream stream, int limit) {
        this.stream = stream;
        tail = new byte[Math.max(limit / 2, 1)];
    }

    @Override
    public void run() {
        int wait = 1;
        try {
            while (true) {
                synchronized (this) {
                    while (!following) {
                        wait();
                    }
                }
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

    /** Take what is there; whether there was any. Bounded, so that a flood can't hold us here. */
    public synchronized boolean drain() {
        boolean any = false;
        try {
            for (int turn = 0; turn < READS_AT_ONCE && stream.available() > 0; turn++) {
                int size = stream.read(buffer, 0, Math.min(stream.available(), buffer.length));
                add(buffer, Math.max(size, 0));
                any = true;
            }
        } catch (IOException error) {
            return any; // the pipe was closed with the program: there is no more
        }
        return any;
    }

    /** Put what was written since the last answer into an answer. */
    public synchronized void putInto(Fields answer) {
        drain();
        boolean truncated = late > tail.length;
        String text = taken();
        if (!text.isEmpty()) {
            answer.put("output", text);
        }
        if (truncated) {
            answer.put("output_truncated", true);
        }
    }

    /** What was written since the last answer, its middle cut if it was too long. */
    public synchronized String take() {
        drain();
        return taken();
    }

    private String taken() {
        int kept = (int) Math.min(late, tail.length);
        byte[] end = new byte[kept];
        for (int at = 0; at < kept; at++) {
            end[at] = tail[(int) ((late - kept + at) % tail.length)];
        }
        String text;
        if (late > tail.length) {
            text = text(head.toByteArray()) + "\n... " + (late - tail.length) + " bytes cut ...\n"
                    + text(end);
        } else {
            head.write(end, 0, kept);
            text = text(head.toByteArray());
        }
        head.reset();
        late = 0;
        return text;
    }

    private static String text(byte[] bytes) {
        return new String(bytes, StandardCharsets.UTF_8);
    }

    private void add(byte[] data, int size) {
        int half = tail.length;
        int first = Math.min(size, half - head.size());
        head.write(data, 0, first);
        int from = Math.max(first, size - half);
        late += from - first;
        for (int at = from; at < size; at++) {
            tail[(int) (late++ % half)] = data[at];
        }
    }
}
