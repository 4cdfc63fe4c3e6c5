package stepinto.probe.evaluation.values;

import com.sun.jdi.ClassType;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.StringReference;
import com.sun.jdi.Value;
import java.util.Collections;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.rendering.Heap;
import stepinto.probe.rendering.JavaText;

/** Strings between the program and the evaluator. */
public final class Texts {
    private static final int LONGEST = 5_000_000;

    private final Calls calls;
    private final Heap heap;

    Texts(Calls calls, Heap heap) {
        this.calls = calls;
        this.heap = heap;
    }

    /** A value as string concatenation has it; an object by its {@code toString}. */
    String of(Value value) throws EvaluationFailed {
        if (value == null || value instanceof PrimitiveValue) {
            return Conversions.text(value);
        }
        Value text = value;
        if (!(value instanceof StringReference)) {
            ObjectReference object = (ObjectReference) value;
            Method method = method(object, "toString");
            text = calls.invoke(object, null, method, Collections.<Value>emptyList());
        }
        return text == null ? "null" : read((StringReference) text);
    }

    private String read(StringReference string) throws EvaluationFailed {
        JavaText text = JavaText.of(string, heap);
        if (text.length > LONGEST) {
            throw new EvaluationFailed(
                    "a string of " + text.length + " characters is too long to be joined here;"
                            + " take a substring");
        }
        return text.part(0, text.length);
    }

    public Value create(String text) {
        return calls.keep(calls.machine().mirrorOf(text));
    }

    Value intern(ObjectReference string) throws EvaluationFailed {
        return calls.invoke(string, null, method(string, "intern"), Collections.<Value>emptyList());
    }

    private Method method(ObjectReference object, String name) throws EvaluationFailed {
        String signature = "()Ljava/lang/String;";
        if (object.referenceType() instanceof ClassType) {
            return ((ClassType) object.referenceType()).concreteMethodByName(name, signature);
        }
        return calls.objectMethod(name, signature);
    }
}
