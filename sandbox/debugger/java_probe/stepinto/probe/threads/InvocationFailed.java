package stepinto.probe.threads;

import com.sun.jdi.ObjectReference;

/** A method of the program that was invoked and did not return. */
public final class InvocationFailed extends Exception {
    private static final long serialVersionUID = 1;

    /** What the method raised; null if it raised nothing. */
    public final transient ObjectReference raised;

    /** Whether the method did not end in time. */
    public final boolean timedOut;

    private InvocationFailed(String message, ObjectReference raised, boolean timedOut) {
        super(message);
        this.raised = raised;
        this.timedOut = timedOut;
    }

    /** The method ended by an exception. */
    InvocationFailed(ObjectReference exception) {
        this("it raised " + exception.referenceType().name(), exception, false);
    }

    /** The method did not end in time, or could not be run here; the message says why. */
    InvocationFailed(String message, boolean timedOut) {
        this(message, null, timedOut);
    }
}
