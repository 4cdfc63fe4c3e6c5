package stepinto.probe.evaluation;

import com.sun.jdi.ArrayReference;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;

/** A Java statement that can be carried out in a paused frame. */
interface Statement {
    /** How a statement ended. */
    enum Flow { NEXT, BREAK, CONTINUE, RETURN }

    Flow run(Scope scope) throws EvaluationFailed;

    /** In the scope itself: what is declared stays. */
    static Flow all(Scope scope, List<Statement> statements) throws EvaluationFailed {
        for (Statement statement : statements) {
            scope.checkTime();
            Flow flow = statement.run(scope);
            if (flow != Flow.NEXT) {
                return flow;
            }
        }
        return Flow.NEXT;
    }

    static Flow block(Scope scope, List<Statement> statements) throws EvaluationFailed {
        scope.enterBlock();
        try {
            return all(scope, statements);
        } finally {
            scope.leaveBlock();
        }
    }

    /** With null as the value for none. */
    static Flow declare(Scope scope, TypeName type, String name, Expression value)
            throws EvaluationFailed {
        if (scope.local(name) != null) {
            throw new EvaluationFailed(
                    name + " is a local variable of the frame already; assign it without a"
                            + " type, or take another name");
        }
        String binary = type.isVar() ? null : type.resolve(scope);
        scope.declare(name, type, value == null
                ? scope.services.conversions.zero(binary) : value.evaluate(scope));
        return Flow.NEXT;
    }

    /** {@code for (;;)}, {@code while} and {@code do}. */
    final class Loop implements Statement {
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
        public Flow run(Scope scope) throws EvaluationFailed {
            scope.enterBlock();
            try {
                all(scope, first);
                boolean free = bodyFirst || condition == null;
                while (free || scope.truth(condition, "the condition of the loop")) {
                    free = condition == null;
                    scope.checkTime();
                    Flow flow = body.run(scope);
                    if (flow == Flow.BREAK || flow == Flow.RETURN) {
                        return flow == Flow.BREAK ? Flow.NEXT : flow;
                    }
                    all(scope, update);
                }
                return Flow.NEXT;
            } finally {
                scope.leaveBlock();
            }
        }
    }

    interface Body {
        Flow run(Operand item) throws EvaluationFailed;
    }

    /** Runs the body for each item of an array or an Iterable, in a block of its own. */
    static Flow forEach(Scope scope, Expression items, Body body) throws EvaluationFailed {
        Operand owner = items.evaluate(scope);
        if (owner.value == null) {
            throw new EvaluationFailed("NullPointerException: what is looped over is null");
        }
        ArrayReference array =
                owner.value instanceof ArrayReference ? (ArrayReference) owner.value : null;
        Operand iterator = array == null ? call(scope, owner, "iterator") : null;
        Expression hasNext = each -> call(each, iterator, "hasNext");
        for (int at = 0; ; at++) {
            if (array == null ? !scope.truth(hasNext, "hasNext()") : at == array.length()) {
                return Flow.NEXT;
            }
            Operand item = array == null
                    ? call(scope, iterator, "next") : Slot.element(scope, array, at).get();
            scope.checkTime();
            scope.enterBlock();
            try {
                Flow flow = body.run(item);
                if (flow == Flow.BREAK || flow == Flow.RETURN) {
                    return flow == Flow.BREAK ? Flow.NEXT : flow;
                }
            } finally {
                scope.leaveBlock();
            }
        }
    }

    static Operand call(Scope scope, Operand owner, String method) throws EvaluationFailed {
        return Operations.call(scope, owner, method, Collections.<Expression>emptyList());
    }
}
