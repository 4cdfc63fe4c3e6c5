package stepinto.probe.threads;

import com.sun.jdi.*;
import com.sun.jdi.event.Event;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.StepEvent;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.StepRequest;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.Primitives;

/**
 * A thread in the program, never allowed to run, from which others can be stopped.
 *
 * <p>The debug interface itself can't stop a thread that runs a method for the debugger: it puts
 * that off until the method has ended, and takes the whole virtual machine down when asked twice.
 */
final class Rescuer {
    private static final int WAITS = 50;
    private static final int WAIT_MILLIS = 20;
    private static final int POP_MILLIS = 300;
    private final VirtualMachine machine;
    private final EventInbox events;
    private final ThreadReference thread;

    /**
     * Make the thread, by methods run in a thread that is stopped at an event. Events that come in
     * between are put aside.
     */
    Rescuer(VirtualMachine machine, ThreadReference stopped, EventInbox events)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException, InterruptedException {
        this.machine = machine;
        this.events = events;
        ClassType type = (ClassType) machine.classesByName("java.lang.Thread").get(0);
        Method constructor = type.concreteMethodByName("<init>", "(Ljava/lang/String;)V");
        List<Value> name = Collections.<Value>singletonList(machine.mirrorOf("stepinto"));
        int alone = ClassType.INVOKE_SINGLE_THREADED;
        thread = (ThreadReference) type.newInstance(stopped, constructor, name, alone);
        call(thread, stopped, "setDaemon", "(Z)V", machine.mirrorOf(true));
        BreakpointRequest first =
                machine.eventRequestManager().createBreakpointRequest(
                        type.concreteMethodByName("run", "()V").location());
        first.addThreadFilter(thread);
        first.setSuspendPolicy(EventRequest.SUSPEND_EVENT_THREAD);
        first.enable();
        call(thread, stopped, "start", "()V");
        awaitStart(first);
        machine.eventRequestManager().deleteEventRequest(first);
    }

    private void awaitStart(EventRequest first) throws InterruptedException {
        for (int turn = 0; turn < WAITS; turn++) {
            if (turn > 0 && thread.suspendCount() > 0) {
                thread.resume(); // it starts suspended, as all others are
            }
            EventSet set = events.take(WAIT_MILLIS);
            if (set != null) {
                Event event = set.iterator().next();
                if (first.equals(event.request())) {
                    return;
                }
                events.putAside(set);
            }
        }
        throw new IllegalStateException("the thread that rescues others did not start");
    }

    private static Value call(
            ObjectReference object,
            ThreadReference in,
            String name,
            String signature,
            Value... arguments)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException {
        Method method = ((ClassType) object.referenceType()).concreteMethodByName(name, signature);
        return object.invokeMethod(
                in, method, Arrays.asList(arguments), ObjectReference.INVOKE_SINGLE_THREADED);
    }

    /** The name of a running thread's state; the debug interface would give one of before. */
    String state(ThreadReference late)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException {
        String signature = "()Ljava/lang/Thread$State;";
        ObjectReference state = (ObjectReference) call(late, thread, "getState", signature);
        Value name = state.getValue(state.referenceType().fieldByName("name"));
        return ((StringReference) name).value();
    }

    /**
     * Raise an error in a thread that runs; it may take effect only later, or be caught. It also
     * interrupts the thread, and from JDK 20 on does no more than that.
     */
    void stop(ThreadReference late)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException {
        try {
            call(late, thread, "stop", "()V");
        } catch (InvocationException unsupported) {
            call(late, thread, "interrupt", "()V");
        }
    }

    /** Take back what {@link #stop} left behind: a thread that is stopped is interrupted too. */
    void clear(ThreadReference stopped)
            throws InvocationException, InvalidTypeException, ClassNotLoadedException,
                    IncompatibleThreadStateException {
        ClassType type = (ClassType) machine.classesByName("java.lang.Thread").get(0);
        Method interrupted = type.concreteMethodByName("interrupted", "()Z");
        int alone = ClassType.INVOKE_SINGLE_THREADED;
        type.invokeMethod(stopped, interrupted, new ArrayList<Value>(), alone);
    }

    /**
     * Whether the method, whose frame is the one above {@code depth} others, returns now.
     *
     * <p>Not if the thread waits or is in native code, nor where native code called a method of
     * the frames above.
     */
    boolean pop(ThreadReference late, int depth)
            throws InterruptedException, IncompatibleThreadStateException, InvalidTypeException,
                    ClassNotLoadedException {
        StepRequest step =
                machine.eventRequestManager()
                        .createStepRequest(late, StepRequest.STEP_MIN, StepRequest.STEP_INTO);
        step.setSuspendPolicy(EventRequest.SUSPEND_EVENT_THREAD);
        step.enable();
        EventSet set = events.take(POP_MILLIS);
        machine.eventRequestManager().deleteEventRequest(step);
        if (set == null) {
            return false;
        }
        if (!(set.iterator().next() instanceof StepEvent)) {
            events.putAside(set);
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
        } finally {
            set.resume();
        }
    }
}
