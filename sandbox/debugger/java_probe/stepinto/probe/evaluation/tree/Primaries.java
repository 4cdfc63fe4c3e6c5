package stepinto.probe.evaluation.tree;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.Field;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.ArrayList;
import java.util.List;
import stepinto.probe.evaluation.values.Conversions;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.evaluation.values.Overloads;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Nearest;
import stepinto.probe.program.TypeNames;

/** The expressions that others are made of: literals, names, fields, elements. */
public final class Primaries {
    private Primaries() {}

    public static final class Literal extends Expression {
        final Object constant;

        public Literal(Object constant) {
            this.constant = constant;
        }

        @Override
        public Operand evaluate(Scope scope) {
            VirtualMachine machine = scope.machine();
            if (constant instanceof String) {
                return Operand.of(
                        scope.services.texts.create((String) constant), "java.lang.String");
            }
            return Operand.of(primitive(machine));
        }

        @Override
        String numericType(Scope scope) {
            return constant == null
                    ? null : Conversions.numeric(constant.getClass().getName());
        }

        private Value primitive(VirtualMachine machine) {
            if (constant instanceof Integer) {
                return machine.mirrorOf((int) constant);
            } else if (constant instanceof Long) {
                return machine.mirrorOf((long) constant);
            } else if (constant instanceof Double) {
                return machine.mirrorOf((double) constant);
            } else if (constant instanceof Float) {
                return machine.mirrorOf((float) constant);
            } else if (constant instanceof Character) {
                return machine.mirrorOf((char) constant);
            } else if (constant instanceof Boolean) {
                return machine.mirrorOf((boolean) constant);
            }
            return null;
        }
    }

    /** {@code this}, or {@code Outer.this}. */
    public static final class This extends Expression {
        private final TypeName outer;

        /** With null for the frame's own. */
        public This(TypeName outer) {
            this.outer = outer;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            String wanted = outer == null ? scope.here.name() : outer.resolve(scope);
            for (Lookup.Level level : new Lookup(scope).levels()) {
                if (level.instance != null && level.type.name().equals(wanted)) {
                    return Operand.of(level.instance, wanted);
                }
            }
            throw new EvaluationFailed(
                    scope.self() == null
                            ? "there is no this in a static method"
                            : "there is no " + outer + ".this here");
        }
    }

    /** {@code a.b.c}: a variable or a class, and members of it. */
    public static final class Path extends Expression {
        public final List<String> names;

        public Path(List<String> names) {
            this.names = names;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            Variable first = new Lookup(scope).variable(names.get(0));
            if (first != null) {
                return members(scope, first.get(), 1, names.size());
            }
            int[] used = new int[1];
            Operand type = type(scope, used);
            return members(scope, type, used[0], names.size());
        }

        @Override
        String numericType(Scope scope) {
            try {
                return Conversions.numeric(Conversions.typeOf(evaluate(scope)));
            } catch (EvaluationFailed unknown) {
                // What can't be read in the branch not taken is no error.
                return null;
            }
        }

        /** The class that the first names stand for; how many of them, in {@code used}. */
        private Operand type(Scope scope, int[] used) throws EvaluationFailed {
            for (int count = 1; count <= names.size(); count++) {
                String name = String.join(".", names.subList(0, count));
                ReferenceType type = scope.services.types.named(name, scope.here);
                if (type != null) {
                    used[0] = count;
                    return Operand.of(type);
                }
            }
            throw new Lookup(scope).unknown(names.get(0));
        }

        private Operand members(Scope scope, Operand start, int from, int to)
                throws EvaluationFailed {
            Operand operand = start;
            for (int at = from; at < to; at++) {
                operand = member(scope, operand, names.get(at));
            }
            return operand;
        }

