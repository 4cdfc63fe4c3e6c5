package stepinto.probe.stops;

import com.sun.jdi.*;
import com.sun.jdi.event.MethodExitEvent;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import com.sun.jdi.request.MethodExitRequest;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.ByteCode;
import stepinto.probe.program.Program;
import stepinto.probe.threads.Requests;

/**
 * Learns what one frame returns.
 *
 * <p>An event for every method's exit slows a program down a hundredfold, so it is requested only
 * once the frame stands at an instruction that returns.
 */
public final class ReturnWatch {
    public static final String PROPERTY = "stepinto.return";

    /** So many returns of deeper calls of the same method are looked at, at most. */
    private static final int MANY = 60;

    /** The method that returned; null while unknown. */
    public String left;

    public Value returned;
    private final Requests requests;
    /** Where methods return a value. */
    private final Map<Method, List<Location>> points = new HashMap<>();
    private final List<EventRequest> watching = new ArrayList<>();
    private ThreadReference thread;
    private int depth;
    private int looked;

    ReturnWatch(Requests requests) {
        this.requests = requests;
    }

    /** Watch the frame of that depth; if {@code lineOnly}, only while it stays on its line. */
    void watch(ThreadReference inThread, int ofDepth, Location place, boolean lineOnly) {
        thread = inThread;
        depth = ofDepth;
        looked = 0;
        Method method = place.method();
        List<Location> found = points.get(method);
        if (found == null) {
            found = new ArrayList<>();
            for (int at : new ByteCode(method).returns) {
                found.add(method.locationOfCodeIndex(at));
            }
            points.put(method, found);
        }
        for (Location point : found) {
            if (lineOnly && point.lineNumber() != place.lineNumber()) {
                continue;
            }
            BreakpointRequest request = requests.manager().createBreakpointRequest(point);
            request.addThreadFilter(thread);
            request.putProperty(PROPERTY, this);
            watching.add(requests.enable(request));
        }
    }

    /** The thread stands at an instruction that returns. */
    public void onReturnPoint(Location place) throws IncompatibleThreadStateException {
        if (thread.frameCount() != depth) {
            if (++looked > MANY) {
                stop();
            }
            return;
        }
        stop();
        MethodExitRequest request = requests.manager().createMethodExitRequest();
        request.addThreadFilter(thread);
        request.addClassFilter(place.declaringType());
        request.putProperty(PROPERTY, this);
        watching.add(requests.enable(request));
    }

    /**
     * Whether the frame's caller is about to return too, without a step in it: of two steps to one
     * instruction, as at the end of a recursion, the virtual machine tells only the first.
     */
    public boolean onExit(MethodExitEvent event) throws IncompatibleThreadStateException {
        int at = thread.frameCount();
        if (at == depth) {
            left = Program.name(event.method().name());
            returned = event.returnValue();
        }
        return left != null && at == depth - 1;
    }

    /** The virtual machine has stepped: the frame's caller is no longer waited for. */
    void onStep() {
        if (left != null) {
            stop();
        }
    }

    void stop() {
        for (EventRequest request : watching) {
            requests.delete(request);
        }
        watching.clear();
    }

    void forget() {
        stop();
        left = null;
        returned = null;
    }
}
