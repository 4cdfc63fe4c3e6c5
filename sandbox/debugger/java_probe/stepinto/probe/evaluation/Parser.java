package stepinto.probe.evaluation;

import com.sun.jdi.Value;
import java.util.*;
import stepinto.probe.evaluation.Lexer.Token;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;

/** Parses Java expressions, by recursive descent. */
class Parser {
    /** Java that the interpreter does not know: lambdas, anonymous classes, switch, try ... */
    static final class NeedsCompiler extends EvaluationFailed {
        private static final long serialVersionUID = 1;

        /** The construct, as a reader calls it. */
        NeedsCompiler(String construct) {
            super(construct);
        }
    }

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

    private static final Set<String> COMPILED =
            new HashSet<>(Arrays.asList("switch", "class", "enum", "interface"));

    private static final List<String> IN_TYPE_ARGUMENTS =
            Arrays.asList("<", ">", ",", ".", "?", "[", "]", "&", "extends", "super");

    private static final int DEEPEST = 200;

    /** The place among the tokens. */
    int at;

    private final List<Token> tokens;
    private final String source;
    private int depth;

    Parser(String source) throws EvaluationFailed {
        this.source = source;
        this.tokens = Lexer.tokens(source);
    }

    /** One expression and nothing after it. */
    static Expression whole(String source) throws EvaluationFailed {
        Parser parser = new Parser(source);
        if (parser.atEnd()) {
            throw new EvaluationFailed("there is no expression; write one");
        }
        Expression found = parser.expression();
        parser.accept(";");
        if (!parser.atEnd()) {
            throw parser.unexpected("the end or an operator");
        }
        return found;
    }

    final Expression expression() throws EvaluationFailed {
        if (++depth > DEEPEST) {
            throw new EvaluationFailed("the expression is nested too deeply");
        }
        try {
            return assignment();
        } finally {
            depth--;
        }
    }

    private Expression assignment() throws EvaluationFailed {
        Expression target = conditional();
        String operator = peek().kind == Token.Kind.OPERATOR ? peek().text : "";
        for (String shift : new String[] {">>>=", ">>="}) {
            operator = atAdjacent(shift) ? shift : operator;
        }
        boolean shifts = operator.startsWith(">>");
        if (!shifts && !ASSIGNMENTS.contains(operator)) {
            return target;
        }
        at += shifts ? operator.length() : 1;
        String plain = operator.substring(0, operator.length() - 1);
        Expression value = expression();
        return scope -> {
            Expression.Variable variable = target.variable(scope);
            Operand right = value.evaluate(scope);
            return plain.isEmpty()
                    ? variable.set(right) : Operations.combine(scope, variable, plain, right);
        };
    }

    private Expression conditional() throws EvaluationFailed {
        Expression condition = binary(0);
        if (!accept("?")) {
            return condition;
        }
        Expression yes = expression();
        expect(":");
        Expression no = expression();
        return scope ->
                (scope.truth(condition, "the condition before ?") ? yes : no).evaluate(scope);
    }

    private Expression binary(int level) throws EvaluationFailed {
        if (level == LEVELS.size()) {
            return unary();
        }
        Expression left = binary(level + 1);
        while (true) {
            String operator = operator(level);
            if (operator == null) {
                return left;
            }
            Expression first = left;
            if (operator.equals("instanceof")) {
                left = instanceOf(first);
                continue;
            }
            Expression second = binary(level + 1);
            if (level < 2) {
                boolean and = operator.equals("&&");
                String role = "an operand of " + operator;
                left = scope -> Operand.of(scope.machine().mirrorOf(
                        scope.truth(first, role) == and ? scope.truth(second, role) : !and));
            } else {
                left = scope -> Operations.binary(scope, operator, first, second);
            }
        }
    }

