package stepinto.probe.evaluation.values;

import com.sun.jdi.BooleanValue;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import stepinto.probe.program.EvaluationFailed;

/** Java's operators on values, with its numeric promotion. */
public final class Operators {
    private static final Set<String> COMPARISONS =
            new HashSet<>(Arrays.asList("<", "<=", ">", ">="));
    private static final Set<String> SHIFTS = new HashSet<>(Arrays.asList("<<", ">>", ">>>"));
    private static final Set<String> LOGICAL = new HashSet<>(Arrays.asList("&", "|", "^"));

    private final VirtualMachine machine;
    private final Conversions conversions;
    private final Texts texts;

    Operators(VirtualMachine machine, Conversions conversions, Texts texts) {
        this.machine = machine;
        this.conversions = conversions;
        this.texts = texts;
    }

    /** A binary operator whose both sides are evaluated. */
    public Operand binary(String operator, Operand left, Operand right) throws EvaluationFailed {
        if (operator.equals("==") || operator.equals("!=")) {
            boolean same = same(left.value, right.value);
            return Operand.of(machine.mirrorOf(same == operator.equals("==")));
        }
        if (operator.equals("+") && (isText(left) || isText(right))) {
            String text = texts.of(left.value) + texts.of(right.value);
            return Operand.of(texts.create(text), "java.lang.String");
        }
        String role = "an operand of " + operator;
        PrimitiveValue first = conversions.primitive(left.value, role);
        PrimitiveValue second = conversions.primitive(right.value, role);
        if (first instanceof BooleanValue && second instanceof BooleanValue) {
            return Operand.of(logical(operator, first.intValue() != 0, second.intValue() != 0));
        }
        if (first instanceof BooleanValue || second instanceof BooleanValue) {
            throw mismatch(operator, first, second);
        }
        return Operand.of(numeric(operator, first, second));
    }

    private static boolean isText(Operand operand) {
        return Conversions.typeOf(operand).equals("java.lang.String")
                || (operand.value != null
                        && operand.value.type().name().equals("java.lang.String"));
    }

    private boolean same(Value left, Value right) throws EvaluationFailed {
        boolean references =
                !(left instanceof PrimitiveValue) && !(right instanceof PrimitiveValue);
        if (references) {
            return left == null ? right == null : left.equals(right);
        }
        PrimitiveValue first = conversions.primitive(left, "an operand of ==");
        PrimitiveValue second = conversions.primitive(right, "an operand of ==");
        if (first instanceof BooleanValue != second instanceof BooleanValue) {
            throw mismatch("==", first, second);
        }
        if (Conversions.floating(first) || Conversions.floating(second)) {
            return first.doubleValue() == second.doubleValue();
        }
        return first.longValue() == second.longValue();
    }

    private Value logical(String operator, boolean first, boolean second)
            throws EvaluationFailed {
        switch (operator) {
            case "&":
                return machine.mirrorOf(first & second);
            case "|":
                return machine.mirrorOf(first | second);
            case "^":
                return machine.mirrorOf(first ^ second);
            default:
                throw new EvaluationFailed(operator + " does not work on boolean values");
        }
    }

    private Value numeric(String operator, PrimitiveValue first, PrimitiveValue second)
            throws EvaluationFailed {
        boolean floating = Conversions.floating(first) || Conversions.floating(second);
        if (floating && (SHIFTS.contains(operator) || LOGICAL.contains(operator))) {
            throw mismatch(operator, first, second);
        }
        if (SHIFTS.contains(operator)) {
            return shift(operator, first, second.longValue());
        }
        if (COMPARISONS.contains(operator)) {
            int order = floating
                    ? compare(first.doubleValue(), second.doubleValue())
                    : Long.compare(first.longValue(), second.longValue());
            return machine.mirrorOf(ordered(operator, order));
        }
        if (floating) {
            boolean wide = isType(first, "double") || isType(second, "double");
            return wide
                    ? machine.mirrorOf(
                            floating(operator, first.doubleValue(), second.doubleValue()))
                    : machine.mirrorOf(
                            floating(operator, first.floatValue(), second.floatValue()));
        }
        long result = whole(operator, first.longValue(), second.longValue());
        boolean wide = isType(first, "long") || isType(second, "long");
        return wide ? machine.mirrorOf(result) : machine.mirrorOf((int) result);
    }

    private static boolean isType(Value value, String type) {
        return value.type().name().equals(type);
    }

    /** As {@code compare}, with 2 for what is not ordered. */
    private static int compare(double first, double second) {
        return first < second ? -1 : first > second ? 1 : first == second ? 0 : 2;
    }

    private static boolean ordered(String operator, int order) {
        switch (operator) {
            case "<":
                return order == -1;
            case "<=":
                return order == -1 || order == 0;
            case ">":
                return order == 1;
            default:
                return order == 1 || order == 0;
        }
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

    private static float floating(String operator, float first, float second) {
        // The product of two floats is exact as a double, so that it is rounded once only.
        return (float) floating(operator, (double) first, (double) second);
    }

    private Value shift(String operator, PrimitiveValue value, long distance) {
        if (isType(value, "long")) {
            return machine.mirrorOf(shifted(operator, value.longValue(), (int) distance & 63));
        }
        int number = value.intValue();
        int places = (int) distance & 31;
        return machine.mirrorOf(
                operator.equals(">>>")
                        ? number >>> places
                        : (int) shifted(operator, number, places));
    }

    private static long shifted(String operator, long number, int places) {
        switch (operator) {
            case "<<":
                return number << places;
            case ">>":
                return number >> places;
            default:
                return number >>> places;
        }
    }

    /** {@code + - ~ !}. */
    public Operand unary(String operator, Operand operand) throws EvaluationFailed {
        if (operator.equals("!")) {
            return Operand.of(machine.mirrorOf(!conversions.truth(operand, "the operand of !")));
        }
        PrimitiveValue value = conversions.primitive(operand.value, "the operand of " + operator);
        boolean whole = !Conversions.floating(value);
        if (value instanceof BooleanValue || (operator.equals("~") && !whole)) {
            throw new EvaluationFailed(
                    operator + " does not work on a " + value.type().name());
        }
        PrimitiveValue minusOne = machine.mirrorOf(-1);
        switch (operator) {
            case "-":
                return Operand.of(Conversions.floating(value)
                        ? negated(value) : numeric("*", value, minusOne));
            case "~":
                return Operand.of(numeric("^", value, minusOne));
            default:
                return Operand.of(isType(value, "long") || Conversions.floating(value)
                        ? value : conversions.narrow(value, "int"));
        }
    }

    private Value negated(PrimitiveValue value) {
        return isType(value, "float")
                ? machine.mirrorOf(-value.floatValue())
                : machine.mirrorOf(-value.doubleValue());
    }

    private static EvaluationFailed mismatch(String operator, Value first, Value second) {
        return new EvaluationFailed(
                operator + " does not work on " + first.type().name() + " and "
                        + second.type().name());
    }

    /** The interned string of a literal, which Java's == finds the same everywhere. */
    public Operand interned(Operand operand) throws EvaluationFailed {
        return Operand.of(texts.intern((ObjectReference) operand.value), "java.lang.String");
    }
}
