package stepinto.probe.evaluation.parsing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import stepinto.probe.evaluation.tree.Expression;
import stepinto.probe.evaluation.tree.Loops;
import stepinto.probe.evaluation.tree.Statement;
import stepinto.probe.evaluation.tree.TypeName;
import stepinto.probe.program.EvaluationFailed;

/** Parses Java statements. */
public final class StatementParser {
    private static final Set<String> COMPILED =
            new HashSet<>(Arrays.asList(
                    "switch", "try", "throw", "synchronized", "class", "interface", "enum",
                    "assert", "abstract", "static"));

    private final Tokens tokens;
    private final Parser expressions;
    private int depth;

    private StatementParser(Tokens tokens) {
        this.tokens = tokens;
        this.expressions = new Parser(tokens);
    }

    /** All of a code. The last semicolon may be missing. */
    public static Statement.Block whole(String source) throws EvaluationFailed, NeedsCompiler {
        Tokens tokens = new Tokens(source);
        StatementParser parser = new StatementParser(tokens);
        List<Statement> statements = new ArrayList<>();
        while (!tokens.atEnd()) {
            parser.statement(statements);
        }
        return new Statement.Block(statements);
    }

    private Statement one() throws EvaluationFailed, NeedsCompiler {
        List<Statement> found = new ArrayList<>();
        if (++depth > 100) {
            throw new EvaluationFailed("the code is nested too deeply");
        }
        statement(found);
        depth--;
        return found.size() == 1 ? found.get(0) : new Statement.Block(found);
    }

    private void statement(List<Statement> into) throws EvaluationFailed, NeedsCompiler {
        if (tokens.accept(";")) {
            return;
        }
        if (tokens.accept("{")) {
            into.add(block());
        } else if (tokens.accept("if")) {
            into.add(choice());
        } else if (tokens.accept("for")) {
            into.add(forLoop());
        } else if (tokens.accept("while")) {
            into.add(new Loops.General(none(), condition(), none(), one(), false));
        } else if (tokens.accept("do")) {
            into.add(doLoop());
        } else if (tokens.at("break") || tokens.at("continue") || tokens.at("return")) {
            into.add(jump());
        } else if (startsCompiled()) {
            throw new NeedsCompiler(tokens.peek().text);
        } else {
            simple(into);
            end();
        }
    }

    private boolean startsCompiled() {
        boolean word = tokens.peek().kind == Token.Kind.KEYWORD
                && COMPILED.contains(tokens.peek().text);
        boolean label = tokens.atName() && tokens.peek(1).is(":");
        boolean record = tokens.atName() && tokens.peek().text.equals("record")
                && tokens.peek(1).kind == Token.Kind.NAME && tokens.peek(2).is("(");
        return word || label || record || tokens.at("@");
    }

    /** The semicolon, which may be missing at the very end. */
    private void end() throws EvaluationFailed {
        if (!tokens.atEnd()) {
            tokens.expect(";");
        }
    }

    private static List<Statement> none() {
        return Collections.emptyList();
    }

    private Statement block() throws EvaluationFailed, NeedsCompiler {
        List<Statement> statements = new ArrayList<>();
        while (!tokens.accept("}")) {
            if (tokens.atEnd()) {
                throw tokens.unexpected("'}'");
            }
            statement(statements);
        }
        return new Statement.Block(statements);
    }

    private Expression condition() throws EvaluationFailed, NeedsCompiler {
        tokens.expect("(");
        Expression found = expressions.expression();
        tokens.expect(")");
        return found;
    }

    private Statement choice() throws EvaluationFailed, NeedsCompiler {
        Expression condition = condition();
        Statement yes = one();
        Statement no = tokens.accept("else") ? one() : null;
        return new Statement.If(condition, yes, no);
    }

    private Statement doLoop() throws EvaluationFailed, NeedsCompiler {
        Statement body = one();
        tokens.expect("while");
        Expression condition = condition();
        end();
        return new Loops.General(none(), condition, none(), body, true);
    }

