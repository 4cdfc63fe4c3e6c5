package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** Java's operators on values, casts and assignments among them, and the conversions they make. */
final class Operators {
    private static final List<String> SHIFTS = Arrays.asList("<<", ">>", ">>>");
    private static final List<String> LOGICAL = Arrays.asList("&", "|", "^");

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
            boolean same = same(left.value, right.value);
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

    private boolean same(Value left, Value right) throws EvaluationFailed {
        if (!(left instanceof PrimitiveValue) && !(right instanceof PrimitiveValue)) {
            return left == null ? right == null : left.equals(right);
        }
        PrimitiveValue first = primitive(left, "an operand of ==");
        PrimitiveValue second = primitive(right, "an operand of ==");
        if (first instanceof BooleanValue != second instanceof BooleanValue) {
            throw mismatch("==", first, second);
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
            return machine.mirrorOf(
                    floating
                            ? ordered(operator, first.doubleValue(), second.doubleValue())
                            : ordered(operator, first.longValue(), second.longValue()));
        }
        if (floating) {
            boolean wide = first instanceof DoubleValue || second instanceof DoubleValue;
            // The product of two floats is exact as a double, so that it is rounded once only.
            return wide
                    ? machine.mirrorOf(
                            floating(operator, first.doubleValue(), second.doubleValue()))
                    : machine.mirrorOf(
                            (float) floating(operator, first.floatValue(), second.floatValue()));
        }
        long result = whole(operator, first.longValue(), second.longValue());
        boolean wide = first instanceof LongValue || second instanceof LongValue;
        return wide ? machine.mirrorOf(result) : machine.mirrorOf((int) result);
    }

    private static boolean ordered(String operator, double first, double second) {
        switch (operator) {
            case "<":
                return first < second;
            case "<=":
                return first <= second;
            case ">":
                return first > second;
            default:
                return first >= second;
        }
    }

    private static boolean ordered(String operator, long first, long second) {
        return ordered(operator, (double) Long.compare(first, second), 0);
    }

    private static long whole(String operator, long first, long second) throws EvaluationFailed {
        switch (operator) {
            case "+":
                return first + second;
            case "-":
                return first - second;
            case "*":
                return first * second;
            case "&":
                return first & second;
            case "|":
                return first | second;
            case "^":
                return first ^ second;
            default:
                if (second == 0) {
                    throw new EvaluationFailed("ArithmeticException: / by zero");
                }
                return operator.equals("/") ? first / second : first % second;
        }
    }

    private static double floating(String operator, double first, double second) {
        switch (operator) {
            case "+":
                return first + second;
            case "-":
                return first - second;
            case "*":
                return first * second;
            case "/":
                return first / second;
            default:
                return first % second;
        }
    }

    private Value shifted(String operator, PrimitiveValue value, int distance) {
        boolean isLong = value instanceof LongValue;
        int by = distance & (isLong ? 63 : 31);
        long number = value.longValue();
        long result;
        if (operator.equals("<<")) {
            result = number << by;
        } else if (operator.equals(">>") || isLong) {
            result = operator.equals(">>") ? number >> by : number >>> by;
        } else {
            result = (int) number >>> by;
        }
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