    /** Takes an operator of a level; null if there is none. */
    private String operator(int level) {
        for (String operator : LEVELS.get(level)) {
            boolean greater = operator.startsWith(">");
            boolean longer = !operator.endsWith("=")
                    && (atAdjacent(operator + ">") || atAdjacent(operator + "="));
            if (greater ? atAdjacent(operator) && !longer : at(operator)) {
                at += greater ? operator.length() : 1;
                return operator;
            }
        }
        return null;
    }

    private Expression instanceOf(Expression operand) throws EvaluationFailed {
        accept("final");
        TypeName type = type();
        if (type == null) {
            throw unexpected("a type");
        }
        if (at("(")) {
            throw new NeedsCompiler("a record pattern");
        }
        String name = atName() ? name() : null;
        return scope -> {
            Value value = operand.evaluate(scope).value;
            String wanted = type.resolve(scope);
            boolean truth = value != null
                    && scope.types.assignable(value.type().name(), wanted, scope.here);
            if (truth && name != null) {
                scope.declare(name, type, Operand.of(value));
            }
            return Operand.of(scope.machine().mirrorOf(truth));
        };
    }

    private Expression unary() throws EvaluationFailed {
        if (++depth > DEEPEST) {
            throw new EvaluationFailed("the expression is nested too deeply");
        }
        try {
            String operator = peek().text;
            if (at("+") || at("-") || at("!") || at("~")) {
                next();
                Expression operand = unary();
                return scope -> scope.operators.unary(operator, operand.evaluate(scope));
            }
            if (at("++") || at("--")) {
                next();
                return step(operator, unary(), true);
            }
            TypeName cast = cast();
            if (cast != null) {
                Expression operand = unary();
                return scope -> {
                    String to = cast.resolve(scope);
                    Operand from = operand.evaluate(scope);
                    return Operand.of(scope.operators.cast(from, to, scope.here), to);
                };
            }
            Expression found = primary();
            while (at("++") || at("--")) {
                found = step(next().text, found, false);
            }
            return found;
        } finally {
            depth--;
        }
    }

    private static Expression step(String operator, Expression target, boolean before) {
        return scope -> {
            Expression.Variable variable = target.variable(scope);
            Operand old = variable.get();
            Operand one = Operand.of(scope.machine().mirrorOf(1));
            Operand stepped = Operations.combine(scope, variable, operator.substring(1), one);
            return before ? stepped : old;
        };
    }

    /** The type of a cast, taken with its brackets; null if there is none. */
    private TypeName cast() {
        int mark = at;
        if (accept("(")) {
            TypeName type = type();
            if (type != null && accept(")")) {
                Token next = peek();
                boolean operand = next.kind == Token.Kind.NAME || next.kind == Token.Kind.LITERAL
                        || next.is("(") || next.is("!") || next.is("~")
                        || next.is("this") || next.is("new") || next.is("super");
                if (type.isPrimitive() || operand) {
                    return type;
                }
            }
        }
        at = mark;
        return null;
    }

    /** What stands between operators: literals, names, calls, {@code new}. */
    private Expression primary() throws EvaluationFailed {
        Expression found = start();
        while (true) {
            if (accept(".")) {
                found = selected(found);
            } else if (accept("[")) {
                Expression array = found;
                Expression index = expression();
                Expression.Place element = scope -> Operations.element(scope, array, index);
                found = element;
                expect("]");
            } else if (at("::")) {
                throw new NeedsCompiler("a method reference");
            } else {
                return found;
            }
        }
    }

    private Expression start() throws EvaluationFailed {
        Token token = peek();
        if (token.kind == Token.Kind.LITERAL) {
            if (token.text.startsWith("\"\"\"")) {
                throw new NeedsCompiler("a text block");
            }
            return new Expression.Literal(next().value);
        }
        if (at("(")) {
            if (atLambda()) {
                throw new NeedsCompiler("a lambda");
            }
            next();
            Expression found = expression();
            expect(")");
            return found;
        }
        if (accept("this")) {
            return self(null);
        }
        if (accept("super")) {
            expect(".");
            String name = name();
            if (!at("(")) {
                return new Expression.Member(self(null), name);
            }
            List<Expression> arguments = arguments();
            return scope -> Operations.callSuper(scope, name, arguments);
        }
        if (accept("new")) {
            return creation();
        }
        if (atPrimitive()) {
            return classLiteral();
        }
        if (token.kind == Token.Kind.NAME) {
            return named();
        }
        if (COMPILED.contains(token.text)) {
            throw new NeedsCompiler(token.text);
        }
        throw unexpected("an expression");
    }

