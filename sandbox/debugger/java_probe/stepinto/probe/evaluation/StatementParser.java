package stepinto.probe.evaluation;

import com.sun.jdi.ArrayReference;
import java.util.*;
import stepinto.probe.evaluation.Lexer.Token;
import stepinto.probe.program.EvaluationFailed;

/** Parses Java statements, and runs them. */
final class StatementParser extends Parser {
    private static final Set<String> COMPILED =
            new HashSet<>(Arrays.asList(
                    "switch", "try", "throw", "synchronized", "class", "interface", "enum",
                    "assert", "abstract", "static"));

    private static final List<Statement> NONE = Collections.emptyList();
    private int depth;

    private StatementParser(String source) throws EvaluationFailed {
        super(source);
    }

    /** All of a code. The last semicolon may be missing. */
    static List<Statement> all(String source) throws EvaluationFailed {
        StatementParser parser = new StatementParser(source);
        List<Statement> statements = new ArrayList<>();
        while (!parser.atEnd()) {
            parser.statement(statements);
        }
        return statements;
    }

    private Statement one() throws EvaluationFailed {
        List<Statement> found = new ArrayList<>();
        if (++depth > 100) {
            throw new EvaluationFailed("the code is nested too deeply");
        }
        statement(found);
        depth--;
        return found.size() == 1 ? found.get(0) : scope -> Statement.block(scope, found);
    }

    private void statement(List<Statement> into) throws EvaluationFailed {
        if (accept(";")) {
            return;
        }
        if (accept("{")) {
            List<Statement> statements = new ArrayList<>();
            while (!accept("}")) {
                if (atEnd()) {
                    throw unexpected("'}'");
                }
                statement(statements);
            }
            into.add(scope -> Statement.block(scope, statements));
        } else if (accept("if")) {
            Expression condition = condition();
            Statement yes = one();
            Statement no = accept("else") ? one() : scope -> Statement.Flow.NEXT;
            into.add(scope ->
                    (scope.truth(condition, "the condition of if") ? yes : no).run(scope));
        } else if (accept("for")) {
            into.add(forLoop());
        } else if (accept("while")) {
            Expression condition = condition();
            Statement body = one();
            into.add(scope -> Statement.loop(scope, NONE, condition, NONE, body, false));
        } else if (accept("do")) {
            Statement body = one();
            expect("while");
            Expression condition = condition();
            into.add(scope -> Statement.loop(scope, NONE, condition, NONE, body, true));
            end();
        } else if (at("break") || at("continue") || at("return")) {
            jump(into);
        } else if (startsCompiled()) {
            throw new NeedsCompiler(peek().text);
        } else {
            simple(into);
            end();
        }
    }

    private boolean startsCompiled() {
        boolean word = peek().kind == Token.Kind.KEYWORD && COMPILED.contains(peek().text);
        boolean label = atName() && peek(1).is(":");
        boolean record = atName() && peek().text.equals("record")
                && peek(1).kind == Token.Kind.NAME && peek(2).is("(");
        return word || label || record || at("@");
    }

    /** The semicolon, which may be missing at the very end. */
    private void end() throws EvaluationFailed {
        if (!atEnd()) {
            expect(";");
        }
    }

    private Expression condition() throws EvaluationFailed {
        expect("(");
        Expression found = expression();
        expect(")");
        return found;
    }

    private Statement forLoop() throws EvaluationFailed {
        expect("(");
        int mark = at;
        accept("final");
        TypeName type = type();
        if (type != null && atName() && peek(1).is(":")) {
            String name = name();
            expect(":");
            Expression items = expression();
            expect(")");
            Statement body = one();
            return scope -> Statement.forEach(scope, type, name, items, body);
        }
        at = mark;
        List<Statement> first = simples(";");
        Expression condition = at(";") ? null : expression();
        expect(";");
        List<Statement> update = simples(")");
        Statement body = one();
        return scope -> Statement.loop(scope, first, condition, update, body, false);
    }

    /** Statements between commas, up to a token. */
    private List<Statement> simples(String end) throws EvaluationFailed {
        List<Statement> found = new ArrayList<>();
        while (!accept(end)) {
            simple(found);
            if (!at(end)) {
                expect(",");
            }
        }
        return found;
    }

    private void jump(List<Statement> into) throws EvaluationFailed {
        String word = next().text;
        if (!word.equals("return") && atName()) {
            throw new NeedsCompiler("a label");
        }
        Expression value =
                word.equals("return") && !at(";") && !atEnd()
                        ? expression() : new Expression.Literal(null);
        end();
        Statement.Flow flow = Statement.Flow.valueOf(word.toUpperCase(Locale.ROOT));
        into.add(scope -> {
            value.evaluate(scope);
            return flow;
        });
    }

    /** A declaration or an expression. */
    private void simple(List<Statement> into) throws EvaluationFailed {
        int mark = at;
        accept("final");
        TypeName type = type();
        if (type != null && atName() && declares()) {
            do {
                String name = name();
                TypeName own = type.array(brackets());
                boolean set = accept("=");
                if (set && at("{")) {
                    throw new NeedsCompiler("a new array");
                }
                Expression value = set ? expression() : null;
                into.add(scope -> Statement.declare(scope, own, name, value));
            } while (accept(","));
            return;
        }
        at = mark;
        Expression expression = expression();
        into.add(scope -> {
            expression.evaluate(scope);
            return Statement.Flow.NEXT;
        });
    }

    private boolean declares() {
        Token after = peek(1);
        return after.kind == Token.Kind.END || after.is("=") || after.is(";") || after.is(",")
                || after.is("[");
    }

    /** The variables that a code declares outside of blocks, by name; the first of each line. */
    static Map<String, TypeName> declared(String source) throws EvaluationFailed {
        StatementParser parser = new StatementParser(source);
        Map<String, TypeName> found = new LinkedHashMap<>();
        int nesting = 0;
        boolean starts = true;
        while (!parser.atEnd()) {
            int mark = parser.at;
            TypeName type = starts ? parser.type() : null;
            if (type != null && parser.atName() && parser.declares()) {
                found.put(parser.peek().text, type);
            }
            parser.at = mark;
            Token token = parser.next();
            boolean opens = token.is("{") || token.is("(") || token.is("[");
            boolean closes = token.is("}") || token.is(")") || token.is("]");
            nesting += opens ? 1 : closes ? -1 : 0;
            starts = nesting == 0 && (token.is(";") || token.is("}") || token.is("final"));
        }
        return found;
    }

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
                    ? scope.operators.zero(binary) : value.evaluate(scope));
            return Flow.NEXT;
        }

        /** {@code for (;;)}, {@code while}, {@code do}; null for a condition that always holds. */
        static Flow loop(
                Scope scope,
                List<Statement> first,
                Expression condition,
                List<Statement> update,
                Statement body,
                boolean bodyFirst)
                throws EvaluationFailed {
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

        /** Runs the body for each item of an array or an Iterable, in a block of its own. */
        static Flow forEach(
                Scope scope, TypeName type, String name, Expression items, Statement body)
                throws EvaluationFailed {
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
                    scope.declare(name, type, item);
                    Flow flow = body.run(scope);
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
}
