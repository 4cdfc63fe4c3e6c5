package stepinto.probe.evaluation.parsing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import stepinto.probe.evaluation.tree.Expression;
import stepinto.probe.evaluation.tree.NewArrays;
import stepinto.probe.evaluation.tree.Operations;
import stepinto.probe.evaluation.tree.TypeName;
import stepinto.probe.program.EvaluationFailed;

/** Parses Java expressions, by recursive descent. */
public final class Parser {
    /** Binary operators from the loosest to the tightest. {@code &&} and {@code ||} among them. */
    private static final List<List<String>> LEVELS =
            Arrays.asList(
                    Arrays.asList("||"),
                    Arrays.asList("&&"),
                    Arrays.asList("|"),
                    Arrays.asList("^"),
                    Arrays.asList("&"),
                    Arrays.asList("==", "!="),
                    Arrays.asList("<=", ">=", "<", ">", "instanceof"),
                    Arrays.asList("<<", ">>>", ">>"),
                    Arrays.asList("+", "-"),
                    Arrays.asList("*", "/", "%"));

    private static final List<String> ASSIGNMENTS =
            Arrays.asList("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=");

    private static final List<String> SHIFT_ASSIGNMENTS = Arrays.asList(">>>=", ">>=");
    private static final int DEEPEST = 200;

    private final Tokens tokens;
    private int depth;

    Parser(Tokens tokens) {
        this.tokens = tokens;
    }

    /** One expression and nothing after it. */
    public static Expression whole(String source) throws EvaluationFailed, NeedsCompiler {
        Tokens tokens = new Tokens(source);
        if (tokens.atEnd()) {
            throw new EvaluationFailed("there is no expression; write one");
        }
        Expression found = new Parser(tokens).expression();
        tokens.accept(";");
        if (!tokens.atEnd()) {
            throw tokens.unexpected("the end or an operator");
        }
        return found;
    }

    Expression expression() throws EvaluationFailed, NeedsCompiler {
        if (++depth > DEEPEST) {
            throw new EvaluationFailed("the expression is nested too deeply");
        }
        try {
            return assignment();
        } finally {
            depth--;
        }
    }

    private Expression assignment() throws EvaluationFailed, NeedsCompiler {
        Expression left = conditional();
        for (String operator : SHIFT_ASSIGNMENTS) {
            if (tokens.atAdjacent(operator)) {
                tokens.skip(operator.length());
                return assign(operator, left);
            }
        }
        String operator = tokens.peek().text;
        if (tokens.peek().kind == Token.Kind.OPERATOR && ASSIGNMENTS.contains(operator)) {
            tokens.next();
            return assign(operator, left);
        }
        return left;
    }

    private Expression assign(String operator, Expression left)
            throws EvaluationFailed, NeedsCompiler {
        String plain = operator.substring(0, operator.length() - 1);
        return new Operations.Assign(plain, left, expression());
    }

    private Expression conditional() throws EvaluationFailed, NeedsCompiler {
        Expression condition = binary(0);
        if (!tokens.accept("?")) {
            return condition;
        }
        Expression yes = expression();
        tokens.expect(":");
        return new Operations.Conditional(condition, yes, expression());
    }

    private Expression binary(int level) throws EvaluationFailed, NeedsCompiler {
        if (level == LEVELS.size()) {
            return unary();
        }
        Expression left = binary(level + 1);
        for (String operator = operator(level); operator != null; operator = operator(level)) {
            if (operator.equals("instanceof")) {
                left = instanceOf(left);
            } else if (level < 2) {
                left = new Operations.Logical(operator.equals("&&"), left, binary(level + 1));
            } else {
                left = new Operations.Binary(operator, left, binary(level + 1));
            }
        }
        return left;
    }

    /** Takes an operator of a level; null if there is none. */
    private String operator(int level) {
        for (String operator : LEVELS.get(level)) {
            boolean greater = operator.startsWith(">");
            if (greater ? atGreater(operator) : tokens.at(operator)) {
                tokens.skip(greater ? operator.length() : 1);
                return operator;
            }
        }
        return null;
    }

    /** An operator of {@code >} and no longer one. */
    private boolean atGreater(String operator) {
        boolean longer = !operator.endsWith("=")
                && (tokens.atAdjacent(operator + ">") || tokens.atAdjacent(operator + "="));
        return tokens.atAdjacent(operator) && !longer;
    }

    private Expression instanceOf(Expression operand) throws EvaluationFailed, NeedsCompiler {
        tokens.accept("final");
        TypeName type = tokens.type();
        if (type == null) {
            throw tokens.unexpected("a type");
        }
        if (tokens.at("(")) {
            throw new NeedsCompiler("a record pattern");
        }
        String name = tokens.atName() ? tokens.name() : null;
        return new Operations.InstanceOf(operand, type, name);
    }

    private Expression unary() throws EvaluationFailed, NeedsCompiler {
        if (++depth > DEEPEST) {
            throw new EvaluationFailed("the expression is nested too deeply");
        }
        try {
            for (String operator : new String[] {"+", "-", "!", "~"}) {
                if (tokens.accept(operator)) {
                    return new Operations.Unary(operator, unary());
                }
            }
            for (String operator : new String[] {"++", "--"}) {
                if (tokens.accept(operator)) {
                    return new Operations.Step(operator, unary(), true);
                }
            }
            TypeName cast = cast();
            return cast == null ? postfix() : new Operations.Cast(cast, unary());
        } finally {
            depth--;
        }
    }

    /** The type of a cast, taken with its brackets; null if there is none. */
    private TypeName cast() throws NeedsCompiler {
        if (!tokens.at("(")) {
            return null;
        }
        int mark = tokens.mark();
        tokens.next();
        TypeName type = tokens.type();
        if (type != null && tokens.accept(")") && (type.isPrimitive() || startsOperand())) {
            return type;
        }
        tokens.reset(mark);
        return null;
    }

    private boolean startsOperand() {
        Token next = tokens.peek();
        boolean word = next.kind == Token.Kind.NAME || next.kind == Token.Kind.LITERAL;
        return word
                || next.is("(") || next.is("!") || next.is("~")
                || next.is("this") || next.is("new") || next.is("super");
    }

    private Expression postfix() throws EvaluationFailed, NeedsCompiler {
        Expression found = new PrimaryParser(tokens, this).primary();
        while (tokens.at("++") || tokens.at("--")) {
            found = new Operations.Step(tokens.next().text, found, false);
        }
        return found;
    }

    /** Arguments in parentheses. */
    List<Expression> arguments() throws EvaluationFailed, NeedsCompiler {
        tokens.expect("(");
        return list(")");
    }

    /** Expressions up to a closing bracket; in braces they may be braces themselves. */
    private List<Expression> list(String end) throws EvaluationFailed, NeedsCompiler {
        List<Expression> found = new ArrayList<>();
        while (!tokens.accept(end)) {
            found.add(tokens.at("{") && end.equals("}") ? items() : expression());
            if (!tokens.at(end)) {
                tokens.expect(",");
            } else {
                tokens.next();
                break;
            }
        }
        return Collections.unmodifiableList(found);
    }

    /** The items of an array, in braces. */
    Expression items() throws EvaluationFailed, NeedsCompiler {
        tokens.expect("{");
        return new NewArrays.Items(list("}"));
    }
}