    /** {@code this}, or {@code Outer.this}. */
    private static Expression self(TypeName outer) {
        return scope -> {
            String wanted = outer == null ? scope.here.name() : outer.resolve(scope);
            for (Scope.Level level : scope.levels()) {
                if (level.instance != null && level.type.name().equals(wanted)) {
                    return Operand.of(level.instance, wanted);
                }
            }
            if (scope.self() == null) {
                throw scope.noSelf("this");
            }
            throw new EvaluationFailed("there is no " + outer + ".this here");
        };
    }

    /** Whether the parenthesis here closes before an arrow. */
    private boolean atLambda() {
        int nesting = 0;
        for (int ahead = 0; peek(ahead).kind != Token.Kind.END; ahead++) {
            nesting += peek(ahead).is("(") ? 1 : peek(ahead).is(")") ? -1 : 0;
            if (nesting == 0) {
                return peek(ahead + 1).is("->");
            }
        }
        return false;
    }

    /** {@code int.class}, {@code String[].class}. */
    private Expression classLiteral() throws EvaluationFailed {
        TypeName type = type();
        if (at("::")) {
            throw new NeedsCompiler("a method reference");
        }
        expect(".");
        expect("class");
        return scope -> type.mirror(scope);
    }

    private Expression named() throws EvaluationFailed {
        if (peek(1).is("->")) {
            throw new NeedsCompiler("a lambda");
        }
        if (peek(1).is("(")) {
            String name = name();
            List<Expression> arguments = arguments();
            return scope -> Operations.callByName(scope, name, arguments);
        }
        if (atArrayOrGenericType()) {
            return classLiteral();
        }
        List<String> names = new ArrayList<>();
        names.add(name());
        while (at(".") && peek(1).kind == Token.Kind.NAME && !peek(2).is("(")) {
            next();
            names.add(name());
        }
        return new Expression.Path(names);
    }

    /** {@code String[].class} or {@code List<String>::size}. */
    private boolean atArrayOrGenericType() {
        int mark = at;
        boolean bracket = type() != null && (peek(-1).is("]") || peek(-1).is(">"));
        boolean found = bracket && (at("::") || (at(".") && peek(1).is("class")));
        at = mark;
        return found;
    }

    private Expression selected(Expression owner) throws EvaluationFailed {
        if (at("<")) {
            skipTypeArguments();
        }
        if (accept("class")) {
            TypeName type = typeName(owner);
            return scope -> type.mirror(scope);
        }
        if (accept("this")) {
            return self(typeName(owner));
        }
        if (at("new") || at("super")) {
            throw new NeedsCompiler("a qualified " + peek().text);
        }
        String name = name();
        if (!at("(")) {
            return new Expression.Member(owner, name);
        }
        List<Expression> arguments = arguments();
        return scope -> Operations.call(scope, owner.evaluate(scope), name, arguments);
    }

    private TypeName typeName(Expression owner) throws EvaluationFailed {
        if (!(owner instanceof Expression.Path)) {
            throw unexpected("a class before the last dot");
        }
        return new TypeName(String.join(".", ((Expression.Path) owner).names), 0);
    }

    private Expression creation() throws EvaluationFailed {
        TypeName type = itemType();
        if (type == null) {
            throw unexpected("a class");
        }
        if (at("[")) {
            throw new NeedsCompiler("a new array");
        }
        List<Expression> arguments = arguments();
        if (at("{")) {
            throw new NeedsCompiler("an anonymous class");
        }
        return scope -> Operations.create(scope, type, arguments);
    }

