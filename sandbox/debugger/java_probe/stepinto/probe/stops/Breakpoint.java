package stepinto.probe.stops;

import com.sun.jdi.request.EventRequest;
import java.util.*;
import stepinto.probe.program.Sources;

/** One breakpoint: where it is wanted, and the requests by which it is bound there. */
public final class Breakpoint {
    public static final String PROPERTY = "stepinto.breakpoint";

    public final int number;
    /** Absolute; empty for an exception breakpoint. */
    String path = "";
    int line;
    /** Null but for a function breakpoint. */
    public String function;
    public final String condition;
    public boolean temporary;
    /** Expressions that the host evaluates at its stops. */
    Object watch;
    public int hits;
    /** Null but for an exception breakpoint. */
    final String exception;
    public final boolean uncaught;
    /** The classes it stops in, loaded or not; of an exception breakpoint, the exception's. */
    final Set<String> classes = new HashSet<>();
    /** Of a function breakpoint: name and descriptor of its methods. */
    final Set<String> methods = new HashSet<>();
    final List<EventRequest> requests = new ArrayList<>();
    /** Whether an answer has called it pending. */
    boolean calledPending;
    /** Whether it was removed, as a temporary one is once hit. */
    public boolean removed;

    Breakpoint(int number, Map<String, Object> arguments) {
        this.number = number;
        condition = given(arguments.get("condition"));
        temporary = Boolean.TRUE.equals(arguments.get("temporary"));
        watch = arguments.get("watch");
        exception = given(arguments.get("exception"));
        uncaught = Boolean.TRUE.equals(arguments.get("uncaught"));
    }

    /** A text of a request; empty if there is none. */
    static String text(Object value) {
        return value == null ? "" : ((String) value).trim();
    }

    private static String given(Object value) {
        return text(value).isEmpty() ? null : text(value);
    }

    boolean pending() {
        return requests.isEmpty() && !removed;
    }

    /** Whether it would stop exactly where another one does. */
    boolean same(Breakpoint other) {
        return path.equals(other.path)
                && line == other.line
                && uncaught == other.uncaught
                && Objects.equals(exception, other.exception)
                && Objects.equals(condition, other.condition)
                && methods.equals(other.methods);
    }

    Map<String, Object> describe(Sources sources) {
        Map<String, Object> fields = new LinkedHashMap<>();
        fields.put("number", number);
        fields.put("file", sources.relative(path));
        fields.put("line", line);
        fields.put("function", function);
        fields.put("condition", condition);
        fields.put("temporary", temporary);
        fields.put("hits", hits);
        fields.put("exception", exception);
        fields.put("uncaught", uncaught);
        fields.put("pending", pending());
        fields.put("watch", watch == null ? new ArrayList<String>() : watch);
        calledPending |= pending();
        fields.put("source", path.isEmpty() ? "" : sources.line(path, line));
        return fields;
    }
}