        @Override
        Variable variable(Scope scope) throws EvaluationFailed {
            int last = names.size() - 1;
            Variable found;
            if (last == 0) {
                found = new Lookup(scope).variable(names.get(0));
                if (found == null) {
                    throw new Lookup(scope).unknown(names.get(0));
                }
                return found;
            }
            Operand owner = new Path(names.subList(0, last)).evaluate(scope);
            return memberVariable(scope, owner, names.get(last));
        }
    }

    /** A member of any expression. */
    public static final class Member extends Expression {
        private final Expression owner;
        private final String name;

        public Member(Expression owner, String name) {
            this.owner = owner;
            this.name = name;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            return member(scope, owner.evaluate(scope), name);
        }

        @Override
        Variable variable(Scope scope) throws EvaluationFailed {
            return memberVariable(scope, owner.evaluate(scope), name);
        }
    }

    private static Operand member(Scope scope, Operand owner, String name)
            throws EvaluationFailed {
        if (owner.value instanceof ArrayReference && name.equals("length")) {
            int length = ((ArrayReference) owner.value).length();
            return Operand.of(scope.machine().mirrorOf(length));
        }
        if (owner.isType() && new Lookup(scope).member(owner, name) == null) {
            String nested = owner.type.name() + "$" + name;
            ReferenceType type = scope.services.types.find(nested, scope.here);
            if (type != null) {
                return Operand.of(type);
            }
        }
        return memberVariable(scope, owner, name).get();
    }

    private static Expression.Variable memberVariable(Scope scope, Operand owner, String name)
            throws EvaluationFailed {
        boolean isNull = !owner.isType() && owner.value == null;
        if (isNull) {
            throw new EvaluationFailed(
                    "NullPointerException: what the field " + name + " is read from is null");
        }
        Expression.Variable found = new Lookup(scope).member(owner, name);
        if (found != null) {
            return found;
        }
        ReferenceType type = owner.isType() ? owner.type : objectType(owner.value, name);
        List<String> names = new ArrayList<>();
        for (Field field : type.visibleFields()) {
            names.add(field.name());
        }
        boolean method = !Overloads.named(type, name).isEmpty();
        throw new EvaluationFailed(
                TypeNames.simple(type.name()) + " has no field " + name
                        + (method ? "; " + name + "() is a method" : Nearest.names(name, names)));
    }

    private static ReferenceType objectType(Value value, String name) throws EvaluationFailed {
        if (value instanceof PrimitiveValue) {
            throw new EvaluationFailed(
                    "a value of type " + value.type().name() + " has no field " + name);
        }
        return ((ObjectReference) value).referenceType();
    }

    public static final class Element extends Expression {
        private final Expression array;
        private final Expression index;

        public Element(Expression array, Expression index) {
            this.array = array;
            this.index = index;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            return variable(scope).get();
        }

        @Override
        String numericType(Scope scope) throws EvaluationFailed {
            if (!(array instanceof Path)) {
                return null;
            }
            String type = Conversions.typeOf(array.evaluate(scope));
            return type.endsWith("[]")
                    ? Conversions.numeric(type.substring(0, type.length() - 2)) : null;
        }

        @Override
        Variable variable(Scope scope) throws EvaluationFailed {
            Value owner = array.evaluate(scope).value;
            Operand place = index.evaluate(scope);
            if (owner == null) {
                throw new EvaluationFailed("NullPointerException: the array is null");
            }
            if (!(owner instanceof ArrayReference)) {
                throw new EvaluationFailed(
                        "[] needs an array; this is a " + TypeNames.simple(owner.type().name()));
            }
            Value number = scope.services.conversions.assign(place, "int", scope.here);
            return Slots.element(
                    scope, (ArrayReference) owner, ((PrimitiveValue) number).intValue());
        }
    }

    /** {@code Type.class}. */
    public static final class ClassLiteral extends Expression {
        private final TypeName type;

        public ClassLiteral(TypeName type) {
            this.type = type;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            return Operand.of(type.mirror(scope), "java.lang.Class");
        }
    }
}
