package stepinto.probe.stops;

import com.sun.jdi.request.EventRequest;
import java.util.*;
import stepinto.probe.program.Sources;
import stepinto.probe.wire.Fields;

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

    Breakpoint(int number, Fields arguments) {
        this.number = number;
        condition = given(arguments.text("condition"));
        temporary = arguments.flag("temporary");
        watch = arguments.get("watch");
        exception = given(arguments.text("exception"));
        uncaught = arguments.flag("uncaught");
    }

    private static String given(String text) {
        return text.isEmpty() ? null : text;
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

    Fields describe(Sources sources) {
        calledPending |= pending();
        return new Fields()
                .with("number", number)
                .with("file", sources.relative(path))
                .with("line", line)
                .with("function", function)
                .with("condition", condition)
                .with("temporary", temporary)
                .with("hits", hits)
                .with("exception", exception)
                .with("uncaught", uncaught)
                .with("pending", pending())
                .with("watch", watch == null ? new ArrayList<String>() : watch)
                .with("source", path.isEmpty() ? "" : sources.line(path, line));
    }
}
