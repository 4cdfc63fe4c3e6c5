package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.DoubleBinaryOperator;
import java.util.function.LongBinaryOperator;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** Java's operators on values, casts and assignments among them, and the conversions they make. */
final class Operators {
    private static final List<String> SHIFTS = Arrays.asList("<<", ">>", ">>>");
    private static final List<String> LOGICAL = Arrays.asList("&", "|", "^");
    private static final Map<String, LongBinaryOperator> WHOLE = new HashMap<>();
    private static final Map<String, DoubleBinaryOperator> FLOATING = new HashMap<>();

    static {
        WHOLE.put("+", (first, second) -> first + second);
        WHOLE.put("-", (first, second) -> first - second);
        WHOLE.put("*", (first, second) -> first * second);
        WHOLE.put("/", (first, second) -> first / second);
        WHOLE.put("%", (first, second) -> first % second);
        WHOLE.put("&", (first, second) -> first & second);
        WHOLE.put("|", (first, second) -> first | second);
        WHOLE.put("^", (first, second) -> first ^ second);
        WHOLE.put("<<", (first, second) -> first << second);
        WHOLE.put(">>", (first, second) -> first >> second);
        WHOLE.put(">>>", (first, second) -> first >>> second);
        FLOATING.put("+", (first, second) -> first + second);
        FLOATING.put("-", (first, second) -> first - second);
        FLOATING.put("*", (first, second) -> first * second);
        FLOATING.put("/", (first, second) -> first / second);
        FLOATING.put("%", (first, second) -> first % second);
    }

    private final VirtualMachine machine;
    private final Types types;
    private final Calls calls;

    Operators(Types types, Calls calls) {
        this.machine = types.machine;
        this.types = types;
        this.calls = calls;
    }

    /** A binary operator whose both sides are evaluated. */
    Operand binary(String operator, Operand left, Operand right) throws EvaluationFailed {
        if (operator.equals("==") || operator.equals("!=")) {
            boolean same = same(operator, left, right);
            return Operand.of(machine.mirrorOf(same == operator.equals("==")));
        }
        if (operator.equals("+") && (isText(left) || isText(right))) {
            String text = calls.text(left.value) + calls.text(right.value);
            return Operand.of(calls.create(text), Calls.STRING);
        }
        String role = "an operand of " + operator;
        PrimitiveValue first = primitive(left.value, role);
        PrimitiveValue second = primitive(right.value, role);
        if (first instanceof BooleanValue != second instanceof BooleanValue) {
            throw mismatch(operator, first, second);
        }
        if (first instanceof BooleanValue) {
            if (!LOGICAL.contains(operator)) {
                throw new EvaluationFailed(operator + " does not work on boolean values");
            }
            long bits = whole(operator, first.intValue(), second.intValue());
            return Operand.of(machine.mirrorOf(bits != 0));
        }
        return Operand.of(numeric(operator, first, second));
    }

    private static boolean isText(Operand operand) {
        return operand.typeName().equals(Calls.STRING) || operand.value instanceof StringReference;
    }

    private boolean same(String operator, Operand left, Operand right) throws EvaluationFailed {
        boolean leftIsPrimitive = left.value instanceof PrimitiveValue;
        if (!leftIsPrimitive && !(right.value instanceof PrimitiveValue)) {
            return left.value == null ? right.value == null : left.value.equals(right.value);
        }
        if ((leftIsPrimitive ? right : left).typeName().equals("null")) {
            String type = (leftIsPrimitive ? left : right).typeName();
            throw new EvaluationFailed(
                    operator + " does not work on " + type + " and null: " + type + " is never null");
        }
        PrimitiveValue first = primitive(left.value, "an operand of " + operator);
        PrimitiveValue second = primitive(right.value, "an operand of " + operator);
        if (first instanceof BooleanValue != second instanceof BooleanValue) {
            throw mismatch(operator, first, second);
        }
        if (Primitives.isFloating(first) || Primitives.isFloating(second)) {
            return first.doubleValue() == second.doubleValue();
        }
        return first.longValue() == second.longValue();
    }

