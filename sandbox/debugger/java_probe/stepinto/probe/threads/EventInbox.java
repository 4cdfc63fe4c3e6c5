package stepinto.probe.threads;

import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.event.EventQueue;
import com.sun.jdi.event.EventSet;
import java.util.ArrayDeque;
import java.util.Deque;

/**
 * The events of a virtual machine, in the order in which they came.
 *
 * <p>The debug interface's own queue starts a thread for each wait with a time-out, and leaves it
 * to end later: a program with many events soon has all the threads that the sandbox allows.
 */
public final class EventInbox {
    private static final long NANOS_PER_MILLI = 1_000_000;
    private final Deque<EventSet> arrived = new ArrayDeque<>();
    private final Deque<EventSet> aside = new ArrayDeque<>();
    private boolean disconnected;

    public EventInbox(EventQueue queue) {
        Threads.start("events", () -> receive(queue));
    }

    private void receive(EventQueue queue) {
        try {
            while (true) {
                add(queue.remove());
            }
        } catch (VMDisconnectedException | InterruptedException gone) {
            synchronized (this) {
                disconnected = true;
                notifyAll();
            }
        }
    }

    private synchronized void add(EventSet set) {
        arrived.add(set);
        notifyAll();
    }

    /**
     * The next events that nobody has seen; null if none come in time.
     *
     * @throws VMDisconnectedException if none can come any more
     */
    public synchronized EventSet take(long millis) throws InterruptedException {
        long end = System.nanoTime() + millis * NANOS_PER_MILLI;
        while (arrived.isEmpty()) {
            long left = (end - System.nanoTime() + NANOS_PER_MILLI - 1) / NANOS_PER_MILLI;
            if (disconnected) {
                throw new VMDisconnectedException();
            }
            if (left <= 0) {
                return null;
            }
            wait(left);
        }
        return arrived.poll();
    }

    /** Keep events for {@link #next}: they came while something else was awaited. */
    synchronized void putAside(EventSet set) {
        aside.add(set);
    }

    /** The next events, those put aside first; null if none come in time. */
    public synchronized EventSet next(long millis) throws InterruptedException {
        return aside.isEmpty() ? take(millis) : aside.poll();
    }
}
