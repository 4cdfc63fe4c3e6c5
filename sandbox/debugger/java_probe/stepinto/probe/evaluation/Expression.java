package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.Arrays;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;

/** A Java expression that can be evaluated in a paused frame. */
interface Expression {
    Operand evaluate(Scope scope) throws EvaluationFailed;

    /** The variable, if it stands for one. */
    default Variable variable(Scope scope) throws EvaluationFailed {
        throw new EvaluationFailed("only a variable, a field or an array element can be assigned");
    }

    /** Something that can be read and assigned. */
    interface Variable {
        Operand get() throws EvaluationFailed;

        /** Assigns a value, converted to the variable's type; returns it as assigned. */
        Operand set(Operand value) throws EvaluationFailed;
    }

    /** What is read by way of the variable that it stands for. */
    interface Place extends Expression {
        @Override
        Variable variable(Scope scope) throws EvaluationFailed;

        @Override
        default Operand evaluate(Scope scope) throws EvaluationFailed {
            return variable(scope).get();
        }
    }

    final class Literal implements Expression {
        private final Object constant;

        Literal(Object constant) {
            this.constant = constant;
        }

        boolean isText() {
            return constant instanceof String;
        }

        @Override
        public Operand evaluate(Scope scope) {
            VirtualMachine machine = scope.machine();
            if (constant instanceof String) {
                return Operand.of(scope.calls.create((String) constant), Calls.STRING);
            } else if (constant instanceof Integer) {
                return Operand.of(machine.mirrorOf((int) constant));
            } else if (constant instanceof Long) {
                return Operand.of(machine.mirrorOf((long) constant));
            } else if (constant instanceof Double) {
                return Operand.of(machine.mirrorOf((double) constant));
            } else if (constant instanceof Float) {
                return Operand.of(machine.mirrorOf((float) constant));
            } else if (constant instanceof Character) {
                return Operand.of(machine.mirrorOf((char) constant));
            } else if (constant instanceof Boolean) {
                return Operand.of(machine.mirrorOf((boolean) constant));
            }
            return Operand.of((Value) null);
        }
    }

    /** {@code a.b.c}: a variable or a class, and members of it. */
    final class Path implements Expression {
        private final List<String> names;

        Path(String names) {
            this.names = Arrays.asList(names.split("\\."));
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            Variable first = scope.variable(names.get(0));
            Operand found = first == null ? null : first.get();
            int used = first == null ? 0 : 1;
            while (found == null && used < names.size()) {
                String name = String.join(".", names.subList(0, ++used));
                ReferenceType type = scope.types.named(name, scope.place());
                found = type == null ? null : Operand.of(type);
            }
            if (found == null) {
                throw scope.unknown(names.get(0));
            }
            for (String name : names.subList(used, names.size())) {
                found = Operations.member(scope, found, name);
            }
            return found;
        }

        @Override
        public Variable variable(Scope scope) throws EvaluationFailed {
            int last = names.size() - 1;
            if (last > 0) {
                Operand owner = new Path(String.join(".", names.subList(0, last))).evaluate(scope);
                return Operations.field(scope, owner, names.get(last));
            }
            Variable found = scope.variable(names.get(0));
            if (found == null) {
                throw scope.unknown(names.get(0));
            }
            return found;
        }
    }

    final class Member implements Expression {
        private final Expression owner;
        private final String name;

        Member(Expression owner, String name) {
            this.owner = owner;
            this.name = name;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            return Operations.member(scope, owner.evaluate(scope), name);
        }

        @Override
        public Variable variable(Scope scope) throws EvaluationFailed {
            return Operations.field(scope, owner.evaluate(scope), name);
        }
    }
}
