package stepinto.probe.threads;

import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.ObjectCollectedException;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;

/**
 * The locks that other threads hold while they are paused.
 *
 * <p>A method that is run for the debugger and needs one of them waits forever, and a thread that
 * waits for a lock can't be called back.
 */
public final class HeldLocks {
    private HeldLocks() {}

    /** The name of another thread that holds a lock; null if none does. */
    public static String holder(ThreadReference current) {
        VirtualMachine machine = current.virtualMachine();
        if (!machine.canGetOwnedMonitorInfo()) {
            return null;
        }
        for (ThreadReference thread : machine.allThreads()) {
            if (!thread.equals(current) && holdsLock(thread)) {
                return thread.name();
            }
        }
        return null;
    }

    private static boolean holdsLock(ThreadReference thread) {
        try {
            for (ObjectReference lock : thread.ownedMonitors()) {
                // Who waits for input holds the stream's own lock all the while.
                if (!lock.referenceType().name().startsWith("java.io.")) {
                    return true;
                }
            }
            return false;
        } catch (IncompatibleThreadStateException | ObjectCollectedException running) {
            // It runs on, or has ended: it will let go.
            return false;
        }
    }
}