    private Value numeric(String operator, PrimitiveValue first, PrimitiveValue second)
            throws EvaluationFailed {
        boolean floating = Primitives.isFloating(first) || Primitives.isFloating(second);
        boolean shift = SHIFTS.contains(operator);
        if (floating && (shift || LOGICAL.contains(operator))) {
            throw mismatch(operator, first, second);
        }
        if (shift) {
            return shifted(operator, first, second.intValue());
        }
        if (operator.startsWith("<") || operator.startsWith(">")) {
            double difference = Long.compare(first.longValue(), second.longValue());
            return machine.mirrorOf(
                    floating
                            ? ordered(operator, first.doubleValue(), second.doubleValue())
                            : ordered(operator, difference, 0));
        }
        if (floating) {
            boolean wide = first instanceof DoubleValue || second instanceof DoubleValue;
            // The product of two floats is exact as a double, so that it is rounded once only.
            double left = wide ? first.doubleValue() : first.floatValue();
            double right = wide ? second.doubleValue() : second.floatValue();
            double result = FLOATING.get(operator).applyAsDouble(left, right);
            return wide ? machine.mirrorOf(result) : machine.mirrorOf((float) result);
        }
        long result = whole(operator, first.longValue(), second.longValue());
        boolean wide = first instanceof LongValue || second instanceof LongValue;
        return wide ? machine.mirrorOf(result) : machine.mirrorOf((int) result);
    }

    private static boolean ordered(String operator, double first, double second) {
        boolean less = operator.startsWith("<") ? first < second : first > second;
        return less || (operator.endsWith("=") && first == second);
    }

    private static long whole(String operator, long first, long second) throws EvaluationFailed {
        try {
            return WHOLE.get(operator).applyAsLong(first, second);
        } catch (ArithmeticException error) {
            throw new EvaluationFailed("ArithmeticException: " + error.getMessage());
        }
    }

    private Value shifted(String operator, PrimitiveValue value, int distance)
            throws EvaluationFailed {
        boolean isLong = value instanceof LongValue;
        boolean unsigned = operator.equals(">>>") && !isLong;
        long number = unsigned ? value.longValue() & 0xffffffffL : value.longValue();
        long result = whole(operator, number, distance & (isLong ? 63 : 31));
        return isLong ? machine.mirrorOf(result) : machine.mirrorOf((int) result);
    }

    /** {@code + - ~ !}. */
    Operand unary(String operator, Operand operand) throws EvaluationFailed {
        if (operator.equals("!")) {
            return Operand.of(machine.mirrorOf(!truth(operand, "the operand of !")));
        }
        PrimitiveValue value = primitive(operand.value, "the operand of " + operator);
        boolean floating = Primitives.isFloating(value);
        if (value instanceof BooleanValue || (operator.equals("~") && floating)) {
            throw new EvaluationFailed(operator + " does not work on a " + value.type().name());
        }
        PrimitiveValue minusOne = machine.mirrorOf(-1);
        switch (operator) {
            case "-":
                return Operand.of(numeric("*", value, minusOne));
            case "~":
                return Operand.of(numeric("^", value, minusOne));
            default:
                return Operand.of(value instanceof LongValue || floating
                        ? value : Primitives.narrow(value, "int"));
        }
    }

    private static EvaluationFailed mismatch(String operator, Value first, Value second) {
        return new EvaluationFailed(
                operator + " does not work on " + first.type().name() + " and "
                        + second.type().name());
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

    /** A branch of {@code ?:}, as a long or floating number if the other branch is a wider one. */
    Operand promoted(Operand chosen, Operand other) throws EvaluationFailed {
        PrimitiveValue value = primitive(chosen.value, "a branch of ?:");
        String type = other.typeName();
        String to = Primitives.isPrimitive(type) ? type : Primitives.unboxed(type);
        boolean wider = !"int".equals(to) && Primitives.widens(value.type().name(), to);
        return wider ? Operand.of(Primitives.narrow(value, to)) : chosen;
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
        return Operand.of(Primitives.zero(machine, type), type);
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
