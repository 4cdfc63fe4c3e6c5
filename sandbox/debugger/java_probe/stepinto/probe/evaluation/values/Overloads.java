package stepinto.probe.evaluation.values;

import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.TypeNames;

/** Finds the method that a call means, as Java's overload resolution does: in three phases. */
public final class Overloads {
    /** A method, and whether its last parameter takes the remaining arguments as an array. */
    public static final class Choice {
        public final Method method;
        public final boolean spread;

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
    public static List<Method> named(ReferenceType type, String name) {
        List<Method> found = new ArrayList<>();
        Set<String> signatures = new HashSet<>();
        for (ReferenceType each : ancestry(type)) {
            for (Method method : each.methods()) {
                boolean fits = method.name().equals(name) && !method.isBridge();
                if (fits && signatures.add(parameters(method))) {
                    found.add(method);
                }
            }
            if (name.equals("<init>")) {
                break;
            }
        }
        return found;
    }

    private static String parameters(Method method) {
        return method.signature().substring(0, method.signature().indexOf(')'));
    }

    private static Set<ReferenceType> ancestry(ReferenceType type) {
        Set<ReferenceType> found = new LinkedHashSet<>();
        if (type instanceof ClassType) {
            for (ClassType base = (ClassType) type; base != null; base = base.superclass()) {
                found.add(base);
            }
            found.addAll(((ClassType) type).allInterfaces());
        } else {
            found.add(type);
            if (type instanceof InterfaceType) {
                addInterfaces((InterfaceType) type, found);
            }
            found.addAll(type.virtualMachine().classesByName("java.lang.Object"));
        }
        return found;
    }

    private static void addInterfaces(InterfaceType type, Set<ReferenceType> found) {
        for (InterfaceType each : type.superinterfaces()) {
            found.add(each);
            addInterfaces(each, found);
        }
    }

    /** The names of all methods that can be called, for the nearest ones to a misspelled name. */
    public static Set<String> names(ReferenceType type) {
        Set<String> found = new LinkedHashSet<>();
        for (ReferenceType each : ancestry(type)) {
            for (Method method : each.methods()) {
                if (!method.isSynthetic() && method.name().indexOf('<') < 0) {
                    found.add(method.name());
                }
            }
        }
        return found;
    }

    /** The method for arguments of these types; {@code what} names the call in an error. */
    public Choice choose(
            String what, List<Method> methods, List<String> arguments, ReferenceType here)
            throws EvaluationFailed {
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
        if (phase == 2) {
            return method.isVarArgs() && appliesSpread(parameters, arguments, here);
        }
        if (parameters.size() != arguments.size()) {
            return false;
        }
        for (int at = 0; at < arguments.size(); at++) {
            if (!converts(arguments.get(at), parameters.get(at), phase > 0, here)) {
                return false;
            }
        }
        return true;
    }

    private boolean appliesSpread(
            List<String> parameters, List<String> arguments, ReferenceType here) {
        int fixed = parameters.size() - 1;
        if (arguments.size() < fixed) {
            return false;
        }
        for (int at = 0; at < arguments.size(); at++) {
            if (!converts(arguments.get(at), parameter(parameters, at, true), true, here)) {
                return false;
            }
        }
        return true;
    }

    /** The type of the parameter that takes an argument. */
    static String parameter(List<String> parameters, int at, boolean spread) {
        int last = parameters.size() - 1;
        if (!spread || at < last) {
            return parameters.get(at);
        }
        String array = parameters.get(last);
        return array.substring(0, array.length() - 2);
    }

    private boolean converts(String from, String to, boolean boxing, ReferenceType here) {
        if (from.equals("null")) {
            return !Types.isPrimitive(to);
        }
        if (Types.isPrimitive(from)) {
            boolean direct = Types.isPrimitive(to) && Conversions.widens(from, to);
            return direct
                    || (boxing && !Types.isPrimitive(to) && !from.equals("void")
                            && types.assignable(Conversions.boxed(from), to, here));
        }
        if (Types.isPrimitive(to)) {
            String primitive = Conversions.unboxed(from);
            return boxing && primitive != null && Conversions.widens(primitive, to);
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
        boolean ambiguous = best.size() > 1 && arguments.contains("null");
        if (ambiguous) {
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
            String one = parameter(from, at, spread);
            String other = parameter(to, at, spread);
            if (!converts(one, other, false, here)) {
                return false;
            }
        }
        return true;
    }
}
