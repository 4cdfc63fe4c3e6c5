package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** What expressions do: read members, call methods, create objects, assign. */
final class Operations {
    private Operations() {}

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
        Conversions conversions = scope.services.conversions;
        Operand old = variable.get();
        Operand result = scope.services.operators.binary(operator, old, right);
        String type = old.typeName();
        String primitive = Primitives.unboxed(type);
        Operand unboxed = Operand.of(
                primitive == null
                        ? result.value
                        : conversions.cast(Operand.of(result.value), primitive, scope.here));
        return variable.set(Operand.of(conversions.cast(unboxed, type, scope.here), type));
    }

    static Operand member(Scope scope, Operand owner, String name) throws EvaluationFailed {
        if (owner.value instanceof ArrayReference && name.equals("length")) {
            int length = ((ArrayReference) owner.value).length();
            return Operand.of(scope.machine().mirrorOf(length));
        }
        if (owner.isType() && staticField(owner.type, name) == null) {
            String nested = owner.type.name() + "$" + name;
            ReferenceType type = scope.services.types.find(nested, scope.here);
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
                    declared ? scope.services.types.find(owner.declared, scope.here) : null;
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
        boolean method = !Overloads.named(type, name).isEmpty();
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
            throw new EvaluationFailed("there is no super in a static method");
        }
        ClassType superclass = ((ClassType) scope.here).superclass();
        return call(scope, superclass, scope.self(), superclass, name, arguments);
    }

    /** Calls a method of what surrounds the code, or one that is imported. */
    static Operand callByName(Scope scope, String name, List<Expression> arguments)
            throws EvaluationFailed {
        List<String> names = new ArrayList<>();
        for (Scope.Level level : scope.levels()) {
            if (!Overloads.named(level.type, name).isEmpty()) {
                return call(scope, level.type, level.instance, null, name, arguments);
            }
            names.addAll(Overloads.names(level.type));
        }
        for (String imported : scope.services.types.imports(scope.here).memberClasses()) {
            ReferenceType type = scope.services.types.find(imported, scope.here);
            if (type != null && !Overloads.named(type, name).isEmpty()) {
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
        List<Method> methods = Overloads.named(type, name);
        String what = TypeNames.simple(type.name()) + "." + name;
        if (methods.isEmpty()) {
            throw new EvaluationFailed(
                    TypeNames.simple(type.name()) + " has no method " + name
                            + Nearest.names(name, Overloads.names(type)));
        }
        List<Operand> operands = values(scope, arguments);
        Overloads.Choice choice =
                scope.services.overloads.choose(what, methods, operands, scope.here);
        Method method = choice.method;
        if (!method.isStatic() && object == null) {
            throw new EvaluationFailed(
                    what + "() is not static; it needs an object to be called on");
        }
        List<Value> values = arguments(scope, choice, operands);
        boolean exact = method.isStatic() || direct != null;
        Value result = scope.services.calls.invoke(
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
            Scope scope, Overloads.Choice choice, List<Operand> operands) throws EvaluationFailed {
        List<String> parameters = choice.method.argumentTypeNames();
        int fixed = choice.spread ? parameters.size() - 1 : parameters.size();
        List<Value> values = new ArrayList<>();
        for (int at = 0; at < fixed; at++) {
            values.add(scope.services.calls.keep(scope.services.conversions.assign(
                    operands.get(at), parameters.get(at), scope.here)));
        }
        if (choice.spread) {
            List<Operand> rest = operands.subList(fixed, operands.size());
            ArrayType type =
                    (ArrayType) scope.services.types.find(parameters.get(fixed), scope.here);
            ArrayReference array = type.newInstance(rest.size());
            values.add(scope.services.calls.keep(array));
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
        List<Operand> operands = values(scope, arguments);
        List<Method> constructors = Overloads.named(found, "<init>");
        ObjectReference outer = outer(scope, found, constructors);
        if (outer != null) {
            operands.add(0, Operand.of(outer));
        }
        String what = "new " + TypeNames.simple(found.name());
        Overloads.Choice choice =
                scope.services.overloads.choose(what, constructors, operands, scope.here);
        List<Value> values = arguments(scope, choice, operands);
        Value created = scope.services.calls.invoke(null, found, choice.method, values);
        return Operand.of(created, found.name());
    }

    /** The instance that an inner class lives in, which its constructors take first. */
    private static ObjectReference outer(
            Scope scope, ReferenceType type, List<Method> constructors) throws EvaluationFailed {
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
        for (Scope.Level level : scope.levels()) {
            if (level.instance != null && level.type.equals(enclosing)) {
                return level.instance;
            }
        }
        return null;
    }
}
