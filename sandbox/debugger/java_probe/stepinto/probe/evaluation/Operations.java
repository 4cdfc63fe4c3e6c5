package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.*;
import java.util.stream.Collectors;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** What expressions do: read members, call methods, create objects, assign. */
final class Operations {
    private Operations() {}

    /** A method, and whether its last parameter takes the remaining arguments as an array. */
    private static final class Choice {
        final Method method;
        final boolean spread;

        Choice(Method method, boolean spread) {
            this.method = method;
            this.spread = spread;
        }
    }

    /** The value of an expression that may not be a class. */
    static Operand value(Scope scope, Expression expression) throws EvaluationFailed {
        Operand operand = expression.evaluate(scope);
        if (operand.isType()) {
            throw new EvaluationFailed(
                    TypeNames.simple(operand.type.name()) + " is a class, not a value");
        }
        return operand;
    }

    /** Assigns what an operator makes of a variable and another value: {@code += ++ --}. */
    static Operand combine(
            Scope scope, Expression.Variable variable, String operator, Operand right)
            throws EvaluationFailed {
        Operand old = variable.get();
        Operand result = scope.operators.binary(operator, old, right);
        String type = old.typeName();
        String primitive = Primitives.unboxed(type);
        Operand unboxed = Operand.of(
                primitive == null
                        ? result.value
                        : scope.operators.cast(Operand.of(result.value), primitive, scope.here));
        return variable.set(Operand.of(scope.operators.cast(unboxed, type, scope.here), type));
    }

    /** A binary operator; Java's == finds the strings of equal literals the same everywhere. */
    static Operand binary(Scope scope, String operator, Expression left, Expression right)
            throws EvaluationFailed {
        boolean identity = operator.equals("==") || operator.equals("!=");
        List<Operand> operands = new ArrayList<>();
        for (Expression side : Arrays.asList(left, right)) {
            Operand operand = value(scope, side);
            boolean literal = side instanceof Expression.Literal
                    && ((Expression.Literal) side).isText();
            operands.add(identity && literal ? scope.calls.interned(operand) : operand);
        }
        return scope.operators.binary(operator, operands.get(0), operands.get(1));
    }

    static Slot element(Scope scope, Expression array, Expression index) throws EvaluationFailed {
        Value owner = array.evaluate(scope).value;
        Operand place = index.evaluate(scope);
        if (owner == null) {
            throw new EvaluationFailed("NullPointerException: the array is null");
        }
        if (!(owner instanceof ArrayReference)) {
            throw new EvaluationFailed(
                    "[] needs an array; this is a " + TypeNames.simple(owner.type().name()));
        }
        Value number = scope.operators.assign(place, "int", scope.here);
        return Slot.element(scope, (ArrayReference) owner, ((PrimitiveValue) number).intValue());
    }

    static Operand member(Scope scope, Operand owner, String name) throws EvaluationFailed {
        if (owner.value instanceof ArrayReference && name.equals("length")) {
            int length = ((ArrayReference) owner.value).length();
            return Operand.of(scope.machine().mirrorOf(length));
        }
        if (owner.isType() && staticField(owner.type, name) == null) {
            String nested = owner.type.name() + "$" + name;
            ReferenceType type = scope.types.find(nested, scope.here);
            if (type != null) {
                return Operand.of(type);
            }
        }
        return field(scope, owner, name).get();
    }

    private static Field staticField(ReferenceType type, String name) throws EvaluationFailed {
        Field field = type.fieldByName(name);
        if (field != null && !field.isStatic()) {
            throw new EvaluationFailed(
                    name + " is no static field of " + TypeNames.simple(type.name())
                            + "; name an object of it");
        }
        return field;
    }

    static Expression.Variable field(Scope scope, Operand owner, String name)
            throws EvaluationFailed {
        ReferenceType type = owner.type;
        ObjectReference object = null;
        Field field = null;
        if (owner.isType()) {
            field = staticField(type, name);
        } else if (owner.value == null) {
            throw new EvaluationFailed(
                    "NullPointerException: what the field " + name + " is read from is null");
        } else if (owner.value instanceof PrimitiveValue) {
            throw new EvaluationFailed(
                    "a value of type " + owner.value.type().name() + " has no field " + name);
        } else {
            object = (ObjectReference) owner.value;
            type = object.referenceType();
            boolean declared = owner.declared != null && !owner.declared.endsWith("]");
            ReferenceType seen =
                    declared ? scope.types.find(owner.declared, scope.here) : null;
            field = seen == null ? null : seen.fieldByName(name);
            field = field == null ? type.fieldByName(name) : field;
        }
        if (field != null) {
            return Slot.field(scope, field.isStatic() ? null : object, field);
        }
        List<String> names = new ArrayList<>();
        for (Field each : type.visibleFields()) {
            names.add(each.name());
        }
        boolean method = !named(type, name).isEmpty();
        throw new EvaluationFailed(
                TypeNames.simple(type.name()) + " has no field " + name
                        + (method ? "; " + name + "() is a method" : Nearest.names(name, names)));
    }

