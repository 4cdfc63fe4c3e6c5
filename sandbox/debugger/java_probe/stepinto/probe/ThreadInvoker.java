package stepinto.probe;

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
import java.util.Collections;
import java.util.List;

/** Runs methods of the program in its stopped thread, and ends those that take too long. */
final class ThreadInvoker implements Invoker {
    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final long BETWEEN_TRIES = 100 * NANOS_PER_MILLI;
    private static final int INTERRUPT_AFTER = 3;
    private final VirtualMachine machine;
    private final Requests requests;
    /** Raised in a method that runs too long; made before any does. */
    private volatile ObjectReference ender;
    private ThreadReference thread;
    private boolean atEvent;
    private long actionDeadline;
    private volatile ThreadReference running;
    private volatile long deadline;
    private volatile int tries;

    ThreadInvoker(VirtualMachine machine, Requests requests) {
        this.machine = machine;
        this.requests = requests;
    }

    /** The program stopped in a thread; at an event, else methods can't be run in it. */
    void stoppedIn(ThreadReference stopped, boolean atAnEvent) {
        thread = stopped;
        atEvent = atAnEvent;
    }

    /** When what runs for the action being answered must have ended. */
    void until(long end) {
        actionDeadline = end;
    }

    /** Until then. */
    long millisLeft() {
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
        if (ender != null) {
            return;
        }
        List<ReferenceType> types = machine.classesByName("java.lang.ThreadDeath");
        if (types.isEmpty()) {
            types = machine.classesByName("java.lang.Error");
        }
        ClassType type = (ClassType) types.get(0);
        Method constructor = type.concreteMethodByName("<init>", "()V");
        deadline = actionDeadline;
        ObjectReference made =
                (ObjectReference) run(null, type, constructor, Collections.<Value>emptyList());
        made.disableCollection();
        ender = made;
    }

    private Value run(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments)
            throws InvocationFailed {
        tries = 0;
        running = thread;
        try {
            return call(object, type, method, arguments);
        } catch (InvocationException raised) {
            if (tries > 0) {
                throw InvocationFailed.timedOut("it did not end in time and was interrupted");
            }
            throw InvocationFailed.raised(raised.exception());
        } catch (InvalidTypeException | ClassNotLoadedException error) {
            throw InvocationFailed.impossible("its arguments do not fit: " + error.getMessage());
        } catch (IncompatibleThreadStateException error) {
            throw InvocationFailed.impossible("its thread is not paused where methods can be run");
        } finally {
            running = null;
        }
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

    /** End what runs past its deadline; called again and again until it does. */
    void endLate() {
        ThreadReference late = running;
        if (late == null || System.nanoTime() < deadline) {
            return;
        }
        deadline = System.nanoTime() + BETWEEN_TRIES;
        tries++;
        try {
            if (ender != null) {
                late.stop(ender);
            }
            if (tries > INTERRUPT_AFTER) {
                late.interrupt();
            }
        } catch (InvalidTypeException error) {
            throw new IllegalStateException(error);
        } catch (VMDisconnectedException gone) {
            running = null;
        } catch (RuntimeException notNow) {
            deadline = System.nanoTime() + BETWEEN_TRIES; // it has just ended, or can't be stopped
        }
    }
}
