package stepinto.probe.evaluation.values;

import com.sun.jdi.BooleanValue;
import com.sun.jdi.CharValue;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import com.sun.jdi.VoidValue;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.TypeNames;
import stepinto.probe.rendering.Heap;
import stepinto.probe.threads.InvocationFailed;
import stepinto.probe.threads.Invoker;

/** Java's conversions between types: widening, narrowing, boxing and unboxing. */
public final class Conversions {
    /** Each can be widened to those after it; char only from int on. */
    private static final List<String> NUMERIC =
            Arrays.asList("byte", "short", "int", "long", "float", "double");
    private static final List<String> BOXED =
            Arrays.asList("Byte", "Short", "Integer", "Long", "Float", "Double", "Character",
                    "Boolean");
    private static final List<String> UNBOXED =
            Arrays.asList("byte", "short", "int", "long", "float", "double", "char", "boolean");

    private final Types types;
    private final Invoker invoker;
    private final Heap heap;

    Conversions(Types types, Invoker invoker, Heap heap) {
        this.types = types;
        this.invoker = invoker;
        this.heap = heap;
    }

    /** The primitive type that a box holds; null for another type. */
    public static String unboxed(String name) {
        int at = name != null && name.startsWith("java.lang.")
                ? BOXED.indexOf(name.substring("java.lang.".length()))
                : -1;
        return at < 0 ? null : UNBOXED.get(at);
    }

    public static String boxed(String primitive) {
        return "java.lang." + BOXED.get(UNBOXED.indexOf(primitive));
    }

    /** The type of an operand for the reader and for overloads; "null" for a null of no type. */
    public static String typeOf(Operand operand) {
        if (operand.value instanceof PrimitiveValue) {
            return operand.value.type().name();
        }
        if (operand.declared != null) {
            return operand.declared;
        }
        return operand.value == null ? "null" : operand.value.type().name();
    }

    /** The primitive numeric type of a type, a box among them; null for another. */
    public static String numeric(String name) {
        String primitive = unboxed(name) == null ? name : unboxed(name);
        return NUMERIC.contains(primitive) || "char".equals(primitive) ? primitive : null;
    }

    /** The type of an arithmetic operation on two types, either of which may be unknown (null). */
    public static String promoted(String first, String second) {
        for (String wide : new String[] {"double", "float", "long"}) {
            if (wide.equals(first) || wide.equals(second)) {
                return wide;
            }
        }
        return first == null || second == null ? null : "int";
    }

    /** Whether one primitive type is widened to another without a cast. */
    public static boolean widens(String from, String to) {
        int first = NUMERIC.indexOf(from.equals("char") ? "int" : from);
        int second = NUMERIC.indexOf(to);
        boolean up = from.equals("char") ? second >= 2 : second > first;
        return from.equals(to) || (first >= 0 && second >= 0 && up);
    }

    /** The primitive in a box; other values as they are. */
    public Value unbox(Value value) throws EvaluationFailed {
        if (value instanceof VoidValue) {
            throw new EvaluationFailed("a call of a void method has no value");
        }
        boolean box = value instanceof ObjectReference && unboxed(value.type().name()) != null;
        return box ? heap.value((ObjectReference) value, "value") : value;
    }

