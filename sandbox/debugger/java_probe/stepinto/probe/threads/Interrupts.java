package stepinto.probe.threads;

import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.Field;
import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.InvalidTypeException;
import com.sun.jdi.InvocationException;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.VirtualMachine;

/** Keeps from the program what stopping one of its threads leaves behind. */
final class Interrupts {
    private static final int TURNS = 10;
    private static final int RESUMES = 2;
    private final VirtualMachine machine;
    private ThreadReference thread;
    /** How often the thread may still be found interrupted. */
    private int left;

    Interrupts(VirtualMachine machine) {
        this.machine = machine;
    }

    /** An error was raised in a thread, and the method that ran in it has ended. */
    void onStopped(ThreadReference stopped, Rescuer rescuer) {
        thread = stopped;
        left = RESUMES;
        for (int turn = 0; turn < TURNS; turn++) {
            if (clear(rescuer)) {
                return;
            }
        }
    }

    /** Whether nothing was raised in the thread any more. */
    private boolean clear(Rescuer rescuer) {
        try {
            rescuer.clear(thread);
            return true;
        } catch (InvocationException pending) {
            return false; // that was it
        } catch (InvalidTypeException
                | ClassNotLoadedException
                | IncompatibleThreadStateException error) {
            throw new IllegalStateException(error);
        }
    }

    /**
     * The program is about to go on.
     *
     * <p>A thread that was stopped is interrupted too, and the virtual machine's agent keeps that
     * back until the thread runs again. So it runs for a moment first, to take it back.
     */
    void onResume() {
        if (left == 0) {
            return;
        }
        left--;
        Field flag = thread.referenceType().fieldByName("interrupted");
        if (flag == null) {
            return; // before JDK 14 it is no field, and can't be taken back
        }
        thread.resume();
        thread.suspend();
        try {
            thread.setValue(flag, machine.mirrorOf(false));
        } catch (InvalidTypeException | ClassNotLoadedException error) {
            throw new IllegalStateException(error);
        }
    }
}
