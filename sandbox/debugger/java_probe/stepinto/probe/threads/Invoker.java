package stepinto.probe.threads;

import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import java.util.List;

/**
 * Runs a method of the program in its stopped thread, and takes back control from it.
 *
 * <p>Afterwards every {@code StackFrame} fetched before is invalid: ask {@code FrameAt} for it
 * again.
 */
public interface Invoker {
    /** The deadline of the action being answered. */
    long ACTION = 0;

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
    Value invoke(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments,
            long millis)
            throws InvocationFailed;

    /** The thread that methods run in; null if there is none. */
    default ThreadReference thread() {
        return null;
    }
}
