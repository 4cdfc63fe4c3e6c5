package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.Arrays;
import java.util.Collections;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** Java's conversions between types: widening, narrowing, boxing and unboxing. */
final class Conversions {
    private final Types types;
    private final Calls calls;

    Conversions(Types types, Calls calls) {
        this.types = types;
        this.calls = calls;
    }

    /** The primitive in a box; other values as they are. */
    Value unbox(Value value) throws EvaluationFailed {
        if (value instanceof VoidValue) {
            throw new EvaluationFailed("a call of a void method has no value");
        }
        if (value instanceof ObjectReference && Primitives.unboxed(value.type().name()) != null) {
            ObjectReference box = (ObjectReference) value;
            return box.getValue(box.referenceType().fieldByName("value"));
        }
        return value;
    }

    PrimitiveValue primitive(Value value, String role) throws EvaluationFailed {
        Value found = unbox(value);
        if (found == null) {
            throw new EvaluationFailed("NullPointerException: " + role + " is null");
        }
        if (!(found instanceof PrimitiveValue)) {
            throw new EvaluationFailed(
                    role + " is of type " + TypeNames.simple(found.type().name())
                            + "; it must be a primitive value");
        }
        return (PrimitiveValue) found;
    }

    boolean truth(Operand operand, String role) throws EvaluationFailed {
        Value value = unbox(operand.value);
        if (!(value instanceof BooleanValue)) {
            String type = value == null ? "null" : TypeNames.simple(value.type().name());
            throw new EvaluationFailed(role + " is of type " + type + "; it must be boolean");
        }
        return ((BooleanValue) value).value();
    }

    private Value box(PrimitiveValue value) throws EvaluationFailed {
        String primitive = value.type().name();
        ReferenceType type = types.find(Primitives.boxed(primitive), null);
        for (Method method : type.methodsByName("valueOf")) {
            if (method.argumentTypeNames().equals(Collections.singletonList(primitive))) {
                return calls.invoke(null, type, method, Collections.singletonList(value));
            }
        }
        throw new EvaluationFailed(type.name() + " has no valueOf(" + primitive + ")");
    }

    /** A value as it is stored in a variable of a type. */
    Value assign(Operand operand, String to, ReferenceType here) throws EvaluationFailed {
        Value value = operand.value;
        if (value instanceof VoidValue) {
            throw new EvaluationFailed("a call of a void method has no value");
        }
        if (Primitives.isPrimitive(to)) {
            return assignPrimitive(unbox(value), to);
        }
        if (value instanceof PrimitiveValue) {
            return assignBoxed((PrimitiveValue) value, to, here);
        }
        if (value != null && !types.assignable(value.type().name(), to, here)) {
            throw incompatible(value.type().name(), to);
        }
        return value;
    }

    private PrimitiveValue assignPrimitive(Value value, String to) throws EvaluationFailed {
        if (value == null) {
            throw new EvaluationFailed("null can't be stored as " + to);
        }
        String from = value.type().name();
        if (!(value instanceof PrimitiveValue)) {
            throw incompatible(from, to);
        }
        PrimitiveValue converted = Primitives.narrow((PrimitiveValue) value, to);
        boolean small = from.equals("int") && Arrays.asList("byte", "short", "char").contains(to);
        boolean fits = small && converted.intValue() == ((PrimitiveValue) value).intValue();
        if (!fits && !Primitives.widens(from, to)) {
            throw incompatible(from, to);
        }
        return converted;
    }

    private Value assignBoxed(PrimitiveValue value, String to, ReferenceType here)
            throws EvaluationFailed {
        String wanted = Primitives.unboxed(to);
        if (wanted != null) {
            return box(assignPrimitive(value, wanted));
        }
        if (!types.assignable(Primitives.boxed(value.type().name()), to, here)) {
            throw incompatible(value.type().name(), to);
        }
        return box(value);
    }

    private static EvaluationFailed incompatible(String from, String to) {
        return new EvaluationFailed(
                "incompatible types: " + TypeNames.simple(from) + " is no " + TypeNames.simple(to));
    }

    /** What a variable of a type holds when nothing was assigned to it. */
    Operand zero(String type) throws EvaluationFailed {
        if (type == null) {
            throw new EvaluationFailed("var needs a value: var name = value");
        }
        return Operand.of(Primitives.zero(types.machine, type), type);
    }

    /** A cast, checked as at run time. */
    Value cast(Operand operand, String to, ReferenceType here) throws EvaluationFailed {
        Value value = operand.value;
        if (Primitives.isPrimitive(to)) {
            PrimitiveValue found = primitive(value, "what is cast");
            if (to.equals("boolean") != found instanceof BooleanValue) {
                throw incompatible(found.type().name(), to);
            }
            return Primitives.narrow(found, to);
        }
        if (value instanceof PrimitiveValue) {
            return assignBoxed((PrimitiveValue) value, to, here);
        }
        if (value != null && !types.assignable(value.type().name(), to, here)) {
            throw new EvaluationFailed(
                    "ClassCastException: class " + value.type().name()
                            + " cannot be cast to class " + to);
        }
        return value;
    }
}
