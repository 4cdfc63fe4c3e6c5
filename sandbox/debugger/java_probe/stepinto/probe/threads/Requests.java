package stepinto.probe.threads;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.EventQueue;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.ClassPrepareRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.EventRequestManager;
import java.util.*;

/**
 * The requests for events, all off while the debugger itself runs code of the program, and the
 * events of the virtual machine, in the order in which they came.
 *
 * <p>The debug interface's own queue starts a thread for each wait with a time-out, and leaves it
 * to end later: a program with many events soon has all the threads that the sandbox allows.
 */
public final class Requests {
    private static final long NANOS_PER_MILLI = 1_000_000;
    private final VirtualMachine machine;
    private final Set<String> prepared = new HashSet<>();
    private final Set<EventRequest> requests = new LinkedHashSet<>();
    private boolean pausing;
    private final Deque<EventSet> arrived = new ArrayDeque<>();
    private final Deque<EventSet> aside = new ArrayDeque<>();
    private boolean disconnected;

    public Requests(VirtualMachine machine) {
        this.machine = machine;
        Threads.start("events", () -> receive(machine.eventQueue()));
    }

    public EventRequestManager manager() {
        return machine.eventRequestManager();
    }

    /** Turn a new request on, stopping all threads at its event. */
    public <T extends EventRequest> T enable(T request) {
        request.setSuspendPolicy(EventRequest.SUSPEND_ALL);
        requests.add(request);
        if (!pausing) {
            request.enable();
        }
        return request;
    }

    /** Stop where a method begins, with a property by which the event is known. */
    public BreakpointRequest stopIn(Method method, String property) {
        BreakpointRequest request = manager().createBreakpointRequest(method.location());
        request.putProperty(property, true);
        return enable(request);
    }

    public void delete(EventRequest request) {
        requests.remove(request);
        manager().deleteEventRequest(request);
    }

    /** Ask for an event when a class is loaded; returns its versions that are loaded now. */
    public List<ReferenceType> await(String name) {
        if (prepared.add(name)) {
            ClassPrepareRequest request = manager().createClassPrepareRequest();
            request.addClassFilter(name);
            enable(request);
        }
        return machine.classesByName(name);
    }

    /** Turn everything off: code of the program is about to be run for the debugger. */
    void pause() {
        if (!pausing) {
            pausing = true;
            requests.forEach(EventRequest::disable);
        }
    }

    /** The program goes on: everything on again; whether it had been off. */
    public boolean resume() {
        if (!pausing) {
            return false;
        }
        pausing = false;
        requests.forEach(EventRequest::enable);
        return true;
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
