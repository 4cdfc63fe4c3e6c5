package stepinto.probe.evaluation.parsing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.evaluation.tree.TypeName;
import stepinto.probe.program.EvaluationFailed;

/** A place among the tokens of a source, and the types that can be read there. */
final class Tokens {
    private static final Set<String> PRIMITIVES =
            new HashSet<>(Arrays.asList(
                    "boolean", "byte", "short", "char", "int", "long", "float", "double", "void"));

    private final List<Token> tokens;
    private final String source;
    private int at;

    Tokens(String source) throws EvaluationFailed {
        this.source = source;
        this.tokens = Lexer.tokens(source);
    }

    Token peek() {
        return peek(0);
    }

    Token peek(int ahead) {
        return tokens.get(Math.min(at + ahead, tokens.size() - 1));
    }

    Token next() {
        Token token = peek();
        at++;
        return token;
    }

    int mark() {
        return at;
    }

    void reset(int mark) {
        at = mark;
    }

    boolean at(String text) {
        return peek().is(text);
    }

    boolean atEnd() {
        return peek().kind == Token.Kind.END;
    }

    boolean atName() {
        return peek().kind == Token.Kind.NAME;
    }

    boolean accept(String text) {
        if (at(text)) {
            at++;
            return true;
        }
        return false;
    }

    void expect(String text) throws EvaluationFailed {
        if (!accept(text)) {
            throw unexpected("'" + text + "'");
        }
    }

    String name() throws EvaluationFailed {
        if (!atName()) {
            throw unexpected("a name");
        }
        return next().text;
    }

    EvaluationFailed unexpected(String wanted) {
        Token found = peek();
        String shown = found.kind == Token.Kind.END ? "it ends" : "there is '" + found.text + "'";
        String before = source.substring(Math.max(0, found.start - 20), found.start).trim();
        String place = before.isEmpty() ? "at its start" : "after '" + before + "'";
        return new EvaluationFailed("syntax error: " + wanted + " is needed where " + shown + " "
                + place);
    }

    /** Whether the tokens here are the characters of one operator: {@code >>=} is read as three. */
    boolean atAdjacent(String operator) {
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

    void skip(int count) {
        at += count;
    }

    boolean atPrimitive() {
        return peek().kind == Token.Kind.KEYWORD && PRIMITIVES.contains(peek().text);
    }

    /** A type, or null with the place unchanged where there is none. */
    TypeName type() {
        int mark = at;
        TypeName item = itemType();
        if (item == null) {
            at = mark;
            return null;
        }
        String text = source.substring(tokens.get(mark).start, end(at - 1));
        return item.written(text).array(brackets());
    }

    private int end(int index) {
        Token token = tokens.get(Math.min(index, tokens.size() - 1));
        return token.start + (token.kind == Token.Kind.END ? 0 : token.text.length());
    }

    /** As {@code type}, without dimensions. */
    TypeName itemType() {
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

    int brackets() {
        int count = 0;
        while (at("[") && peek(1).is("]")) {
            at += 2;
            count++;
        }
        return count;
    }

    /** Skips {@code <...>}; false, with the place anywhere, if these are no type arguments. */
    boolean skipTypeArguments() {
        int depth = 0;
        do {
            Token token = next();
            boolean fits = token.kind == Token.Kind.NAME
                    || PRIMITIVES.contains(token.text)
                    || Arrays.asList("<", ">", ",", ".", "?", "[", "]", "&", "extends", "super")
                            .contains(token.text);
            if (!fits || token.kind == Token.Kind.LITERAL) {
                return false;
            }
            depth += token.is("<") ? 1 : token.is(">") ? -1 : 0;
        } while (depth > 0);
        return true;
    }
}
