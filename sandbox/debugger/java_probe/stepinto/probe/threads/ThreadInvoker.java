package stepinto.probe.threads;

import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.ClassType;
import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.InvalidTypeException;
import com.sun.jdi.InvocationException;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VMDisconnectedException;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.EventSet;
import java.util.List;

/** Runs methods of the program in its stopped thread, and ends those that take too long. */
public final class ThreadInvoker implements Invoker {
    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final String ENDED = "it did not end in time and was interrupted";
    private static final int POPS = 2;
    private static final long BETWEEN_TRIES = 100 * NANOS_PER_MILLI;
    private final VirtualMachine machine;
    private final Requests requests;
    private final EventInbox events;
    /** Made before any method is run. */
    private volatile Rescuer rescuer;
    private ExitWatch exits;
    private FramePopper popper;
    private final Interrupts interrupts;
    /** The code with which a method has ended the program; null if none has. */
    private volatile Integer exitCode;
    private ThreadReference thread;
    private boolean atEvent;
    private long actionDeadline;
    private volatile ThreadReference running;
    private volatile long deadline;
    private volatile int tries;
    /** Whether an error was raised in the thread. */
    private volatile boolean stopped;
    /** Of the thread's stack before the method was run. */
    private int depth;
    private final Object ending = new Object();
    private volatile String lateReason;

    /** Events that come while methods run are put aside. */
    public ThreadInvoker(VirtualMachine machine, Requests requests, EventInbox events) {
        this.machine = machine;
        this.requests = requests;
        this.events = events;
        interrupts = new Interrupts(machine);
    }

    /** The program stopped in a thread; at an event, else methods can't be run in it. */
    public void stoppedIn(ThreadReference stopped, boolean atAnEvent) {
        thread = stopped;
        atEvent = atAnEvent;
    }

    /** When what runs for the action being answered must have ended. */
    public void until(long end) {
        actionDeadline = end;
    }

    @Override
    public ThreadReference thread() {
        return thread;
    }

    /** Until then. */
    public long millisLeft() {
        return Math.max((actionDeadline - System.nanoTime()) / NANOS_PER_MILLI, 1);
    }

    @Override
    public Value invoke(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments,
            long millis)
            throws InvocationFailed {
        if (!atEvent) {
            throw InvocationFailed.impossible(
                    "no method can be run while the thread is in native code or waits;"
                            + " look at variables and fields, or continue to a breakpoint");
        }
        long now = System.nanoTime();
        if (now > actionDeadline) {
            throw InvocationFailed.timedOut("the action is out of time");
        }
        requests.pause();
        prepare();
        long end = now + millis * NANOS_PER_MILLI;
        deadline = millis == ACTION ? actionDeadline : Math.min(end, actionDeadline);
        return run(object, type, method, arguments);
    }

    private void prepare() throws InvocationFailed {
        if (rescuer != null) {
            return;
        }
        try {
            exits = new ExitWatch(machine);
            popper = new FramePopper(machine, events);
            rescuer = new Rescuer(machine, thread, events);
        } catch (InvocationException
                | InvalidTypeException
                | ClassNotLoadedException
                | IncompatibleThreadStateException error) {
            throw InvocationFailed.impossible("no method can be run in its thread: " + error);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    private Value run(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments)
            throws InvocationFailed {
        tries = 0;
        stopped = false;
        lateReason = null;
        try {
            depth = thread.frameCount();
            running = thread;
            Value value = call(object, type, method, arguments);
            if (tries > 0) {
                throw InvocationFailed.timedOut(ENDED);
            }
            return value;
        } catch (InvocationException raised) {
            if (tries > 0) {
                throw InvocationFailed.timedOut(ENDED);
            }
            throw InvocationFailed.raised(raised.exception());
        } catch (InvalidTypeException | ClassNotLoadedException error) {
            throw InvocationFailed.impossible("its arguments do not fit: " + error.getMessage());
        } catch (IncompatibleThreadStateException error) {
            throw InvocationFailed.impossible("its thread is not paused where methods can be run");
        } finally {
            settle();
        }
    }

    /** Nothing runs any more; what was raised in the thread too late must not hit the program. */
    private void settle() {
        synchronized (ending) {
            running = null;
        }
        if (!stopped) {
            return;
        }
        stopped = false;
        interrupts.onStopped(thread, rescuer);
    }

    /** The program is about to go on. */
    public void resuming() {
        interrupts.onResume();
    }

    private Value call(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException {
        int alone = ClassType.INVOKE_SINGLE_THREADED;
        if (object != null) {
            int exactly = type == null ? alone : alone | ObjectReference.INVOKE_NONVIRTUAL;
            return object.invokeMethod(thread, method, arguments, exactly);
        }
        if (type instanceof InterfaceType) {
            return ((InterfaceType) type).invokeMethod(thread, method, arguments, alone);
        }
        ClassType owner = (ClassType) type;
        return method.isConstructor()
                ? owner.newInstance(thread, method, arguments, alone)
                : owner.invokeMethod(thread, method, arguments, alone);
    }

    /** What a method that runs too long is doing, as a kill reason; null if none does. */
    public String lateReason() {
        return lateReason;
    }

    /** The code with which a method has ended the program; null if none has. */
    public Integer exitCode() {
        return exitCode;
    }

    /**
     * End what runs past its deadline; called again and again until it does. From another thread.
     *
     * @return whether the method has ended the program, which is to be killed then
     */
    public boolean endLate() {
        ThreadReference late = running;
        if (late == null) {
            return false;
        }
        try {
            synchronized (ending) {
                // Behind the method's end the events are not this thread's to take.
                if (running == late && exiting()) {
                    return true;
                }
            }
            if (System.nanoTime() > deadline) {
                stop(late);
            }
        } catch (InvalidTypeException
                | InvocationException
                | ClassNotLoadedException
                | InterruptedException error) {
            throw new IllegalStateException(error);
        } catch (VMDisconnectedException gone) {
            running = null;
        } catch (IncompatibleThreadStateException | RuntimeException notNow) {
            deadline = System.nanoTime() + BETWEEN_TRIES; // it has just ended
        }
        return false;
    }

    private void stop(ThreadReference late)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException, InterruptedException {
        synchronized (ending) {
            if (running == late) {
                deadline = System.nanoTime() + BETWEEN_TRIES;
                tries++;
                lateReason = reason(rescuer.state(late));
                if (tries > POPS || !popper.end(late, depth)) {
                    stopped = true;
                    rescuer.stop(late);
                }
            }
        }
    }

    private boolean exiting() throws InterruptedException, IncompatibleThreadStateException {
        EventSet set = events.take(1);
        if (set == null) {
            return false;
        }
        exitCode = exits.code(set);
        if (exitCode == null) {
            events.putAside(set);
        }
        return exitCode != null;
    }

    private static String reason(String state) {
        switch (state) {
            case "BLOCKED":
                return Diagnosis.DEADLOCK;
            case "RUNNABLE":
                return Diagnosis.ENDLESS_LOOP;
            default:
                return Diagnosis.NATIVE;
        }
    }
}
