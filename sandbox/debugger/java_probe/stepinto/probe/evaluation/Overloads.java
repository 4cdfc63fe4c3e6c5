package stepinto.probe.evaluation;

import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import java.util.*;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** Finds the method that a call means, as Java's overload resolution does: in three phases. */
final class Overloads {
    /** A method, and whether its last parameter takes the remaining arguments as an array. */
    static final class Choice {
        final Method method;
        final boolean spread;

        Choice(Method method, boolean spread) {
            this.method = method;
            this.spread = spread;
        }
    }

    private final Types types;

    Overloads(Types types) {
        this.types = types;
    }

    /** The methods of that name, private and inherited ones too; the nearest class first. */
    static List<Method> named(ReferenceType type, String name) {
        List<Method> found = new ArrayList<>();
        Set<String> parameters = new HashSet<>();
        for (ReferenceType each : Types.ancestry(type)) {
            for (Method method : each.methods()) {
                boolean fits = method.name().equals(name) && !method.isBridge();
                String signature = method.signature();
                if (fits && parameters.add(signature.substring(0, signature.indexOf(')')))) {
                    found.add(method);
                }
            }
            if (name.equals("<init>")) {
                break;
            }
        }
        return found;
    }

    /** The names of all methods that can be called, for the nearest ones to a misspelled name. */
    static Set<String> names(ReferenceType type) {
        Set<String> found = new LinkedHashSet<>();
        for (ReferenceType each : Types.ancestry(type)) {
            for (Method method : each.methods()) {
                if (!method.isSynthetic() && method.name().indexOf('<') < 0) {
                    found.add(method.name());
                }
            }
        }
        return found;
    }

    /** The method for these arguments; {@code what} names the call in an error. */
    Choice choose(String what, List<Method> methods, List<Operand> operands, ReferenceType here)
            throws EvaluationFailed {
        List<String> arguments = new ArrayList<>();
        for (Operand operand : operands) {
            arguments.add(operand.typeName());
        }
        for (int phase = 0; phase < 3; phase++) {
            List<Method> applicable = new ArrayList<>();
            for (Method method : methods) {
                if (applies(method, arguments, phase, here)) {
                    applicable.add(method);
                }
            }
            if (!applicable.isEmpty()) {
                boolean spread = phase == 2;
                return new Choice(mostSpecific(what, applicable, arguments, spread, here), spread);
            }
        }
        throw new EvaluationFailed(
                what + "(" + simple(arguments) + ") does not exist; there is "
                        + described(what, methods));
    }

    private static String simple(List<String> types) {
        List<String> names = new ArrayList<>();
        for (String type : types) {
            names.add(TypeNames.simple(type));
        }
        return String.join(", ", names);
    }

    private static String described(String what, List<Method> methods) {
        List<String> texts = new ArrayList<>();
        for (Method method : methods) {
            texts.add(what + "(" + simple(method.argumentTypeNames()) + ")");
        }
        return Nearest.list(texts);
    }

    private boolean applies(
            Method method, List<String> arguments, int phase, ReferenceType here) {
        List<String> parameters = method.argumentTypeNames();
        boolean spread = phase == 2;
        boolean counts = spread
                ? method.isVarArgs() && arguments.size() >= parameters.size() - 1
                : arguments.size() == parameters.size();
        for (int at = 0; counts && at < arguments.size(); at++) {
            String parameter = parameter(parameters, at, spread);
            if (!converts(arguments.get(at), parameter, phase > 0, here)) {
                return false;
            }
        }
        return counts;
    }

    /** The type of the parameter that takes an argument. */
    private static String parameter(List<String> parameters, int at, boolean spread) {
        int last = parameters.size() - 1;
        if (!spread || at < last) {
            return parameters.get(at);
        }
        String array = parameters.get(last);
        return array.substring(0, array.length() - 2);
    }

    private boolean converts(String from, String to, boolean boxing, ReferenceType here) {
        boolean primitive = Primitives.isPrimitive(to);
        if (from.equals("null")) {
            return !primitive;
        }
        if (Primitives.isPrimitive(from)) {
            return primitive
                    ? Primitives.widens(from, to)
                    : boxing && !from.equals("void")
                            && types.assignable(Primitives.boxed(from), to, here);
        }
        if (primitive) {
            String unboxed = Primitives.unboxed(from);
            return boxing && unboxed != null && Primitives.widens(unboxed, to);
        }
        return types.assignable(from, to, here);
    }

    private Method mostSpecific(
            String what,
            List<Method> methods,
            List<String> arguments,
            boolean spread,
            ReferenceType here)
            throws EvaluationFailed {
        List<Method> best = new ArrayList<>();
        for (Method method : methods) {
            boolean beaten = false;
            for (Method other : methods) {
                beaten |= other != method
                        && moreSpecific(other, method, arguments.size(), spread, here)
                        && !moreSpecific(method, other, arguments.size(), spread, here);
            }
            if (!beaten) {
                best.add(method);
            }
        }
        if (best.size() > 1 && arguments.contains("null")) {
            throw new EvaluationFailed(
                    "the call is ambiguous between " + described(what, best) + "; cast null");
        }
        return best.isEmpty() ? methods.get(0) : best.get(0);
    }

    private boolean moreSpecific(
            Method first, Method second, int count, boolean spread, ReferenceType here) {
        List<String> from = first.argumentTypeNames();
        List<String> to = second.argumentTypeNames();
        int compared = spread ? Math.max(count, Math.max(from.size(), to.size())) : count;
        for (int at = 0; at < compared; at++) {
            if (!converts(parameter(from, at, spread), parameter(to, at, spread), false, here)) {
                return false;
            }
        }
        return true;
    }
}
