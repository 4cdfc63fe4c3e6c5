package stepinto.probe.evaluation.tree;

import com.sun.jdi.ArrayType;
import com.sun.jdi.ClassType;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.evaluation.values.Conversions;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.evaluation.values.Overloads;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.TypeNames;

/** Calls of methods and constructors. */
public final class Invocations {
    private Invocations() {}

    static List<Operand> evaluate(Scope scope, List<Expression> expressions)
            throws EvaluationFailed {
        List<Operand> operands = new ArrayList<>();
        for (Expression expression : expressions) {
            Operand operand = expression.evaluate(scope);
            if (operand.isType()) {
                throw new EvaluationFailed(
                        TypeNames.simple(operand.type.name()) + " is a class, not a value");
            }
            operands.add(operand);
        }
        return operands;
    }

    private static List<String> types(List<Operand> operands) {
        List<String> types = new ArrayList<>();
        for (Operand operand : operands) {
            types.add(Conversions.typeOf(operand));
        }
        return types;
    }

    /** The arguments as the method takes them. */
    static List<Value> arguments(Scope scope, Overloads.Choice choice, List<Operand> operands)
            throws EvaluationFailed {
        Conversions conversions = scope.services.conversions;
        List<String> parameters = choice.method.argumentTypeNames();
        int fixed = choice.spread ? parameters.size() - 1 : parameters.size();
        List<Value> values = new ArrayList<>();
        for (int at = 0; at < fixed; at++) {
            values.add(kept(scope, conversions.assign(
                    operands.get(at), parameters.get(at), scope.here)));
        }
        if (choice.spread) {
            String array = parameters.get(fixed);
            ArrayType type = (ArrayType) scope.services.types.find(array, scope.here);
            values.add(NewArrays.filled(
                    scope, type, operands.subList(fixed, operands.size())));
        }
        return values;
    }

    private static Value kept(Scope scope, Value value) {
        return value instanceof ObjectReference ? scope.services.calls.keep(value) : value;
    }

    /** A method of an object, of a class, or of what surrounds the code. */
    public static final class Call extends Expression {
        private final Expression target;
        private final boolean isSuper;
        private final String name;
        private final List<Expression> arguments;

        /** With null as the target for a call by the name alone, or by {@code super}. */
        public Call(Expression target, boolean isSuper, String name, List<Expression> arguments) {
            this.target = target;
            this.isSuper = isSuper;
            this.name = name;
            this.arguments = arguments;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            if (isSuper) {
                return callSuper(scope);
            }
            if (target == null) {
                return callByName(scope);
            }
            Operand owner = target.evaluate(scope);
            if (owner.isType()) {
                return call(scope, owner.type, null, null);
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
            return call(scope, object.referenceType(), object, null);
        }

        private Operand callSuper(Scope scope) throws EvaluationFailed {
            if (scope.self() == null) {
                throw new EvaluationFailed("there is no super in a static method");
            }
            ClassType superclass = ((ClassType) scope.here).superclass();
            return call(scope, superclass, scope.self(), superclass);
        }

        private Operand callByName(Scope scope) throws EvaluationFailed {
            List<String> names = new ArrayList<>();
            for (Lookup.Level level : new Lookup(scope).levels()) {
                if (!Overloads.named(level.type, name).isEmpty()) {
                    return call(scope, level.type, level.instance, null);
                }
                names.addAll(Overloads.names(level.type));
            }
            for (String imported : scope.services.types.imports(scope.here).memberClasses()) {
                ReferenceType type = scope.services.types.find(imported, scope.here);
                if (type != null && !Overloads.named(type, name).isEmpty()) {
                    return call(scope, type, null, null);
                }
            }
            throw new EvaluationFailed(
                    "no method is named " + name + " here" + Nearest.names(name, names));
        }

        /** With a class for {@code direct} its own method is called, whatever overrides it. */
        private Operand call(
                Scope scope, ReferenceType type, ObjectReference object, ClassType direct)
                throws EvaluationFailed {
            List<Method> methods = Overloads.named(type, name);
            String what = TypeNames.simple(type.name()) + "." + name;
            if (methods.isEmpty()) {
                throw new EvaluationFailed(
                        TypeNames.simple(type.name()) + " has no method " + name
                                + Nearest.names(name, Overloads.names(type)));
            }
            List<Operand> operands = Invocations.evaluate(scope, arguments);
            Overloads.Choice choice =
                    scope.services.overloads.choose(what, methods, types(operands), scope.here);
            Method method = choice.method;
            if (!method.isStatic() && object == null) {
                throw new EvaluationFailed(
                        what + "() is not static; it needs an object to be called on");
            }
            List<Value> values = Invocations.arguments(scope, choice, operands);
            Value result = method.isStatic()
                    ? scope.services.calls.invoke(null, method.declaringType(), method, values)
                    : scope.services.calls.invoke(
                            object, direct == null ? null : method.declaringType(), method, values);
            return Operand.of(result, declared(method));
        }

        /** A type variable says less than the value itself. */
        private static String declared(Method method) {
            String generic = method.genericSignature();
            String returned = generic == null ? "" : generic.substring(generic.indexOf(')') + 1);
            return returned.replace("[", "").startsWith("T") ? null : method.returnTypeName();
        }
    }

    public static final class New extends Expression {
        private final TypeName type;
        private final List<Expression> arguments;

        public New(TypeName type, List<Expression> arguments) {
            this.type = type;
            this.arguments = arguments;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            ReferenceType found = type.type(scope);
            boolean concrete = found instanceof ClassType && !((ClassType) found).isAbstract();
            if (!concrete) {
                throw new EvaluationFailed(type + " is abstract; it can't be created");
            }
            List<Operand> operands = Invocations.evaluate(scope, arguments);
            List<Method> constructors = Overloads.named(found, "<init>");
            ObjectReference outer = outer(scope, found, constructors);
            if (outer != null) {
                operands.add(0, Operand.of(outer));
            }
            String what = "new " + TypeNames.simple(found.name());
            Overloads.Choice choice = scope.services.overloads.choose(
                    what, constructors, types(operands), scope.here);
            List<Value> values = Invocations.arguments(scope, choice, operands);
            Value created = scope.services.calls.invoke(null, found, choice.method, values);
            return Operand.of(created, found.name());
        }

        /** The instance that an inner class lives in, which its constructors take first. */
        private static ObjectReference outer(
                Scope scope, ReferenceType type, List<Method> constructors)
                throws EvaluationFailed {
            ReferenceType enclosing = scope.services.types.enclosing(type);
            if (enclosing == null) {
                return null;
            }
            for (Method method : constructors) {
                List<String> parameters = method.argumentTypeNames();
                if (parameters.isEmpty() || !parameters.get(0).equals(enclosing.name())) {
                    return null;
                }
            }
            for (Lookup.Level level : new Lookup(scope).levels()) {
                if (level.instance != null && level.type.equals(enclosing)) {
                    return level.instance;
                }
            }
            return null;
        }
    }
}
