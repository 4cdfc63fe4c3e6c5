package stepinto.probe.evaluation.tree;

import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import java.util.Collections;
import stepinto.probe.evaluation.values.Conversions;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.program.EvaluationFailed;

/** Operators in expressions. */
public final class Operations {
    private Operations() {}

    public static final class Unary extends Expression {
        private final String operator;
        private final Expression operand;

        public Unary(String operator, Expression operand) {
            this.operator = operator;
            this.operand = operand;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            return scope.services.operators.unary(operator, operand.evaluate(scope));
        }

        @Override
        String numericType(Scope scope) throws EvaluationFailed {
            String type = operand.numericType(scope);
            return type == null ? null : Conversions.promoted(type, "int");
        }
    }

    public static final class Binary extends Expression {
        private final String operator;
        private final Expression left;
        private final Expression right;

        public Binary(String operator, Expression left, Expression right) {
            this.operator = operator;
            this.left = left;
            this.right = right;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            boolean identity = operator.equals("==") || operator.equals("!=");
            Operand first = operand(scope, left, identity);
            return scope.services.operators.binary(
                    operator, first, operand(scope, right, identity));
        }

        @Override
        String numericType(Scope scope) throws EvaluationFailed {
            String first = left.numericType(scope);
            boolean shift = operator.startsWith("<<") || operator.startsWith(">>");
            if (shift) {
                return first == null ? null : Conversions.promoted(first, "int");
            }
            String second = right.numericType(scope);
            // What is unknown may be text, to which + would add.
            boolean text = operator.equals("+") && (first == null || second == null);
            boolean arithmetic = operator.length() == 1 && "+-*/%&|^".contains(operator);
            return arithmetic && !text ? Conversions.promoted(first, second) : null;
        }

        private static Operand operand(Scope scope, Expression side, boolean identity)
                throws EvaluationFailed {
            Operand operand = Invocations
                    .evaluate(scope, Collections.singletonList(side)).get(0);
            boolean text = side instanceof Primaries.Literal
                    && ((Primaries.Literal) side).constant instanceof String;
            return identity && text ? scope.services.operators.interned(operand) : operand;
        }
    }

    /** {@code && ||}, which may leave their right side alone. */
    public static final class Logical extends Expression {
        private final boolean and;
        private final Expression left;
        private final Expression right;

        public Logical(boolean and, Expression left, Expression right) {
            this.and = and;
            this.left = left;
            this.right = right;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            String role = "an operand of " + (and ? "&&" : "||");
            Conversions conversions = scope.services.conversions;
            boolean truth = conversions.truth(left.evaluate(scope), role);
            if (truth == and) {
                truth = conversions.truth(right.evaluate(scope), role);
            }
            return Operand.of(scope.machine().mirrorOf(truth));
        }
    }

    public static final class Conditional extends Expression {
        private final Expression condition;
        private final Expression yes;
        private final Expression no;

        public Conditional(Expression condition, Expression yes, Expression no) {
            this.condition = condition;
            this.yes = yes;
            this.no = no;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            Operand operand = condition.evaluate(scope);
            boolean truth = scope.services.conversions.truth(operand, "the condition before ?");
            return promoted(scope, (truth ? yes : no).evaluate(scope), truth ? no : yes);
        }

        /** Both sides are of one type: {@code true ? 1 : 2.5} is 1.0. */
        private static Operand promoted(Scope scope, Operand chosen, Expression other)
                throws EvaluationFailed {
            String type = other.numericType(scope);
            String own = Conversions.numeric(Conversions.typeOf(chosen));
            boolean wider = type != null && own != null && chosen.value != null
                    && !type.equals("int") && Conversions.widens(own, type);
            if (!wider) {
                return chosen;
            }
            PrimitiveValue value =
                    scope.services.conversions.primitive(chosen.value, "the value of ?:");
            return Operand.of(scope.services.conversions.narrow(value, type));
        }

        @Override
        String numericType(Scope scope) throws EvaluationFailed {
            return Conversions.promoted(yes.numericType(scope), no.numericType(scope));
        }
    }

    public static final class Cast extends Expression {
        private final TypeName type;
        private final Expression operand;

        public Cast(TypeName type, Expression operand) {
            this.type = type;
            this.operand = operand;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            String to = type.resolve(scope);
            Operand from = operand.evaluate(scope);
            return Operand.of(scope.services.conversions.cast(from, to, scope.here), to);
        }

        @Override
        String numericType(Scope scope) throws EvaluationFailed {
            return Conversions.numeric(type.resolve(scope));
        }
    }

    public static final class InstanceOf extends Expression {
        private final Expression operand;
        private final TypeName type;
        private final String name;

        /** With the name of a variable to declare, or null. */
        public InstanceOf(Expression operand, TypeName type, String name) {
            this.operand = operand;
            this.type = type;
            this.name = name;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            Value value = operand.evaluate(scope).value;
            String wanted = type.resolve(scope);
            ReferenceType here = scope.here;
            boolean truth = value != null
                    && scope.services.types.assignable(value.type().name(), wanted, here);
            if (truth && name != null) {
                scope.declare(name, type, Operand.of(value));
            }
            return Operand.of(scope.machine().mirrorOf(truth));
        }
    }

    /** {@code = += -= ...}. */
    public static final class Assign extends Expression {
        private final String operator;
        private final Expression target;
        private final Expression value;

        /** With the operator without its {@code =}, empty for a plain assignment. */
        public Assign(String operator, Expression target, Expression value) {
            this.operator = operator;
            this.target = target;
            this.value = value;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            Variable variable = target.variable(scope);
            if (operator.isEmpty()) {
                return variable.set(value.evaluate(scope));
            }
            return combine(scope, variable, operator, value.evaluate(scope));
        }
    }

    private static Operand combine(
            Scope scope, Expression.Variable variable, String operator, Operand right)
            throws EvaluationFailed {
        Operand old = variable.get();
        Operand result = scope.services.operators.binary(operator, old, right);
        String type = Conversions.typeOf(old);
        Operand unboxed = Operand.of(result.value);
        String primitive = Conversions.unboxed(type);
        if (primitive != null) {
            unboxed = Operand.of(
                    scope.services.conversions.cast(unboxed, primitive, scope.here));
        }
        return variable.set(
                Operand.of(scope.services.conversions.cast(unboxed, type, scope.here), type));
    }

    /** {@code ++} and {@code --}, before or after. */
    public static final class Step extends Expression {
        private final String operator;
        private final Expression target;
        private final boolean before;

        public Step(String operator, Expression target, boolean before) {
            this.operator = operator;
            this.target = target;
            this.before = before;
        }

        @Override
        public Operand evaluate(Scope scope) throws EvaluationFailed {
            Variable variable = target.variable(scope);
            Operand old = variable.get();
            Operand one = Operand.of(scope.machine().mirrorOf(1));
            Operand stepped = combine(scope, variable, operator.substring(1), one);
            return before ? stepped : old;
        }
    }
}