    private List<Expression> arguments() throws EvaluationFailed {
        expect("(");
        List<Expression> found = new ArrayList<>();
        while (!accept(")")) {
            found.add(expression());
            if (!at(")")) {
                expect(",");
            }
        }
        return found;
    }

    final Token peek() {
        return peek(0);
    }

    final Token peek(int ahead) {
        return tokens.get(Math.min(at + ahead, tokens.size() - 1));
    }

    final Token next() {
        Token token = peek();
        at++;
        return token;
    }

    final boolean at(String text) {
        return peek().is(text);
    }

    final boolean atEnd() {
        return peek().kind == Token.Kind.END;
    }

    final boolean atName() {
        return peek().kind == Token.Kind.NAME;
    }

    final boolean accept(String text) {
        if (at(text)) {
            at++;
            return true;
        }
        return false;
    }

    final void expect(String text) throws EvaluationFailed {
        if (!accept(text)) {
            throw unexpected("'" + text + "'");
        }
    }

    final String name() throws EvaluationFailed {
        if (!atName()) {
            throw unexpected("a name");
        }
        return next().text;
    }

    final EvaluationFailed unexpected(String wanted) {
        Token found = peek();
        String shown = found.kind == Token.Kind.END ? "it ends" : "there is '" + found.text + "'";
        String before = source.substring(Math.max(0, found.start - 20), found.start).trim();
        String place = before.isEmpty() ? "at its start" : "after '" + before + "'";
        return new EvaluationFailed("syntax error: " + wanted + " is needed where " + shown + " "
                + place);
    }

    /** Whether the tokens here are the characters of one operator: {@code >>=} is read as three. */
    final boolean atAdjacent(String operator) {
        int from = peek().start;
        for (int index = 0; index < operator.length(); index++) {
            Token token = peek(index);
            boolean fits = token.kind == Token.Kind.OPERATOR
                    && token.start == from + index
                    && token.text.equals(operator.substring(index, index + 1));
            if (!fits) {
                return false;
            }
        }
        return true;
    }

    final boolean atPrimitive() {
        return peek().kind == Token.Kind.KEYWORD && Primitives.isPrimitive(peek().text);
    }

    /** A type, or null with the place unchanged where there is none. */
    final TypeName type() {
        int mark = at;
        TypeName item = itemType();
        if (item == null) {
            at = mark;
            return null;
        }
        Token last = tokens.get(Math.min(at, tokens.size()) - 1);
        String text = source.substring(tokens.get(mark).start, last.start + last.text.length());
        return item.written(text).array(brackets());
    }

    /** As {@code type}, without dimensions. */
    final TypeName itemType() {
        if (atPrimitive()) {
            return new TypeName(next().text, 0);
        }
        List<String> names = new ArrayList<>();
        do {
            if (!atName()) {
                return null;
            }
            names.add(next().text);
            if (at("<") && !skipTypeArguments()) {
                return null;
            }
        } while (peek(1).kind == Token.Kind.NAME && accept("."));
        return new TypeName(String.join(".", names), 0);
    }

    final int brackets() {
        int count = 0;
        while (at("[") && peek(1).is("]")) {
            at += 2;
            count++;
        }
        return count;
    }

    /** Skips {@code <...>}; false, with the place anywhere, if these are no type arguments. */
    final boolean skipTypeArguments() {
        int depth = 0;
        do {
            Token token = next();
            boolean fits = token.kind == Token.Kind.NAME
                    || Primitives.isPrimitive(token.text)
                    || IN_TYPE_ARGUMENTS.contains(token.text);
            if (!fits || token.kind == Token.Kind.LITERAL) {
                return false;
            }
            depth += token.is("<") ? 1 : token.is(">") ? -1 : 0;
        } while (depth > 0);
        return true;
    }
}