    public PrimitiveValue primitive(Value value, String role) throws EvaluationFailed {
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

    public boolean truth(Operand operand, String role) throws EvaluationFailed {
        Value value = operand.value == null ? null : unbox(operand.value);
        if (!(value instanceof BooleanValue)) {
            String type = value == null ? "null" : TypeNames.simple(value.type().name());
            throw new EvaluationFailed(role + " is of type " + type + "; it must be boolean");
        }
        return ((BooleanValue) value).value();
    }

    ObjectReference box(PrimitiveValue value) throws EvaluationFailed {
        String primitive = value.type().name();
        ReferenceType type = types.find(boxed(primitive), null);
        for (Method method : type.methodsByName("valueOf")) {
            if (method.argumentTypeNames().equals(Collections.singletonList(primitive))) {
                try {
                    List<Value> arguments = Collections.<Value>singletonList(value);
                    return (ObjectReference)
                            invoker.invoke(null, type, method, arguments, Invoker.ACTION);
                } catch (InvocationFailed error) {
                    throw new EvaluationFailed(error.getMessage(), error.timedOut);
                }
            }
        }
        throw new EvaluationFailed(type.name() + " has no valueOf(" + primitive + ")");
    }

    /** A value as it is stored in a variable of a type. */
    public Value assign(Operand operand, String to, ReferenceType here) throws EvaluationFailed {
        Value value = operand.value;
        if (value instanceof VoidValue) {
            throw new EvaluationFailed("a call of a void method has no value");
        }
        if (Types.isPrimitive(to)) {
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

    private Value assignPrimitive(Value value, String to) throws EvaluationFailed {
        if (value == null) {
            throw new EvaluationFailed("null can't be stored as " + to);
        }
        String from = value.type().name();
        boolean small = from.equals("int") && Arrays.asList("byte", "short", "char").contains(to);
        if (value instanceof PrimitiveValue && small) {
            int number = ((PrimitiveValue) value).intValue();
            Value narrowed = narrow((PrimitiveValue) value, to);
            if (((PrimitiveValue) narrowed).intValue() == number) {
                return narrowed;
            }
        }
        if (!(value instanceof PrimitiveValue) || !widens(from, to)) {
            throw incompatible(from, to);
        }
        return narrow((PrimitiveValue) value, to);
    }

    private Value assignBoxed(PrimitiveValue value, String to, ReferenceType here)
            throws EvaluationFailed {
        String wanted = unboxed(to);
        if (wanted != null) {
            Value converted = assignPrimitive(value, wanted);
            return box((PrimitiveValue) converted);
        }
        String box = boxed(value.type().name());
        if (!types.assignable(box, to, here)) {
            throw incompatible(value.type().name(), to);
        }
        return box(value);
    }

    private static EvaluationFailed incompatible(String from, String to) {
        return new EvaluationFailed(
                "incompatible types: " + TypeNames.simple(from) + " is no " + TypeNames.simple(to));
    }

    /** What a variable of a type holds when nothing was assigned to it. */
    public Operand zero(String type) throws EvaluationFailed {
        if (type == null) {
            throw new EvaluationFailed("var needs a value: var name = value");
        }
        if (!Types.isPrimitive(type)) {
            return Operand.of((Value) null, type);
        }
        VirtualMachine machine = types.machine();
        boolean truth = type.equals("boolean");
        return Operand.of(truth ? machine.mirrorOf(false) : narrow(machine.mirrorOf(0), type));
    }

    /** A cast, checked as at run time. */
    public Value cast(Operand operand, String to, ReferenceType here) throws EvaluationFailed {
        if (Types.isPrimitive(to)) {
            PrimitiveValue value = primitive(operand.value, "what is cast");
            boolean truth = to.equals("boolean");
            if (truth != value instanceof BooleanValue) {
                throw incompatible(value.type().name(), to);
            }
            return narrow(value, to);
        }
        if (operand.value instanceof PrimitiveValue) {
            return assignBoxed((PrimitiveValue) operand.value, to, here);
        }
        Value value = operand.value;
        if (value != null && !types.assignable(value.type().name(), to, here)) {
            throw new EvaluationFailed(
                    "ClassCastException: class " + value.type().name()
                            + " cannot be cast to class " + to);
        }
        return value;
    }

    /** A number as another primitive type; digits that don't fit are lost. */
    public Value narrow(PrimitiveValue value, String to) {
        VirtualMachine machine = types.machine();
        switch (to) {
            case "byte":
                return machine.mirrorOf((byte) whole(value));
            case "short":
                return machine.mirrorOf((short) whole(value));
            case "char":
                return machine.mirrorOf((char) whole(value));
            case "int":
                return machine.mirrorOf(floating(value)
                        ? (int) value.doubleValue() : (int) value.longValue());
            case "long":
                return machine.mirrorOf(value.longValue());
            case "float":
                return machine.mirrorOf(value.floatValue());
            case "double":
                return machine.mirrorOf(value.doubleValue());
            default:
                return value;
        }
    }

    private static int whole(PrimitiveValue value) {
        return floating(value) ? (int) value.doubleValue() : (int) value.longValue();
    }

    static boolean floating(PrimitiveValue value) {
        String type = value.type().name();
        return type.equals("double") || type.equals("float");
    }

    /** A box or a primitive as text, as string concatenation has it; null for anything else. */
    static String text(Value value) {
        if (value == null) {
            return "null";
        }
        if (value instanceof CharValue) {
            return String.valueOf(((CharValue) value).value());
        }
        return value instanceof PrimitiveValue ? value.toString() : null;
    }
}
