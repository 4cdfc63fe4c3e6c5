package stepinto.probe.threads;

import com.sun.jdi.*;
import com.sun.jdi.event.BreakpointEvent;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.StepEvent;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.StepRequest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.Variables;

/**
 * Runs methods of the program in its stopped thread, and ends those that take too long.
 *
 * <p>Afterwards every {@code StackFrame} fetched before is invalid: ask {@code FrameAt} for it
 * again.
 */
public final class Invoker {
    /** The deadline of the action being answered. */
    public static final long ACTION = 0;

    private static final long NANOS_PER_MILLI = 1_000_000;
    private static final String ENDED = "it did not end in time and was interrupted";
    private static final int POPS = 2;
    private static final long BETWEEN_TRIES = 100 * NANOS_PER_MILLI;
    private static final int CLEARINGS = 10;
    private static final int RESUMES = 2;
    private final VirtualMachine machine;
    private final Requests requests;
    /** They tell of an exit, and stay on while methods run. */
    private final List<EventRequest> exits = new ArrayList<>();
    /** Made before any method is run. */
    private volatile Rescuer rescuer;
    /** The code with which a method has ended the program; null if none has. */
    public volatile Integer exitCode;
    private ThreadReference thread;
    private boolean atEvent;
    private long actionDeadline;
    private volatile ThreadReference running;
    private volatile long deadline;
    private volatile int tries;
    /** Whether an error was raised in the thread. */
    private volatile boolean stopped;
    /** The thread that was stopped last, and how often it may still be found interrupted. */
    private ThreadReference interrupted;
    private int interruptions;
    /** Of the thread's stack before the method was run. */
    private int depth;
    private final Object ending = new Object();
    /** What a method that runs too long is doing, as a kill reason; null if none does. */
    public volatile String lateReason;

    /** Events that come while methods run are put aside. */
    public Invoker(VirtualMachine machine, Requests requests) {
        this.machine = machine;
        this.requests = requests;
    }

    /** The program stopped in a thread; at an event, else methods can't be run in it. */
    public void stoppedIn(ThreadReference stoppedThread, boolean atAnEvent) {
        thread = stoppedThread;
        atEvent = atAnEvent;
    }

    /** When what runs for the action being answered must have ended. */
    public void until(long end) {
        actionDeadline = end;
    }

    /** The thread that methods run in; null if there is none. */
    public ThreadReference thread() {
        return thread;
    }

    /**
     * Invokes a method and waits for it.
     *
     * @param object the receiver; null for a static method or a constructor
     * @param type the class of a static method or constructor; with an object, null for a virtual
     *     call, else the method is called as it is, without a look for what overrides it
     * @param millis how long it may run, or {@link #ACTION}
     * @return what it returned; the new object for a constructor; null for void
     * @throws InvocationFailed when it raised, did not end in time (then it was ended, see {@link
     *     InvocationFailed#timedOut}), or could not be run here
     */
    public Value invoke(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments,
            long millis)
            throws InvocationFailed {
        if (!atEvent) {
            throw new InvocationFailed(
                    "no method can be run while the thread is in native code or waits;"
                            + " look at variables and fields, or continue to a breakpoint",
                    null, false);
        }
        if (System.nanoTime() > actionDeadline) {
            throw new InvocationFailed("the action is out of time", null, true);
        }
        requests.pause(thread);
        prepare();
        long end = System.nanoTime() + millis * NANOS_PER_MILLI;
        deadline = millis == ACTION ? actionDeadline : Math.min(end, actionDeadline);
        tries = 0;
        stopped = false;
        lateReason = null;
        try {
            depth = thread.frameCount();
            running = thread;
            Value value = call(thread, object, type, method, arguments);
            if (tries > 0) {
                throw new InvocationFailed(ENDED, null, true);
            }
            return value;
        } catch (InvocationException raised) {
            if (tries > 0) {
                throw new InvocationFailed(ENDED, null, true);
            }
            ObjectReference what = raised.exception();
            throw new InvocationFailed("it raised " + what.referenceType().name(), what, false);
        } catch (InvalidTypeException | ClassNotLoadedException error) {
            String message = "its arguments do not fit: " + error.getMessage();
            throw new InvocationFailed(message, null, false);
        } catch (IncompatibleThreadStateException error) {
            throw new InvocationFailed(
                    "its thread is not paused where methods can be run", null, false);
        } finally {
            synchronized (ending) {
                running = null;
            }
            if (stopped) {
                stopped = false;
                clearStop();
            }
        }
    }

