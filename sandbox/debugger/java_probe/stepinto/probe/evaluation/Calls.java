package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Program;
import stepinto.probe.program.TypeNames;
import stepinto.probe.program.Variables;
import stepinto.probe.rendering.Heap.JavaText;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.Invoker;
import stepinto.probe.threads.Invoker.InvocationFailed;

/** Runs methods of the program for the evaluator, and keeps alive what they return. */
final class Calls {
    /** The name, before a number, of the classes that hold compiled code. */
    static final String SNIPPET = "StepIntoSnippet";

    static final String STRING = "java.lang.String";
    private static final String DENIED =
            "; write a reference to a private method as a lambda, or evaluate what is private"
                    + " by itself, without a lambda";
    private static final int LONGEST = 5_000_000;
    private static final int ORIGIN_FRAMES = 3;
    private static final long ORIGIN_MILLIS = 500;
    private final Types types;
    private final Invoker invoker;
    private final ValueText values;
    private final Program program;
    private final List<ObjectReference> kept = new ArrayList<>();

    Calls(Types types, Invoker invoker, ValueText values, Program program) {
        this.types = types;
        this.invoker = invoker;
        this.values = values;
        this.program = program;
    }

    /** Runs a method; what it raises becomes the error {@code Type: message}. */
    Value invoke(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments)
            throws EvaluationFailed {
        loadParameters(method);
        try {
            return keep(invoker.invoke(object, type, method, arguments, Invoker.ACTION));
        } catch (InvocationFailed error) {
            String owner = TypeNames.simple(method.declaringType().name());
            boolean code = owner.startsWith(SNIPPET);
            if (error.raised != null) {
                String raised = error.raised.referenceType().name();
                boolean denied = code && raised.equals("java.lang.IllegalAccessError");
                throw new EvaluationFailed(
                        values.describe(error.raised) + (denied ? DENIED : origin(error.raised)));
            }
            String name = code ? "the code" : owner + "." + method.name() + "()";
            throw new EvaluationFailed(name + ": " + error.getMessage(), error.timedOut);
        }
    }

    /** The machine checks arguments against their types, which must be loaded first. */
    private void loadParameters(Method method) throws EvaluationFailed {
        for (int attempt = 0; attempt <= method.argumentTypeNames().size(); attempt++) {
            try {
                method.argumentTypes();
                return;
            } catch (ClassNotLoadedException missing) {
                types.link(missing.className(), method.declaringType());
            }
        }
    }

    /**
     * Where the program raised it while the expression was evaluated: {@code , raised at FILE:LINE
     * in FUNCTION, called from ...}; empty if no code of the program did.
     */
    private String origin(ObjectReference raised) {
        List<String> places = new ArrayList<>();
        try {
            Method trace = types.find("java.lang.Throwable", null)
                    .methodsByName("getStackTrace", "()[Ljava/lang/StackTraceElement;").get(0);
            List<Value> none = Collections.emptyList();
            Value elements = invoker.invoke(raised, null, trace, none, ORIGIN_MILLIS);
            List<Value> frames = ((ArrayReference) elements).getValues();
            int evaluated = frames.size() - invoker.thread().frameCount();
            for (Value frame : frames.subList(0, Math.max(evaluated, 0))) {
                String place = place(frame);
                if (place != null && places.size() < ORIGIN_FRAMES) {
                    places.add(place);
                }
            }
        } catch (InvocationFailed | IncompatibleThreadStateException unknown) {
            return "";
        }
        return places.isEmpty() ? "" : ", raised at " + String.join(", called from ", places);
    }

    /** {@code FILE:LINE in FUNCTION} of a StackTraceElement; null if it is not of the program. */
    private String place(Value element) {
        String name = ((StringReference) Variables.field(element, "declaringClass")).value();
        for (ReferenceType type : types.machine.classesByName(name)) {
            try {
                if (program.owns(type) && !type.allLineLocations().isEmpty()) {
                    String file = program.path(type.allLineLocations().get(0));
                    String path = program.sources.relative(file);
                    Value line = Variables.field(element, "lineNumber");
                    Value method = Variables.field(element, "methodName");
                    String shown = Program.name(((StringReference) method).value());
                    return path + ":" + line + " in " + TypeNames.simple(name) + "." + shown;
                }
            } catch (AbsentInformationException withoutLines) {
                continue;
            }
        }
        return null;
    }

    /** Saves an object that only the evaluator knows from the garbage collector. */
    Value keep(Value value) {
        if (value instanceof ObjectReference) {
            ((ObjectReference) value).disableCollection();
            kept.add((ObjectReference) value);
        }
        return value;
    }

    void release() {
        for (ObjectReference object : kept) {
            try {
                object.enableCollection();
            } catch (ObjectCollectedException gone) {
                continue;
            }
        }
        kept.clear();
    }

    Value create(String text) {
        return keep(types.machine.mirrorOf(text));
    }

    Operand interned(Operand operand) throws EvaluationFailed {
        return Operand.of(asked((ObjectReference) operand.value, "intern"), STRING);
    }

    /** A value as string concatenation has it; an object by its {@code toString}. */
    String text(Value value) throws EvaluationFailed {
        Value text = value;
        if (value instanceof PrimitiveValue) {
            return value.toString();
        }
        if (value != null && !(value instanceof StringReference)) {
            text = asked((ObjectReference) value, "toString");
        }
        if (text == null) {
            return "null";
        }
        JavaText found = values.heap.text((StringReference) text);
        if (found.length > LONGEST) {
            throw new EvaluationFailed(
                    "a string of " + found.length + " characters is too long to be joined here;"
                            + " take a substring");
        }
        return found.part(0, found.length);
    }

    /** What a method that takes nothing and returns a string says. */
    private Value asked(ObjectReference object, String name) throws EvaluationFailed {
        ReferenceType type = object.referenceType();
        ClassType owner = (ClassType)
                (type instanceof ClassType ? type : types.find("java.lang.Object", null));
        Method method = owner.concreteMethodByName(name, "()Ljava/lang/String;");
        return invoke(object, null, method, Collections.<Value>emptyList());
    }
}
