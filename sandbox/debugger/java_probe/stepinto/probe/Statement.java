package stepinto.probe;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.Value;
import java.util.Collections;
import java.util.List;

/** A Java statement that can be carried out in a paused frame. */
abstract class Statement {
    /** How a statement ended. */
    enum Flow {
        NEXT,
        BREAK,
        CONTINUE,
        RETURN
    }

    abstract Flow run(Scope scope) throws EvaluationFailed;

    static final class Evaluation extends Statement {
        private final Expression expression;

        Evaluation(Expression expression) {
            this.expression = expression;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            expression.evaluate(scope);
            return Flow.NEXT;
        }
    }

    static final class Declaration extends Statement {
        private final TypeName type;
        private final String name;
        private final Expression value;

        /** With null as the value for none. */
        Declaration(TypeName type, String name, Expression value) {
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
            } else if (value instanceof Invocations.Items) {
                scope.declare(name, type, ((Invocations.Items) value).as(scope, binary));
            } else {
                scope.declare(name, type, value.evaluate(scope));
            }
            return Flow.NEXT;
        }
    }

    static final class Block extends Statement {
        private final List<Statement> statements;

        Block(List<Statement> statements) {
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
        Flow runAll(Scope scope) throws EvaluationFailed {
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

    static final class If extends Statement {
        private final Expression condition;
        private final Statement yes;
        private final Statement no;

        /** With null for no else. */
        If(Expression condition, Statement yes, Statement no) {
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

    /** {@code for (;;)}, {@code while} and {@code do}. */
    static final class Loop extends Statement {
        private final List<Statement> first;
        private final Expression condition;
        private final List<Statement> update;
        private final Statement body;
        private final boolean bodyFirst;

        /** With null for a condition that always holds. */
        Loop(
                List<Statement> first,
                Expression condition,
                List<Statement> update,
                Statement body,
                boolean bodyFirst) {
            this.first = first;
            this.condition = condition;
            this.update = update;
            this.body = body;
            this.bodyFirst = bodyFirst;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            scope.enterBlock();
            try {
                new Block(first).runAll(scope);
                return loop(scope);
            } finally {
                scope.leaveBlock();
            }
        }

        private Flow loop(Scope scope) throws EvaluationFailed {
            for (boolean checked = !bodyFirst; !checked || holds(scope); checked = true) {
                scope.checkTime();
                Flow flow = body.run(scope);
                if (flow == Flow.BREAK) {
                    return Flow.NEXT;
                }
                if (flow == Flow.RETURN) {
                    return flow;
                }
                new Block(update).runAll(scope);
            }
            return Flow.NEXT;
        }

        private boolean holds(Scope scope) throws EvaluationFailed {
            return condition == null
                    || scope.services.conversions.truth(
                            condition.evaluate(scope), "the condition of the loop");
        }
    }

    static final class ForEach extends Statement {
        private final TypeName type;
        private final String name;
        private final Expression items;
        private final Statement body;

        ForEach(TypeName type, String name, Expression items, Statement body) {
            this.type = type;
            this.name = name;
            this.items = items;
            this.body = body;
        }

        @Override
        Flow run(Scope scope) throws EvaluationFailed {
            Value value = items.evaluate(scope).value;
            if (value == null) {
                throw new EvaluationFailed("NullPointerException: what is looped over is null");
            }
            if (!(value instanceof ArrayReference)) {
                return overIterable(scope, (ObjectReference) value);
            }
            ArrayReference array = (ArrayReference) value;
            for (int at = 0; at < array.length(); at++) {
                Flow flow = once(scope, Slots.element(scope, array, at).get());
                if (flow == Flow.BREAK || flow == Flow.RETURN) {
                    return flow == Flow.BREAK ? Flow.NEXT : flow;
                }
            }
            return Flow.NEXT;
        }

        private Flow overIterable(Scope scope, ObjectReference iterable) throws EvaluationFailed {
            Operand iterator = call(scope, Operand.of(iterable), "iterator");
            while (scope.services.conversions.truth(
                    call(scope, iterator, "hasNext"), "hasNext()")) {
                Flow flow = once(scope, call(scope, iterator, "next"));
                if (flow == Flow.BREAK || flow == Flow.RETURN) {
                    return flow == Flow.BREAK ? Flow.NEXT : flow;
                }
            }
            return Flow.NEXT;
        }

        private static Operand call(Scope scope, Operand owner, String method)
                throws EvaluationFailed {
            List<Expression> none = Collections.emptyList();
            return new Invocations.Call(new Known(owner), false, method, none).evaluate(scope);
        }

        private Flow once(Scope scope, Operand item) throws EvaluationFailed {
            scope.checkTime();
            scope.enterBlock();
            try {
                scope.declare(name, type, item);
                return body.run(scope);
            } finally {
                scope.leaveBlock();
            }
        }
    }

    /** An operand that was evaluated before. */
    private static final class Known extends Expression {
        private final Operand operand;

        Known(Operand operand) {
            this.operand = operand;
        }

        @Override
        Operand evaluate(Scope scope) {
            return operand;
        }
    }

    /** {@code break}, {@code continue}, {@code return}. */
    static final class Jump extends Statement {
        private final Flow flow;

        Jump(Flow flow) {
            this.flow = flow;
        }

        @Override
        Flow run(Scope scope) {
            return flow;
        }
    }
}
