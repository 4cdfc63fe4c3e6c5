package stepinto.probe.evaluation.tree;

import java.util.List;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.program.EvaluationFailed;

/** A Java statement that can be carried out in a paused frame. */
public abstract class Statement {
    /** How a statement ended. */
    public enum Flow {
        NEXT,
        BREAK,
        CONTINUE,
        RETURN
    }

    abstract Flow run(Scope scope) throws EvaluationFailed;

    public static final class Evaluation extends Statement {
        private final Expression expression;

        public Evaluation(Expression expression) {
            this.expression = expression;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            expression.evaluate(scope);
            return Flow.NEXT;
        }
    }

    public static final class Declaration extends Statement {
        private final TypeName type;
        private final String name;
        private final Expression value;

        /** With null as the value for none. */
        public Declaration(TypeName type, String name, Expression value) {
            this.type = type;
            this.name = name;
            this.value = value;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            if (new Lookup(scope).isLocal(name)) {
                throw new EvaluationFailed(
                        name + " is a local variable of the frame already; assign it without a"
                                + " type, or take another name");
            }
            String binary = type.isVar() ? null : type.resolve(scope);
            if (value == null) {
                scope.declare(name, type, scope.services.conversions.zero(binary));
            } else if (value instanceof NewArrays.Items) {
                scope.declare(name, type, ((NewArrays.Items) value).as(scope, binary));
            } else {
                scope.declare(name, type, value.evaluate(scope));
            }
            return Flow.NEXT;
        }
    }

    public static final class Block extends Statement {
        private final List<Statement> statements;

        public Block(List<Statement> statements) {
            this.statements = statements;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            scope.enterBlock();
            try {
                return runAll(scope);
            } finally {
                scope.leaveBlock();
            }
        }

        /** Without a scope of its own: what is declared stays. */
        public Flow runAll(Scope scope) throws EvaluationFailed {
            for (Statement statement : statements) {
                scope.checkTime();
                Flow flow = statement.run(scope);
                if (flow != Flow.NEXT) {
                    return flow;
                }
            }
            return Flow.NEXT;
        }
    }

    public static final class If extends Statement {
        private final Expression condition;
        private final Statement yes;
        private final Statement no;

        /** With null for no else. */
        public If(Expression condition, Statement yes, Statement no) {
            this.condition = condition;
            this.yes = yes;
            this.no = no;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            Operand operand = condition.evaluate(scope);
            if (scope.services.conversions.truth(operand, "the condition of if")) {
                return yes.run(scope);
            }
            return no == null ? Flow.NEXT : no.run(scope);
        }
    }

    /** {@code break}, {@code continue}, {@code return}. */
    public static final class Jump extends Statement {
        private final Flow flow;

        public Jump(Flow flow) {
            this.flow = flow;
        }

        @Override
        Flow run(Scope scope) {
            return flow;
        }
    }
}
