package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.Arrays;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;

/** Java's operators on values, with its numeric promotion. */
final class Operators {
    private static final List<String> SHIFTS = Arrays.asList("<<", ">>", ">>>");
    private static final List<String> LOGICAL = Arrays.asList("&", "|", "^");

    private final VirtualMachine machine;
    private final Conversions conversions;
    private final Calls calls;

    Operators(VirtualMachine machine, Conversions conversions, Calls calls) {
        this.machine = machine;
        this.conversions = conversions;
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
        PrimitiveValue first = conversions.primitive(left.value, role);
        PrimitiveValue second = conversions.primitive(right.value, role);
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
        PrimitiveValue first = conversions.primitive(left, "an operand of ==");
        PrimitiveValue second = conversions.primitive(right, "an operand of ==");
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
        int number = value.intValue();
        long wide = value.longValue();
        boolean isLong = value instanceof LongValue;
        switch (operator) {
            case "<<":
                return isLong
                        ? machine.mirrorOf(wide << distance) : machine.mirrorOf(number << distance);
            case ">>":
                return isLong
                        ? machine.mirrorOf(wide >> distance) : machine.mirrorOf(number >> distance);
            default:
                return isLong
                        ? machine.mirrorOf(wide >>> distance)
                        : machine.mirrorOf(number >>> distance);
        }
    }

    /** {@code + - ~ !}. */
    Operand unary(String operator, Operand operand) throws EvaluationFailed {
        if (operator.equals("!")) {
            return Operand.of(machine.mirrorOf(!conversions.truth(operand, "the operand of !")));
        }
        PrimitiveValue value = conversions.primitive(operand.value, "the operand of " + operator);
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
}
