package stepinto.probe.evaluation;

import java.util.*;
import stepinto.probe.program.EvaluationFailed;

final class StatementParser extends Parser {
    private static final Set<String> COMPILED =
            new HashSet<>(Arrays.asList(
                    "switch", "try", "throw", "synchronized", "class", "interface", "enum",
                    "assert", "abstract", "static"));

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
            List<Statement> none = Collections.emptyList();
            into.add(new Statement.Loop(none, condition(), none, one(), false));
        } else if (accept("do")) {
            List<Statement> none = Collections.emptyList();
            Statement body = one();
            expect("while");
            into.add(new Statement.Loop(none, condition(), none, body, true));
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
        int mark = mark();
        accept("final");
        TypeName type = type();
        if (type != null && atName() && peek(1).is(":")) {
            String name = name();
            expect(":");
            Expression items = expression();
            expect(")");
            Statement body = one();
            return scope -> Statement.forEach(scope, items, item -> {
                scope.declare(name, type, item);
                return body.run(scope);
            });
        }
        reset(mark);
        List<Statement> first = simples(";");
        Expression condition = at(";") ? null : expression();
        expect(";");
        List<Statement> update = simples(")");
        return new Statement.Loop(first, condition, update, one(), false);
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
        int mark = mark();
        accept("final");
        TypeName type = type();
        if (type != null && atName() && declares()) {
            do {
                String name = name();
                TypeName own = type.array(brackets());
                Expression value = accept("=") ? initialiser() : null;
                into.add(scope -> Statement.declare(scope, own, name, value));
            } while (accept(","));
            return;
        }
        reset(mark);
        Expression expression = expression();
        into.add(scope -> {
            expression.evaluate(scope);
            return Statement.Flow.NEXT;
        });
    }

    private Expression initialiser() throws EvaluationFailed {
        if (at("{")) {
            throw new NeedsCompiler("a new array");
        }
        return expression();
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
            int mark = parser.mark();
            TypeName type = starts ? parser.type() : null;
            if (type != null && parser.atName() && parser.declares()) {
                found.put(parser.peek().text, type);
            }
            parser.reset(mark);
            Token token = parser.next();
            boolean opens = token.is("{") || token.is("(") || token.is("[");
            boolean closes = token.is("}") || token.is(")") || token.is("]");
            nesting += opens ? 1 : closes ? -1 : 0;
            starts = nesting == 0 && (token.is(";") || token.is("}") || token.is("final"));
        }
        return found;
    }
}
