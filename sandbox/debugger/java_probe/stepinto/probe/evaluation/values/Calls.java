package stepinto.probe.evaluation.values;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.ArrayReference;
import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.IncompatibleThreadStateException;
import com.sun.jdi.IntegerValue;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectCollectedException;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StringReference;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Program;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.InvocationFailed;
import stepinto.probe.threads.Invoker;

/** Runs methods of the program for the evaluator, and keeps alive what they return. */
public final class Calls {
    /** The name, before a number, of the classes that hold compiled code. */
    public static final String SNIPPET = "StepIntoSnippet";

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

    VirtualMachine machine() {
        return types.machine();
    }

    /** Runs a method; what it raises becomes the error {@code Type: message}. */
    public Value invoke(
            ObjectReference object,
            ReferenceType type,
            Method method,
            List<? extends Value> arguments)
            throws EvaluationFailed {
        loadParameters(method);
        try {
            return keep(invoker.invoke(object, type, method, arguments, Invoker.ACTION));
        } catch (InvocationFailed error) {
            throw failure(error, method);
        }
    }

    private EvaluationFailed failure(InvocationFailed error, Method method) {
        if (error.raised != null) {
            return new EvaluationFailed(values.describe(error.raised) + origin(error.raised));
        }
        String type = TypeNames.simple(method.declaringType().name());
        boolean code = type.startsWith(SNIPPET);
        String name = code ? "the code" : type + "." + method.name() + "()";
        return new EvaluationFailed(name + ": " + error.getMessage(), error.timedOut);
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
            Value elements =
                    invoker.invoke(raised, null, trace, Collections.<Value>emptyList(), ORIGIN_MILLIS);
            List<Value> frames = ((ArrayReference) elements).getValues();
            int evaluated = frames.size() - invoker.thread().frameCount();
            for (Value frame : frames.subList(0, Math.max(evaluated, 0))) {
                String place = place((ObjectReference) frame);
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
    private String place(ObjectReference element) {
        ReferenceType kind = element.referenceType();
        String name = text(element.getValue(kind.fieldByName("declaringClass")));
        int line = ((IntegerValue) element.getValue(kind.fieldByName("lineNumber"))).value();
        for (ReferenceType type : types.machine().classesByName(name)) {
            try {
                if (program.owns(type) && !type.allLineLocations().isEmpty()) {
                    String path = program.shownPath(type.allLineLocations().get(0));
                    String method = text(element.getValue(kind.fieldByName("methodName")));
                    String function = TypeNames.simple(name) + "." + Program.name(method);
                    return path + ":" + line + " in " + function;
                }
            } catch (AbsentInformationException withoutLines) {
                continue;
            }
        }
        return null;
    }

    private static String text(Value value) {
        return ((StringReference) value).value();
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

    Method objectMethod(String name, String signature) {
        return types.find("java.lang.Object", null).methodsByName(name, signature).get(0);
    }

    /** Saves an object that only the evaluator knows from the garbage collector. */
    public Value keep(Value value) {
        if (value instanceof ObjectReference) {
            ((ObjectReference) value).disableCollection();
            kept.add((ObjectReference) value);
        }
        return value;
    }

    /** The values of the previous evaluation are no longer needed. */
    public void release() {
        for (ObjectReference object : kept) {
            try {
                object.enableCollection();
            } catch (ObjectCollectedException gone) {
                continue;
            }
        }
        kept.clear();
    }
}
