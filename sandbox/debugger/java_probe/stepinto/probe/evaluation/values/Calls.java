package stepinto.probe.evaluation.values;

import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectCollectedException;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.ValueText;
import stepinto.probe.threads.InvocationFailed;
import stepinto.probe.threads.Invoker;

/** Runs methods of the program for the evaluator, and keeps alive what they return. */
public final class Calls {
    /** The name, before a number, of the classes that hold compiled code. */
    public static final String SNIPPET = "StepIntoSnippet";

    private final Types types;
    private final Invoker invoker;
    private final ValueText values;
    private final List<ObjectReference> kept = new ArrayList<>();

    Calls(Types types, Invoker invoker, ValueText values) {
        this.types = types;
        this.invoker = invoker;
        this.values = values;
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
            return new EvaluationFailed(values.describe(error.raised));
        }
        String type = TypeNames.simple(method.declaringType().name());
        boolean code = type.startsWith(SNIPPET);
        String name = code ? "the code" : type + "." + method.name() + "()";
        return new EvaluationFailed(name + ": " + error.getMessage(), error.timedOut);
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
