package stepinto.probe.wire;

/** One request of the host. Times are those of {@code System.nanoTime}. */
public final class Request {
    private static final double NANOS = 1e9;
    final Object id;
    public final String action;
    public final Fields arguments;

    /** In seconds. */
    public final double timeout;

    /** When what it started is interrupted. */
    public volatile long deadline;

    /** When the program is killed, if there is no answer yet. */
    public final long killAt;

    Request(Fields message) {
        id = message.get("id");
        action = (String) message.get("action");
        arguments = message.fields("arguments");
        timeout = ((Number) message.get("timeout")).doubleValue();
        deadline = System.nanoTime() + (long) (timeout * NANOS);
        killAt = deadline + (long) (((Number) message.get("grace")).doubleValue() * NANOS);
    }

    /** Let its time be over now. */
    void interrupt() {
        deadline = Math.min(deadline, System.nanoTime());
    }

    public boolean isLate() {
        return System.nanoTime() >= deadline;
    }

    /** Milliseconds to the deadline, at least 1. */
    public long millisLeft() {
        return Math.max((deadline - System.nanoTime()) / 1_000_000, 1);
    }
}