    private void prepare() throws InvocationFailed {
        if (rescuer != null) {
            return;
        }
        try {
            // Without this the virtual machine would never end: it waits for the debugger, which
            // waits for the method that ends the program.
            ReferenceType type = machine.classesByName("java.lang.Runtime").get(0);
            for (String name : new String[] {"exit", "halt"}) {
                Method method = type.methodsByName(name, "(I)V").get(0);
                EventRequest exit = requests.manager().createBreakpointRequest(method.location());
                enable(exit);
                exits.add(exit);
            }
            rescuer = new Rescuer();
        } catch (InvocationException | IncompatibleThreadStateException error) {
            throw new InvocationFailed("no method can be run in its thread: " + error, null, false);
        } catch (InterruptedException error) {
            Thread.currentThread().interrupt();
        }
    }

    /** Stops only the thread at the event of a request. */
    private static void enable(EventRequest request) {
        request.setSuspendPolicy(EventRequest.SUSPEND_EVENT_THREAD);
        request.enable();
    }

    private static Value call(
            ThreadReference in,
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException {
        int alone = ClassType.INVOKE_SINGLE_THREADED;
        if (object != null) {
            int exactly = type == null ? alone : alone | ObjectReference.INVOKE_NONVIRTUAL;
            return object.invokeMethod(in, method, arguments, exactly);
        }
        if (type instanceof InterfaceType) {
            return ((InterfaceType) type).invokeMethod(in, method, arguments, alone);
        }
        ClassType owner = (ClassType) type;
        return method.isConstructor()
                ? owner.newInstance(in, method, arguments, alone)
                : owner.invokeMethod(in, method, arguments, alone);
    }

    /** What was raised in the thread too late must not hit the program. */
    private void clearStop() {
        interrupted = thread;
        interruptions = RESUMES;
        for (int turn = 0; turn < CLEARINGS; turn++) {
            try {
                rescuer.call(thread, null, "interrupted", "()Z");
                return;
            } catch (InvocationException pending) {
                continue; // that was it
            } catch (IncompatibleThreadStateException error) {
                throw new IllegalStateException(error);
            }
        }
    }

    /**
     * The program is about to go on.
     *
     * <p>A thread that was stopped is interrupted too, and the virtual machine's agent keeps that
     * back until the thread runs again. So it runs for a moment first, to take it back.
     */
    public void resuming() {
        if (interruptions == 0) {
            return;
        }
        interruptions--;
        Field flag = interrupted.referenceType().fieldByName("interrupted");
        if (flag == null) {
            return; // before JDK 14 it is no field, and can't be taken back
        }
        interrupted.resume();
        interrupted.suspend();
        try {
            interrupted.setValue(flag, machine.mirrorOf(false));
        } catch (InvalidTypeException | ClassNotLoadedException error) {
            throw new IllegalStateException(error);
        }
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
        } catch (InvocationException | InterruptedException error) {
            throw new IllegalStateException(error);
        } catch (VMDisconnectedException gone) {
            running = null;
        } catch (IncompatibleThreadStateException | RuntimeException notNow) {
            deadline = System.nanoTime() + BETWEEN_TRIES; // it has just ended
        }
        return false;
    }

    private void stop(ThreadReference late)
            throws InvocationException, IncompatibleThreadStateException, InterruptedException {
        synchronized (ending) {
            if (running != late) {
                return;
            }
            deadline = System.nanoTime() + BETWEEN_TRIES;
            tries++;
            String state = rescuer.state(late);
            lateReason = state.equals("BLOCKED") ? Diagnosis.DEADLOCK
                    : state.equals("RUNNABLE") ? Diagnosis.ENDLESS_LOOP : Diagnosis.NATIVE;
            if (tries > POPS || !rescuer.pop(late)) {
                stopped = true;
                rescuer.stop(late);
            }
        }
    }

    private boolean exiting() throws InterruptedException, IncompatibleThreadStateException {
        EventSet set = requests.take(1);
        if (set == null) {
            return false;
        }
        for (Event event : set) {
            if (event instanceof BreakpointEvent && exits.contains(event.request())) {
                Value code =
                        ((BreakpointEvent) event).thread().frame(0).getArgumentValues().get(0);
                exitCode = ((IntegerValue) code).value();
                return true;
            }
        }
        requests.putAside(set);
        return false;
    }

    /** A method of the program that was invoked and did not return. */
    public static final class InvocationFailed extends Exception {
        private static final long serialVersionUID = 1;

        /** What the method raised; null if it raised nothing. */
        public final transient ObjectReference raised;

