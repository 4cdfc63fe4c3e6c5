package stepinto.probe.evaluation.tree;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.Value;
import java.util.Collections;
import java.util.List;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.program.EvaluationFailed;

/** Statements that repeat others. */
public final class Loops {
    private Loops() {}

    /** {@code for (;;)}, {@code while} and {@code do}. */
    public static final class General extends Statement {
        private final List<Statement> first;
        private final Expression condition;
        private final List<Statement> update;
        private final Statement body;
        private final boolean bodyFirst;

        /** With null for a condition that always holds. */
        public General(
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
        Statement.Flow run(Scope scope) throws EvaluationFailed {
            scope.enterBlock();
            try {
                new Statement.Block(first).runAll(scope);
                return loop(scope);
            } finally {
                scope.leaveBlock();
            }
        }

        private Statement.Flow loop(Scope scope) throws EvaluationFailed {
            for (boolean checked = !bodyFirst; !checked || holds(scope); checked = true) {
                scope.checkTime();
                Statement.Flow flow = body.run(scope);
                if (flow == Statement.Flow.BREAK) {
                    return Statement.Flow.NEXT;
                }
                if (flow == Statement.Flow.RETURN) {
                    return flow;
                }
                new Statement.Block(update).runAll(scope);
            }
            return Statement.Flow.NEXT;
        }

        private boolean holds(Scope scope) throws EvaluationFailed {
            return condition == null
                    || scope.services.conversions.truth(
                            condition.evaluate(scope), "the condition of the loop");
        }
    }

    public static final class ForEach extends Statement {
        private final TypeName type;
        private final String name;
        private final Expression items;
        private final Statement body;

        public ForEach(TypeName type, String name, Expression items, Statement body) {
            this.type = type;
            this.name = name;
            this.items = items;
            this.body = body;
        }

        @Override
        Statement.Flow run(Scope scope) throws EvaluationFailed {
            Value value = items.evaluate(scope).value;
            if (value == null) {
                throw new EvaluationFailed("NullPointerException: what is looped over is null");
            }
            if (!(value instanceof ArrayReference)) {
                return overIterable(scope, (ObjectReference) value);
            }
            ArrayReference array = (ArrayReference) value;
            for (int at = 0; at < array.length(); at++) {
                Statement.Flow flow = once(scope, Slots.element(scope, array, at).get());
                if (flow == Statement.Flow.BREAK || flow == Statement.Flow.RETURN) {
                    return flow == Statement.Flow.BREAK ? Statement.Flow.NEXT : flow;
                }
            }
            return Statement.Flow.NEXT;
        }

        private Statement.Flow overIterable(Scope scope, ObjectReference iterable)
                throws EvaluationFailed {
            Operand iterator = call(scope, Operand.of(iterable), "iterator");
            while (scope.services.conversions.truth(
                    call(scope, iterator, "hasNext"), "hasNext()")) {
                Statement.Flow flow = once(scope, call(scope, iterator, "next"));
                if (flow == Statement.Flow.BREAK || flow == Statement.Flow.RETURN) {
                    return flow == Statement.Flow.BREAK ? Statement.Flow.NEXT : flow;
                }
            }
            return Statement.Flow.NEXT;
        }

        private static Operand call(Scope scope, Operand owner, String method)
                throws EvaluationFailed {
            List<Expression> none = Collections.emptyList();
            return new Invocations.Call(new Known(owner), false, method, none).evaluate(scope);
        }

        private Statement.Flow once(Scope scope, Operand item) throws EvaluationFailed {
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
        public Operand evaluate(Scope scope) {
            return operand;
        }
    }
}
