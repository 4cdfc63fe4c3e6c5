package stepinto.probe.threads;

import com.sun.jdi.Location;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.BreakpointEvent;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventQueue;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.ExceptionEvent;
import com.sun.jdi.event.LocatableEvent;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.ClassPrepareRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.EventRequestManager;
import com.sun.jdi.request.InvalidRequestStateException;
import java.util.*;

/**
 * The requests for events, and the events of the virtual machine, in the order in which they came.
 *
 * <p>While the debugger itself runs code of the program, all are off but those for breakpoints. The
 * debug interface drops the event of a request that was off meanwhile, and another thread may have
 * come to a breakpoint as the program stopped: its event comes later. Those of the thread that runs
 * the code are passed over.
 *
 * <p>The debug interface's own queue starts a thread for each wait with a time-out, and leaves it
 * to end later: a program with many events soon has all the threads that the sandbox allows.
 */
public final class Requests {
    private static final long NANOS_PER_MILLI = 1_000_000;
    /** So many events of code that runs for the debugger are passed over, at most. */
    private static final int MOST_PASSED = 200;
    private static final int HOLD_MILLIS = 1;
    private static final int HOLD_TURNS = 1000;
    private final VirtualMachine machine;
    private final Set<String> prepared = new HashSet<>();
    private final Set<EventRequest> requests = new LinkedHashSet<>();
    private final Map<Location, List<BreakpointRequest>> breakpoints = new HashMap<>();
    /** Those that stay on while code runs for the debugger. */
    private final Set<EventRequest> lasting = new HashSet<>();
    /** Of breakpoints that were removed: to be deleted once no event of them is on its way. */
    private final List<EventRequest> retired = new ArrayList<>();
    /** The thread in which code runs for the debugger; null while the program itself runs. */
    private volatile ThreadReference pausing;
    private boolean off;
    private int passed;
    private final Deque<EventSet> arrived = new ArrayDeque<>();
    private final Deque<EventSet> aside = new ArrayDeque<>();
    /** Events of other threads that came while code ran; they hold the program no longer. */
    private final Deque<EventSet> late = new ArrayDeque<>();
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
        if (request instanceof BreakpointRequest) {
            BreakpointRequest point = (BreakpointRequest) request;
            breakpoints.computeIfAbsent(point.location(), place -> new ArrayList<>()).add(point);
        }
        if (!off || lasting.contains(request)) {
            request.enable();
        }
        return request;
    }

    /** Turn on one for a breakpoint or an exception. */
    public <T extends EventRequest> T enableLasting(T request) {
        lasting.add(request);
        return enable(request);
    }

    /** Stop where a method begins, with a property by which the event is known. */
    public BreakpointRequest stopIn(Method method, String property) {
        BreakpointRequest request = manager().createBreakpointRequest(method.location());
        request.putProperty(property, true);
        return enable(request);
    }

    public void delete(EventRequest request) {
        forget(request);
        manager().deleteEventRequest(request);
    }

    /** Delete one whose events may be on their way, which another one may count. */
    public void retire(EventRequest request) {
        forget(request);
        retired.add(request);
    }

    /** No event is on its way: delete what was retired. */
    public void deleteRetired() {
        manager().deleteEventRequests(retired);
        retired.clear();
    }

    private void forget(EventRequest request) {
        requests.remove(request);
        lasting.remove(request);
        if (request instanceof BreakpointRequest) {
            Location place = ((BreakpointRequest) request).location();
            List<BreakpointRequest> others = at(place);
            others.remove(request);
            if (others.isEmpty()) {
                breakpoints.remove(place);
            } else {
                breakpoints.put(place, others);
            }
        }
    }

    /**
     * Those that stop a thread at a place now.
     *
     * <p>The event of a thread that came there may have been on its way since before they were off,
     * or were made: it does not know them, and the thread will not stop there once more.
     */
    public List<BreakpointRequest> at(Location place) {
        return new ArrayList<>(breakpoints.getOrDefault(place, new ArrayList<>()));
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

    /** Code of the program is about to be run for the debugger, in a thread. */
    void pause(ThreadReference thread) {
        pausing = thread;
        if (!off) {
            off = true;
            passed = 0;
            requests.stream()
                    .filter(request -> !lasting.contains(request))
                    .forEach(EventRequest::disable);
        }
    }

    /** Whether code may have run for the debugger since the program stopped. */
    public boolean paused() {
        return pausing != null;
    }

    /**
     * Have the program held by one event only, that of a thread: methods can't be run in it else.
     *
     * <p>The virtual machine keeps events back while it stands still, until code runs for the
     * debugger. So those of several threads may come before it goes on.
     */
    public void holdOnce(ThreadReference thread) throws InterruptedException {
        pausing = thread;
        for (int turn = 0; turn < HOLD_TURNS && thread.suspendCount() > 1; turn++) {
            EventSet other = take(HOLD_MILLIS);
            if (other != null) {
                passOn(other);
            }
        }
    }

    private synchronized void passOn(EventSet set) {
        late.add(set);
        set.resume();
    }

    /** Everything on again; false if the program must not go on, since {@link #late} has more. */
    public synchronized boolean resume() {
        if (!late.isEmpty()) {
            return false;
        }
        pausing = null;
        if (off) {
            off = false;
            requests.forEach(EventRequest::enable);
        }
        return true;
    }

    /** Events of another thread that came while code ran; null if there are none. */
    public synchronized EventSet late() {
        return late.poll();
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
        LocatableEvent event = pausing == null ? null : ofBreakpoint(set);
        if (event == null) {
            arrived.add(set);
            notifyAll();
            return;
        }
        if (!event.thread().equals(pausing)) {
            passOn(set);
            return;
        }
        if (++passed > MOST_PASSED) {
            set.forEach(each -> disable(each.request()));
        }
        set.resume();
    }

    private static void disable(EventRequest request) {
        try {
            request.disable();
        } catch (InvalidRequestStateException deleted) {
            return; // while its event was on its way
        }
    }

    /** The event of a breakpoint or an exception in a set that stops all threads; else null. */
    private static LocatableEvent ofBreakpoint(EventSet set) {
        boolean all = set.suspendPolicy() == EventRequest.SUSPEND_ALL;
        for (Event event : set) {
            if (all && (event instanceof BreakpointEvent || event instanceof ExceptionEvent)) {
                return (LocatableEvent) event;
            }
        }
        return null;
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