    private Statement forLoop() throws EvaluationFailed, NeedsCompiler {
        tokens.expect("(");
        int mark = tokens.mark();
        tokens.accept("final");
        TypeName type = tokens.type();
        if (type != null && tokens.atName() && tokens.peek(1).is(":")) {
            String name = tokens.name();
            tokens.expect(":");
            Expression items = expressions.expression();
            tokens.expect(")");
            return new Loops.ForEach(type, name, items, one());
        }
        tokens.reset(mark);
        List<Statement> first = simples(";");
        Expression condition = tokens.at(";") ? null : expressions.expression();
        tokens.expect(";");
        List<Statement> update = simples(")");
        return new Loops.General(first, condition, update, one(), false);
    }

    /** Statements between commas, up to a token. */
    private List<Statement> simples(String end) throws EvaluationFailed, NeedsCompiler {
        List<Statement> found = new ArrayList<>();
        while (!tokens.accept(end)) {
            simple(found);
            if (!tokens.at(end)) {
                tokens.expect(",");
            }
        }
        return found;
    }

    private Statement jump() throws EvaluationFailed, NeedsCompiler {
        String word = tokens.next().text;
        if (!word.equals("return") && tokens.atName()) {
            throw new NeedsCompiler("a label");
        }
        boolean value = word.equals("return") && !tokens.at(";") && !tokens.atEnd();
        List<Statement> found = new ArrayList<>();
        if (value) {
            found.add(new Statement.Evaluation(expressions.expression()));
        }
        end();
        found.add(new Statement.Jump(
                word.equals("break") ? Statement.Flow.BREAK
                        : word.equals("continue") ? Statement.Flow.CONTINUE
                                : Statement.Flow.RETURN));
        return found.size() == 1 ? found.get(0) : new Statement.Block(found);
    }

    /** A declaration or an expression. */
    private void simple(List<Statement> into) throws EvaluationFailed, NeedsCompiler {
        int mark = tokens.mark();
        tokens.accept("final");
        TypeName type = tokens.type();
        if (type != null && tokens.atName() && declares()) {
            declarations(type, into);
            return;
        }
        tokens.reset(mark);
        into.add(new Statement.Evaluation(expressions.expression()));
    }

    private boolean declares() {
        Token after = tokens.peek(1);
        return after.kind == Token.Kind.END || after.is("=") || after.is(";") || after.is(",")
                || after.is("[");
    }

    private void declarations(TypeName type, List<Statement> into)
            throws EvaluationFailed, NeedsCompiler {
        do {
            String name = tokens.name();
            TypeName own = type.array(tokens.brackets());
            Expression value = null;
            if (tokens.accept("=")) {
                value = tokens.at("{") ? expressions.items() : expressions.expression();
            }
            into.add(new Statement.Declaration(own, name, value));
        } while (tokens.accept(","));
    }

    /** The variables that a code declares outside of blocks, by name; the first of each line. */
    public static Map<String, TypeName> declared(String source) throws EvaluationFailed {
        Tokens tokens = new Tokens(source);
        StatementParser parser = new StatementParser(tokens);
        Map<String, TypeName> found = new LinkedHashMap<>();
        int nesting = 0;
        boolean starts = true;
        while (!tokens.atEnd()) {
            int mark = tokens.mark();
            TypeName type = starts ? tokens.type() : null;
            if (type != null && tokens.atName() && parser.declares()) {
                found.put(tokens.peek().text, type);
            }
            tokens.reset(mark);
            Token token = tokens.next();
            boolean opens = token.is("{") || token.is("(") || token.is("[");
            boolean closes = token.is("}") || token.is(")") || token.is("]");
            nesting += opens ? 1 : closes ? -1 : 0;
            starts = nesting == 0 && (token.is(";") || token.is("}") || token.is("final"));
        }
        return found;
    }
}
