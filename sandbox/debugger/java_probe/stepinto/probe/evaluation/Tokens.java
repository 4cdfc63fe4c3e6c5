package stepinto.probe.evaluation;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;

/** A place among the tokens of a source, and the types that can be read there. */
class Tokens {
    private static final List<String> IN_TYPE_ARGUMENTS =
            Arrays.asList("<", ">", ",", ".", "?", "[", "]", "&", "extends", "super");

    private final List<Token> tokens;
    private final String source;
    private int at;

    Tokens(String source) throws EvaluationFailed {
        this.source = source;
        this.tokens = Lexer.tokens(source);
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

    final int mark() {
        return at;
    }

    final void reset(int mark) {
        at = mark;
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

    final void skip(int count) {
        at += count;
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
