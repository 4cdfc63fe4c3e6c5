package stepinto.probe;

import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;

/** The head and the tail of what the program wrote since the last answer. */
final class OutputRing {
    private final int half;
    private final byte[] tail;
    private final ByteArrayOutputStream head = new ByteArrayOutputStream();

    /** Bytes that came after the head; the last of them are in the tail, a ring. */
    private long late;

    OutputRing(int limit) {
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

    /** The text, its middle cut where it was too long; the ring starts over. */
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
