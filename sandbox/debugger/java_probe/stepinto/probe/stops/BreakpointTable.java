package stepinto.probe.stops;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.Location;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.request.BreakpointRequest;
import com.sun.jdi.request.EventRequest;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import stepinto.probe.evaluation.Evaluator;
import stepinto.probe.program.ClassFiles;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Sources;
import stepinto.probe.threads.Requests;
import stepinto.probe.wire.Refusal;

/** All breakpoints, bound to the classes that are loaded and waiting for those that are not. */
public final class BreakpointTable {
    final TreeMap<Integer, Breakpoint> breakpoints = new TreeMap<>();
    private final Sources sources;
    private final Places places;
    private final Requests requests;
    public final Restarts restarts;
    private int nextNumber = 1;

    public BreakpointTable(Sources sources, ClassFiles classFiles, Requests requests) {
        this.sources = sources;
        this.places = new Places(sources, classFiles);
        this.requests = requests;
        this.restarts = new Restarts(requests);
    }

    /** Set one. Raises Refusal if its file, line, function, exception or condition is wrong. */
    public Breakpoint add(Map<String, Object> arguments, List<String> notes) throws Refusal {
        Object kept = arguments.get("number");
        int number = kept == null ? nextNumber : ((Number) kept).intValue();
        Breakpoint point = new Breakpoint(number, arguments);
        try {
            if (point.condition != null) {
                Evaluator.check(point.condition);
            }
        } catch (EvaluationFailed failed) {
            throw new Refusal("the condition is not an expression: " + failed.getMessage());
        }
        place(point, arguments, notes);
        for (Breakpoint other : breakpoints.values()) {
            if (other.same(point)) {
                other.temporary = point.temporary;
                other.watch = point.watch == null ? other.watch : point.watch;
                notes.clear();
                notes.add("breakpoint " + other.number + " is there already");
                return other;
            }
        }
        for (String name : point.classes) {
            for (ReferenceType type : requests.await(name)) {
                bind(point, type);
            }
        }
        breakpoints.put(number, point);
        nextNumber = Math.max(nextNumber, number + 1);
        return point;
    }

    private void place(Breakpoint point, Map<String, Object> arguments, List<String> notes)
            throws Refusal {
        String file = Breakpoint.text(arguments.get("file"));
        String function = Breakpoint.text(arguments.get("function"));
        Object line = arguments.get("line");
        if (point.exception != null) {
            point.classes.addAll(places.exceptions(point.exception));
        } else if (!function.isEmpty()) {
            places.onFunction(point, file, function);
        } else if (!file.isEmpty() && line instanceof Number) {
            String source = Breakpoint.text(arguments.get("source"));
            places.onLine(point, file, ((Number) line).intValue(), source, notes);
        } else {
            throw new Refusal(
                    "a breakpoint needs a file and a line, or a function, or an exception");
        }
    }

    private void bind(Breakpoint point, ReferenceType type) {
        if (point.exception != null) {
            mark(point, requests.manager().createExceptionRequest(type, true, true));
        } else if (point.function == null) {
            try {
                for (Location place : type.locationsOfLine(point.line)) {
                    mark(point, requests.manager().createBreakpointRequest(place));
                }
            } catch (AbsentInformationException absent) {
                return; // another version of the class, without line numbers
            }
        } else {
            for (Method method : type.methods()) {
                if (point.methods.contains(method.name() + method.signature())) {
                    mark(point, requests.manager().createBreakpointRequest(method.location()));
                    point.requests.addAll(restarts.watch(method));
                }
            }
        }
    }

    private void mark(Breakpoint point, EventRequest request) {
        request.putProperty(Breakpoint.PROPERTY, point);
        point.requests.add(requests.enable(request));
    }

    /** A class was loaded: bind what waits for it; notes say what was. */
    public void onPrepare(ReferenceType type, List<String> notes) {
        for (Breakpoint point : breakpoints.values()) {
            if (point.classes.contains(type.name())) {
                bind(point, type);
                tell(point, notes);
            }
        }
    }

    /** Bind what waits for classes that were loaded while events were off. */
    public void recheck(List<String> notes) {
        for (Breakpoint point : new ArrayList<>(breakpoints.values())) {
            for (String name : point.pending() ? point.classes : new ArrayList<String>()) {
                for (ReferenceType type : requests.await(name)) {
                    bind(point, type);
                }
            }
            tell(point, notes);
        }
    }

    private static void tell(Breakpoint point, List<String> notes) {
        if (point.calledPending && !point.pending()) {
            point.calledPending = false;
            notes.add("breakpoint " + point.number + " is bound now");
        }
    }

    public void remove(int number) throws Refusal {
        Breakpoint point = breakpoints.get(number);
        if (point == null) {
            String known = breakpoints.isEmpty() ? "none" : breakpoints.keySet().toString();
            throw new Refusal("there is no breakpoint " + number + "; set: " + known);
        }
        remove(point);
    }

    public void remove(Breakpoint point) {
        breakpoints.remove(point.number);
        for (EventRequest request : point.requests) {
            requests.delete(request);
        }
        point.requests.clear();
        point.removed = true;
    }

    public boolean watches(String path, int line) {
        for (Breakpoint point : breakpoints.values()) {
            if (point.line == line && point.path.equals(path)) {
                return true;
            }
        }
        return false;
    }

    /** Whether a stretch of a method's code carries a breakpoint, both ends included. */
    boolean watches(Method method, long from, long to) {
        for (Breakpoint point : breakpoints.values()) {
            for (EventRequest request : point.requests) {
                if (request instanceof BreakpointRequest) {
                    Location place = ((BreakpointRequest) request).location();
                    long index = place.codeIndex();
                    if (from <= index && index <= to && place.method().equals(method)) {
                        return true;
                    }
                }
            }
        }
        return false;
    }

    public List<Object> describe() {
        return describe(breakpoints.values());
    }

    public List<Object> describe(Iterable<Breakpoint> points) {
        List<Object> found = new ArrayList<>();
        for (Breakpoint point : points) {
            found.add(point.describe(sources));
        }
        return found;
    }
}
