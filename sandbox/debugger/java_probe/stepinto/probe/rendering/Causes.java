package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.Program;
import stepinto.probe.program.TypeNames;
import stepinto.probe.program.Variables;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Invoker.InvocationFailed;

/**
 * What lies behind an exception: its causes, what it suppressed, and where each was created, by its
 * own stack trace. Bounded, since the program makes them.
 */
public final class Causes {
    private static final String HINT =
            "to see the frames and variables of one, set an exception breakpoint on it and restart";
    private static final int MOST = 8;
    private static final int MESSAGE_CHARS = 200;
    private static final int MOST_ELEMENTS = 200;
    private static final long MILLIS = 500;
    private static final int REMEMBERED = 1_000;
    private static final String THROWABLE = "java.lang.Throwable";
    private final VirtualMachine machine;
    private final Program program;
    private final Invoker invoker;
    private final ValueText values;
    /** Where the last exceptions were raised first, by their numbers. */
    private final Map<Long, Location> raised = new LinkedHashMap<Long, Location>() {
        private static final long serialVersionUID = 1;

        @Override
        protected boolean removeEldestEntry(Map.Entry<Long, Location> eldest) {
            return size() > REMEMBERED;
        }
    };

    public Causes(VirtualMachine machine, Program program, Invoker invoker, ValueText values) {
        this.machine = machine;
        this.program = program;
        this.invoker = invoker;
        this.values = values;
    }

    /** An exception is raised at a place, perhaps once more. */
    public void onRaised(ObjectReference exception, Location place) {
        raised.putIfAbsent(exception.uniqueID(), place);
    }

    /**
     * The exceptions behind one that was raised at a place, as a note; null if there are none. An
     * exception that was raised before, elsewhere than at the place that is shown, is one of them.
     */
    public String note(ObjectReference exception, Location raisedAt, Location shown) {
        List<String> lines = new ArrayList<>();
        Location first = raised.get(exception.uniqueID());
        if (first != null && !first.equals(raisedAt)) {
            String origin = origin(exception);
            if (!origin.isEmpty() && !origin.equals(shown == null ? "" : origin(shown))) {
                lines.add("  it was raised before" + origin);
            }
        }
        Set<ObjectReference> seen = new HashSet<>(Collections.singleton(exception));
        addBehind(exception, "  ", seen, lines);
        return lines.isEmpty() ? null
                : "behind this exception:\n" + String.join("\n", lines) + "\n" + HINT;
    }

    private void addBehind(
            ObjectReference exception, String indent, Set<ObjectReference> seen, List<String> lines) {
        add("caused by ", cause(exception), indent, seen, lines);
        Value list = Variables.field(exception, "suppressedExceptions");
        for (Named each : values.page(list, 0).values) {
            add("suppressed ", each.value, indent, seen, lines);
        }
    }

    private void add(
            String role, Value value, String indent, Set<ObjectReference> seen, List<String> lines) {
        boolean another = value instanceof ObjectReference && lines.size() <= MOST;
        if (!another || !seen.add((ObjectReference) value)) {
            return;
        }
        if (lines.size() == MOST) {
            lines.add(indent + "... and more");
            return;
        }
        ObjectReference exception = (ObjectReference) value;
        lines.add(indent + role + described(exception) + origin(exception));
        addBehind(exception, indent + "  ", seen, lines);
    }

    private String described(ObjectReference exception) {
        String message = values.message(exception);
        String type = exception.referenceType().name();
        String text = message == null ? type : type + ": " + message;
        boolean cut = text.length() > MESSAGE_CHARS;
        return (cut ? text.substring(0, MESSAGE_CHARS) + "..." : text).replace("\n", "\\n");
    }

    /** What {@code getCause} says: its own field, unless a class has another. */
    private Value cause(ObjectReference exception) {
        Method method = ((ClassType) exception.referenceType())
                .concreteMethodByName("getCause", "()Ljava/lang/Throwable;");
        if (method == null || method.declaringType().name().equals(THROWABLE)) {
            return Variables.field(exception, "cause");
        }
        return ask(exception, null, method);
    }

    /** {@code , created at FILE:LINE in FUNCTION}: the innermost place of the program's own. */
    private String origin(ObjectReference exception) {
        ClassType throwable = (ClassType) machine.classesByName(THROWABLE).get(0);
        Method asked = throwable.concreteMethodByName(
                "getStackTrace", "()[Ljava/lang/StackTraceElement;");
        Value trace = ask(exception, throwable, asked);
        if (trace instanceof ArrayReference) {
            ArrayReference elements = (ArrayReference) trace;
            int end = Math.min(elements.length(), MOST_ELEMENTS);
            for (Value each : end == 0 ? new ArrayList<Value>() : elements.getValues(0, end)) {
                String type = text(each, "declaringClass");
                Value line = Variables.field(each, "lineNumber");
                int number = line == null ? 0 : ((IntegerValue) line).value();
                if (number > 0 && program.owns(type)) {
                    String file = program.path(type, text(each, "fileName"));
                    String method = Program.name(text(each, "methodName"));
                    return origin(file, number, TypeNames.simple(type) + "." + method);
                }
            }
        }
        return "";
    }

    private String origin(Location place) {
        return origin(program.path(place), place.lineNumber(), Program.function(place));
    }

    private String origin(String file, int line, String function) {
        return ", created at " + program.sources.relative(file) + ":" + line + " in " + function;
    }

    private static String text(Value element, String field) {
        Value text = Variables.field(element, field);
        return text instanceof StringReference ? ((StringReference) text).value() : "";
    }

    /** What a method without parameters returns; null if it fails. */
    private Value ask(ObjectReference object, ClassType exactly, Method method) {
        try {
            return invoker.invoke(
                    object, exactly, method, Collections.<Value>emptyList(), MILLIS);
        } catch (InvocationFailed failed) {
            return null;
        }
    }
}