        /** Whether the method did not end in time. */
        public final boolean timedOut;

        InvocationFailed(String message, ObjectReference raised, boolean timedOut) {
            super(message);
            this.raised = raised;
            this.timedOut = timedOut;
        }
    }

    /**
     * A thread in the program, never allowed to run, from which others can be stopped.
     *
     * <p>The debug interface itself can't stop a thread that runs a method for the debugger: it
     * puts that off until the method has ended, and takes the whole virtual machine down when asked
     * twice.
     */
    private final class Rescuer {
        private static final int WAITS = 50;
        private static final int WAIT_MILLIS = 20;
        private static final int POP_MILLIS = 300;
        private final ClassType type = (ClassType) machine.classesByName("java.lang.Thread").get(0);
        private final ThreadReference own;

        /** Make it, by methods run in the stopped one. Events that come meanwhile are put aside. */
        Rescuer()
                throws InvocationException, IncompatibleThreadStateException,
                        InterruptedException {
            Value name = machine.mirrorOf("stepinto");
            own = (ThreadReference) call(thread, null, "<init>", "(Ljava/lang/String;)V", name);
            call(thread, own, "setDaemon", "(Z)V", machine.mirrorOf(true));
            Location begin = type.concreteMethodByName("run", "()V").location();
            BreakpointRequest first = requests.manager().createBreakpointRequest(begin);
            first.addThreadFilter(own);
            enable(first);
            call(thread, own, "start", "()V");
            awaitStart(first);
            requests.manager().deleteEventRequest(first);
        }

        private void awaitStart(EventRequest first) throws InterruptedException {
            for (int turn = 0; turn < WAITS; turn++) {
                if (turn > 0 && own.suspendCount() > 0) {
                    own.resume(); // it starts suspended, as all others are
                }
                EventSet set = requests.take(WAIT_MILLIS);
                if (set != null) {
                    if (first.equals(set.iterator().next().request())) {
                        return;
                    }
                    requests.putAside(set);
                }
            }
            throw new IllegalStateException("the thread that rescues others did not start");
        }

        /** Runs a method that all threads have; for null a static one or a constructor. */
        private Value call(
                ThreadReference in,
                ThreadReference object,
                String name,
                String signature,
                Value... arguments)
                throws InvocationException, IncompatibleThreadStateException {
            Method method = type.concreteMethodByName(name, signature);
            ClassType owner = object == null ? type : null;
            try {
                return Invoker.call(in, object, owner, method, Arrays.asList(arguments));
            } catch (InvalidTypeException | ClassNotLoadedException error) {
                throw new IllegalStateException(error);
            }
        }

        /** The name of a running thread's state; the debug interface would give one of before. */
        String state(ThreadReference late)
                throws InvocationException, IncompatibleThreadStateException {
            Value state = call(own, late, "getState", "()Ljava/lang/Thread$State;");
            return ((StringReference) Variables.field(state, "name")).value();
        }

        /**
         * Raise an error in a thread that runs; it may take effect only later, or be caught. It
         * also interrupts the thread, and from JDK 20 on does no more than that.
         */
        void stop(ThreadReference late)
                throws InvocationException, IncompatibleThreadStateException {
            try {
                call(own, late, "stop", "()V");
            } catch (InvocationException unsupported) {
                call(own, late, "interrupt", "()V");
            }
        }

        /**
         * Whether the method, whose frame is the one above {@code depth} others, returns now.
         *
         * <p>Not if the thread waits or is in native code, nor where native code called a method of
         * the frames above.
         */
        boolean pop(ThreadReference late)
                throws InterruptedException, IncompatibleThreadStateException {
            StepRequest step =
                    requests.manager()
                            .createStepRequest(late, StepRequest.STEP_MIN, StepRequest.STEP_INTO);
            enable(step);
            EventSet set = requests.take(POP_MILLIS);
            requests.manager().deleteEventRequest(step);
            if (set == null) {
                return false;
            }
            if (!(set.iterator().next() instanceof StepEvent)) {
                requests.putAside(set);
                return false;
            }
            try {
                int index = late.frameCount() - depth - 1;
                if (index > 0) {
                    late.popFrames(late.frame(index - 1));
                }
                Method method = late.frame(0).location().method();
                late.forceEarlyReturn(Primitives.zero(machine, method.returnTypeName()));
                return true;
            } catch (InvalidTypeException | ClassNotLoadedException error) {
                throw new IllegalStateException(error);
            } finally {
                set.resume();
            }
        }
    }
}
