package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.Program;
import stepinto.probe.program.TypeNames;
import stepinto.probe.program.Variables;
import stepinto.probe.program.Variables.Named;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Invoker.InvocationFailed;
import stepinto.probe.wire.Fields;

/**
 * What lies behind an exception: its causes, what it suppressed, and where each was created, by its
 * own stack trace. Bounded, since the program makes them.
 */
public final class Causes {
    public static final String HINT =
            "to see the frames and variables of a cause, set an exception breakpoint on its class and"
                    + " restart";
    private static final int SHOWN = 8;
    private static final int MOST = 100;
    private static final int MESSAGE_CHARS = 200;
    private static final int MOST_ELEMENTS = 200;
    private static final int MOST_CALLERS = 4;
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

    /** Where an exception was created that is raised once more, elsewhere; null for others. */
    public String before(ObjectReference exception, Location raisedAt, Location shown) {
        Location first = raised.get(exception.uniqueID());
        if (first == null || first.equals(raisedAt)) {
            return null;
        }
        List<Fields> trace = ownTrace(exception, 1 + MOST_CALLERS);
        if (trace.isEmpty()) {
            return null;
        }
        Fields origin = trace.get(0);
        boolean here = shown != null && Integer.valueOf(shown.lineNumber()).equals(origin.get("line"))
                && Program.function(shown).equals(origin.get("function"));
        if (here) {
            return null;
        }
        List<String> places = new ArrayList<>();
        for (Fields place : trace) {
            places.add(place.get("file") + ":" + place.get("line") + " in " + place.get("function"));
        }
        String callers = String.join(", ", places.subList(1, places.size()));
        return "this exception was raised before; it was created at " + places.get(0)
                + (callers.isEmpty() ? "" : ", called from " + callers);
    }

    /** The exceptions behind one, into its fields: the first ones and the last. */
    public void putBehind(ObjectReference exception, Fields fields) {
        List<Related> all = new ArrayList<>();
        addBehind(exception, 1, new HashSet<>(Collections.singleton(exception)), all);
        int unlisted = Math.max(all.size() - SHOWN, 0);
        List<Object> shown = new ArrayList<>();
        for (int index = 0; index < all.size(); index++) {
            if (index < SHOWN - 1 || index == all.size() - 1) {
                shown.add(all.get(index).described());
            }
        }
        if (!shown.isEmpty()) {
            fields.with("related", shown).with("unlisted", unlisted);
        }
    }

    private void addBehind(
            ObjectReference exception, int depth, Set<ObjectReference> seen, List<Related> all) {
        add("caused by", cause(exception), depth, seen, all);
        Value list = Variables.field(exception, "suppressedExceptions");
        for (Named each : values.page(list, 0).values) {
            add("suppressed", each.value, depth, seen, all);
        }
    }

    private void add(
            String relation, Value value, int depth, Set<ObjectReference> seen, List<Related> all) {
        boolean another = value instanceof ObjectReference && all.size() < MOST;
        if (another && seen.add((ObjectReference) value)) {
            all.add(new Related(relation, depth, (ObjectReference) value));
            addBehind((ObjectReference) value, depth + 1, seen, all);
        }
    }

    /** One of the exceptions behind another. */
    private final class Related {
        private final String relation;
        private final int depth;
        private final ObjectReference exception;

        Related(String relation, int depth, ObjectReference exception) {
            this.relation = relation;
            this.depth = depth;
            this.exception = exception;
        }

        Fields described() {
            String message = values.message(exception);
            String line = message == null ? "" : message.split("\n", 2)[0];
            boolean cut = line.length() > MESSAGE_CHARS;
            Fields fields = new Fields()
                    .with("relation", relation)
                    .with("depth", depth)
                    .with("type", exception.referenceType().name())
                    .with("message", cut ? line.substring(0, MESSAGE_CHARS) + "..." : line);
            for (Fields origin : ownTrace(exception, 1)) {
                fields.putAll(origin);
            }
            return fields;
        }
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

    /** The innermost places of the program's own on an exception's stack trace. */
    private List<Fields> ownTrace(ObjectReference exception, int most) {
        ClassType throwable = (ClassType) machine.classesByName(THROWABLE).get(0);
        Method asked = throwable.concreteMethodByName(
                "getStackTrace", "()[Ljava/lang/StackTraceElement;");
        Value trace = ask(exception, throwable, asked);
        int length = trace instanceof ArrayReference ? ((ArrayReference) trace).length() : 0;
        List<Fields> places = new ArrayList<>();
        if (length == 0) {
            return places;
        }
        int end = Math.min(length, MOST_ELEMENTS);
        for (Value each : ((ArrayReference) trace).getValues(0, end)) {
            String type = text(each, "declaringClass");
            Value line = Variables.field(each, "lineNumber");
            int number = line == null ? 0 : ((IntegerValue) line).value();
            if (number > 0 && program.owns(type) && places.size() < most) {
                String file = program.path(type, text(each, "fileName"));
                String method = Program.name(text(each, "methodName"));
                places.add(new Fields()
                        .with("file", program.sources.relative(file))
                        .with("line", number)
                        .with("function", TypeNames.simple(type) + "." + method));
            }
        }
        return places;
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
