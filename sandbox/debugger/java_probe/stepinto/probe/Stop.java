package stepinto.probe;

import com.sun.jdi.ObjectReference;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.stops.Breakpoint;

/** Why and where the program stopped. */
final class Stop {
    final String reason;
    final ThreadReference thread;
    /** Null if none was raised. */
    ObjectReference exception;
    /** Whether the exception has ended the test or the program. */
    boolean ending;
    /** Whether the exception runs a finally block of the program's own before it ends anything. */
    boolean landing;
    /** The function just left, and what it returned; null if that is unknown. */
    String left;
    Value returned;
    /** What an interrupted program was at, as a kill reason; null otherwise. */
    String doing;
    final List<Breakpoint> hit = new ArrayList<>();

    Stop(String reason, ThreadReference thread) {
        this.reason = reason;
        this.thread = thread;
    }
}