    static Operand call(Scope scope, Operand owner, String name, List<Expression> arguments)
            throws EvaluationFailed {
        if (owner.isType()) {
            return call(scope, owner.type, null, null, name, arguments);
        }
        if (owner.value == null) {
            throw new EvaluationFailed(
                    "NullPointerException: what " + name + "() is called on is null");
        }
        if (owner.value instanceof PrimitiveValue) {
            throw new EvaluationFailed(
                    "a value of type " + owner.value.type().name() + " has no methods");
        }
        if (!(owner.value instanceof ObjectReference)) {
            throw new EvaluationFailed("a call of a void method has no value");
        }
        ObjectReference object = (ObjectReference) owner.value;
        return call(scope, object.referenceType(), object, null, name, arguments);
    }

    static Operand callSuper(Scope scope, String name, List<Expression> arguments)
            throws EvaluationFailed {
        if (scope.self() == null) {
            throw scope.noSelf("super");
        }
        ClassType superclass = ((ClassType) scope.here).superclass();
        return call(scope, superclass, scope.self(), superclass, name, arguments);
    }

    /** Calls a method of what surrounds the code, or one that is imported. */
    static Operand callByName(Scope scope, String name, List<Expression> arguments)
            throws EvaluationFailed {
        List<String> names = new ArrayList<>();
        for (Scope.Level level : scope.levels()) {
            if (!named(level.type, name).isEmpty()) {
                return call(scope, level.type, level.instance, null, name, arguments);
            }
            names.addAll(names(level.type));
        }
        for (String imported : scope.types.imports(scope.here).memberClasses) {
            ReferenceType type = scope.types.find(imported, scope.here);
            if (type != null && !named(type, name).isEmpty()) {
                return call(scope, type, null, null, name, arguments);
            }
        }
        throw new EvaluationFailed(
                "no method is named " + name + " here" + Nearest.names(name, names));
    }

    /** With a class for {@code direct} its own method is called, whatever overrides it. */
    private static Operand call(
            Scope scope,
            ReferenceType type,
            ObjectReference object,
            ClassType direct,
            String name,
            List<Expression> arguments)
            throws EvaluationFailed {
        List<Method> methods = named(type, name);
        String what = TypeNames.simple(type.name()) + "." + name;
        if (methods.isEmpty()) {
            throw new EvaluationFailed(
                    TypeNames.simple(type.name()) + " has no method " + name
                            + Nearest.names(name, names(type)));
        }
        List<Operand> operands = values(scope, arguments);
        Choice choice = choose(scope, what, methods, operands);
        Method method = choice.method;
        if (!method.isStatic() && object == null) {
            throw new EvaluationFailed(
                    what + "() is not static; it needs an object to be called on");
        }
        List<Value> values = arguments(scope, choice, operands);
        boolean exact = method.isStatic() || direct != null;
        Value result = scope.calls.invoke(
                method.isStatic() ? null : object,
                exact ? method.declaringType() : null,
                method,
                values);
        String generic = method.genericSignature();
        String returned = generic == null ? null : generic.substring(generic.indexOf(')') + 1);
        return Operand.of(result, Slot.declared(method.returnTypeName(), returned));
    }

    private static List<Operand> values(Scope scope, List<Expression> expressions)
            throws EvaluationFailed {
        List<Operand> operands = new ArrayList<>();
        for (Expression expression : expressions) {
            operands.add(value(scope, expression));
        }
        return operands;
    }

    private static List<Value> arguments(
            Scope scope, Choice choice, List<Operand> operands) throws EvaluationFailed {
        List<String> parameters = choice.method.argumentTypeNames();
        int fixed = choice.spread ? parameters.size() - 1 : parameters.size();
        List<Value> values = new ArrayList<>();
        for (int at = 0; at < fixed; at++) {
            values.add(scope.calls.keep(scope.operators.assign(
                    operands.get(at), parameters.get(at), scope.here)));
        }
        if (choice.spread) {
            List<Operand> rest = operands.subList(fixed, operands.size());
            ArrayType type =
                    (ArrayType) scope.types.find(parameters.get(fixed), scope.here);
            ArrayReference array = type.newInstance(rest.size());
            values.add(scope.calls.keep(array));
            for (int at = 0; at < rest.size(); at++) {
                Slot.element(scope, array, at).set(rest.get(at));
            }
        }
        return values;
    }

