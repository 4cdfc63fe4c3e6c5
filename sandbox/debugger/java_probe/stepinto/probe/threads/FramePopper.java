package stepinto.probe.threads;

import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.InvalidTypeException;
import com.sun.jdi.Method;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.event.EventSet;
import com.sun.jdi.event.StepEvent;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.StepRequest;

/** Ends a method that runs too long by taking its frames off the stack of its thread. */
final class FramePopper {
    private static final int WAIT_MILLIS = 300;
    private final VirtualMachine machine;
    private final EventInbox events;

    FramePopper(VirtualMachine machine, EventInbox events) {
        this.machine = machine;
        this.events = events;
    }

    /**
     * Whether the method, whose frame is the one above {@code depth} others, returns now.
     *
     * <p>Not if the thread waits or is in native code, nor where native code called a method of
     * the frames above.
     */
    boolean end(ThreadReference thread, int depth)
            throws InterruptedException, IncompatibleThreadStateException, InvalidTypeException,
                    ClassNotLoadedException {
        StepRequest step =
                machine.eventRequestManager()
                        .createStepRequest(thread, StepRequest.STEP_MIN, StepRequest.STEP_INTO);
        step.setSuspendPolicy(EventRequest.SUSPEND_EVENT_THREAD);
        step.enable();
        EventSet set = events.take(WAIT_MILLIS);
        machine.eventRequestManager().deleteEventRequest(step);
        if (set == null) {
            return false;
        }
        if (!(set.iterator().next() instanceof StepEvent)) {
            events.putAside(set);
            return false;
        }
        try {
            int index = thread.frameCount() - depth - 1;
            if (index > 0) {
                thread.popFrames(thread.frame(index - 1));
            }
            Method method = thread.frame(0).location().method();
            thread.forceEarlyReturn(nothing(method.returnTypeName()));
            return true;
        } finally {
            set.resume();
        }
    }

    private Value nothing(String type) {
        switch (type) {
            case "void":
                return machine.mirrorOfVoid();
            case "boolean":
                return machine.mirrorOf(false);
            case "byte":
                return machine.mirrorOf((byte) 0);
            case "char":
                return machine.mirrorOf('\0');
            case "short":
                return machine.mirrorOf((short) 0);
            case "int":
                return machine.mirrorOf(0);
            case "long":
                return machine.mirrorOf(0L);
            case "float":
                return machine.mirrorOf(0f);
            case "double":
                return machine.mirrorOf(0.0);
            default:
                return null;
        }
    }
}
