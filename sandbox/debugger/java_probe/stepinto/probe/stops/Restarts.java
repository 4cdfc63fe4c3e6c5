package stepinto.probe.stops;

import com.sun.jdi.Method;
import com.sun.jdi.ThreadReference;
import com.sun.jdi.event.BreakpointEvent;
import com.sun.jdi.request.BreakpointRequest;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.program.ByteCode;
import stepinto.probe.threads.Requests;

/** Distinguishes calls of a method from loops that jump back to its first instruction. */
public final class Restarts {
    public static final String PROPERTY = "stepinto.restart";

    private final Requests requests;
    private final Set<ThreadReference> turning = new HashSet<>();

    Restarts(Requests requests) {
        this.requests = requests;
    }

    /** The requests needed for a breakpoint on the entry of a method; mostly none. */
    List<BreakpointRequest> watch(Method method) {
        List<BreakpointRequest> made = new ArrayList<>();
        ByteCode code = new ByteCode(method);
        for (int at : code.restarts) {
            made.add(request(method, at, true));
            if (code.isConditional(at)) {
                made.add(request(method, at + code.size(at), false));
            }
        }
        return made;
    }

    private BreakpointRequest request(Method method, int at, boolean jumps) {
        BreakpointRequest request =
                requests.manager().createBreakpointRequest(method.locationOfCodeIndex(at));
        request.putProperty(PROPERTY, jumps);
        return requests.enable(request);
    }

    /** A thread stands at a jump back, or behind one that it has not taken. */
    public void onEvent(BreakpointEvent event) {
        if (Boolean.TRUE.equals(event.request().getProperty(PROPERTY))) {
            turning.add(event.thread());
        } else {
            turning.remove(event.thread());
        }
    }

    /** Whether a thread that stands at a method's first instruction came there by a loop. */
    public boolean turned(ThreadReference thread) {
        return turning.remove(thread);
    }
}