    static Operand create(Scope scope, TypeName type, List<Expression> arguments)
            throws EvaluationFailed {
        ReferenceType found = type.type(scope);
        boolean concrete = found instanceof ClassType && !((ClassType) found).isAbstract();
        if (!concrete) {
            throw new EvaluationFailed(type + " is abstract; it can't be created");
        }
        for (Field field : found.fields()) {
            if (field.name().startsWith("val$")) {
                throw new EvaluationFailed(type + " is a local class that uses the variable "
                        + field.name().substring("val$".length())
                        + " around it; only the program can create it");
            }
        }
        List<Operand> operands = values(scope, arguments);
        List<Method> constructors = named(found, "<init>");
        ObjectReference outer = outer(scope, found, constructors);
        if (outer != null) {
            operands.add(0, Operand.of(outer));
        }
        String what = "new " + TypeNames.simple(found.name());
        Choice choice = choose(scope, what, constructors, operands);
        List<Value> values = arguments(scope, choice, operands);
        Value created = scope.calls.invoke(null, found, choice.method, values);
        return Operand.of(created, found.name());
    }

    /** The instance that an inner class lives in, which its constructors take first. */
    private static ObjectReference outer(
            Scope scope, ReferenceType type, List<Method> constructors) throws EvaluationFailed {
        ReferenceType enclosing = scope.types.enclosing(type);
        if (enclosing == null) {
            return null;
        }
        for (Method method : constructors) {
            List<String> parameters = method.argumentTypeNames();
            if (parameters.isEmpty() || !parameters.get(0).equals(enclosing.name())) {
                return null;
            }
        }
        for (Scope.Level level : scope.levels()) {
            if (level.instance != null && level.type.equals(enclosing)) {
                return level.instance;
            }
        }
        return null;
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

    /**
     * The method for these arguments, found in three phases as Java's overload resolution does;
     * {@code what} names the call in an error.
     */
    private static Choice choose(
            Scope scope, String what, List<Method> methods, List<Operand> operands)
            throws EvaluationFailed {
        List<String> arguments = new ArrayList<>();
        for (Operand operand : operands) {
            arguments.add(operand.typeName());
        }
        for (int phase = 0; phase < 3; phase++) {
            List<Method> applicable = new ArrayList<>();
            for (Method method : methods) {
                if (applies(scope, method, arguments, phase)) {
                    applicable.add(method);
                }
            }
            if (!applicable.isEmpty()) {
                boolean spread = phase == 2;
                return new Choice(mostSpecific(scope, what, applicable, arguments, spread), spread);
            }
        }
        throw new EvaluationFailed(
                what + "(" + simple(arguments) + ") does not exist; there is "
                        + described(what, methods));
    }

    private static String simple(List<String> types) {
        return types.stream().map(TypeNames::simple).collect(Collectors.joining(", "));
    }

    private static String described(String what, List<Method> methods) {
        return Nearest.list(methods.stream()
                .map(method -> what + "(" + simple(method.argumentTypeNames()) + ")")
                .collect(Collectors.toList()));
    }

    private static boolean applies(
            Scope scope, Method method, List<String> arguments, int phase) {
        List<String> parameters = method.argumentTypeNames();
        boolean spread = phase == 2;
        boolean counts = spread
                ? method.isVarArgs() && arguments.size() >= parameters.size() - 1
                : arguments.size() == parameters.size();
        for (int at = 0; counts && at < arguments.size(); at++) {
            String parameter = parameter(parameters, at, spread);
            if (!converts(scope, arguments.get(at), parameter, phase > 0)) {
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

    private static boolean converts(Scope scope, String from, String to, boolean boxing) {
        boolean primitive = Primitives.isPrimitive(to);
        if (from.equals("null")) {
            return !primitive;
        }
        if (Primitives.isPrimitive(from)) {
            return primitive
                    ? Primitives.widens(from, to)
                    : boxing && !from.equals("void")
                            && scope.types.assignable(Primitives.boxed(from), to, scope.here);
        }
        if (primitive) {
            String unboxed = Primitives.unboxed(from);
            return boxing && unboxed != null && Primitives.widens(unboxed, to);
        }
        return scope.types.assignable(from, to, scope.here);
    }

    private static Method mostSpecific(
            Scope scope,
            String what,
            List<Method> methods,
            List<String> arguments,
            boolean spread)
            throws EvaluationFailed {
        List<Method> best = new ArrayList<>();
        for (Method method : methods) {
            boolean beaten = false;
            for (Method other : methods) {
                beaten |= other != method
                        && moreSpecific(scope, other, method, arguments.size(), spread)
                        && !moreSpecific(scope, method, other, arguments.size(), spread);
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

    private static boolean moreSpecific(
            Scope scope, Method first, Method second, int count, boolean spread) {
        List<String> from = first.argumentTypeNames();
        List<String> to = second.argumentTypeNames();
        int compared = spread ? Math.max(count, Math.max(from.size(), to.size())) : count;
        for (int at = 0; at < compared; at++) {
            String taken = parameter(from, at, spread);
            if (!converts(scope, taken, parameter(to, at, spread), false)) {
                return false;
            }
        }
        return true;
    }
}
