package stepinto.probe.evaluation;

import java.math.BigInteger;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import stepinto.probe.program.EvaluationFailed;

/** Splits Java source into tokens. */
final class Lexer {
    private static final Set<String> KEYWORDS =
            new HashSet<>(Arrays.asList((
                    "assert boolean break byte case catch char class continue default do double"
                            + " else enum extends final finally float for if implements import"
                            + " instanceof"
                            + " int interface long native new package private protected public"
                            + " return short static strictfp super switch synchronized this throw"
                            + " throws transient try void volatile while")
                    .split(" ")));

    /** The longest first. {@code >>} and longer are put together by the parser, for generics. */
    private static final String[] OPERATORS = {
        "...", "<<=", "->", "::", "++", "--", "&&", "||", "==", "!=", "<=", "+=", "-=", "*=", "/=",
        "&=", "|=", "^=", "%=", "<<",
    };

    private static final Pattern FLOATING =
            Pattern.compile(
                    "([0-9][0-9_]*\\.[0-9_]*|\\.[0-9][0-9_]*|[0-9][0-9_]*(?=[eEfFdD]))"
                            + "([eE][+-]?[0-9]+)?[fFdD]?");

    /** Hexadecimal, binary, or octal and decimal. */
    private static final Pattern WHOLE =
            Pattern.compile("(?:0[xX]([0-9a-fA-F_]+)|0[bB]([01_]+)|([0-9][0-9_]*))([lL]?)");

    private final String source;
    private final List<Token> tokens = new ArrayList<>();
    private int at;

    private Lexer(String source) {
        this.source = source;
    }

    /** The tokens, with one of kind END last. */
    static List<Token> tokens(String source) throws EvaluationFailed {
        Lexer lexer = new Lexer(source);
        for (lexer.skipBlanks(); lexer.at < source.length(); lexer.skipBlanks()) {
            lexer.token();
        }
        lexer.tokens.add(new Token(Token.Kind.END, "the end", null, source.length()));
        return lexer.tokens;
    }

    private void skipBlanks() throws EvaluationFailed {
        while (at < source.length()) {
            if (Character.isWhitespace(source.charAt(at))) {
                at++;
            } else if (source.startsWith("//", at)) {
                int end = source.indexOf('\n', at);
                at = end < 0 ? source.length() : end;
            } else if (source.startsWith("/*", at)) {
                int end = source.indexOf("*/", at + 2);
                if (end < 0) {
                    throw new EvaluationFailed("a comment is not closed; add */");
                }
                at = end + 2;
            } else {
                return;
            }
        }
    }

    private void token() throws EvaluationFailed {
        int start = at;
        char next = source.charAt(at);
        if (Character.isJavaIdentifierStart(next)) {
            word();
        } else if (digit(at) || (next == '.' && digit(at + 1))) {
            Object value = number();
            String text = source.substring(start, at);
            if (at < source.length() && Character.isJavaIdentifierPart(source.charAt(at))) {
                throw new EvaluationFailed(text + source.charAt(at) + "... is no number");
            }
            add(Token.Kind.LITERAL, start, value);
        } else if (source.startsWith("\"\"\"", at)) {
            textBlock();
        } else if (next == '"') {
            StringBuilder text = new StringBuilder();
            at++;
            while (at < source.length() && source.charAt(at) != '"' && source.charAt(at) != '\n') {
                text.append(unit());
            }
            close("\"", "a string", start, text.toString());
        } else if (next == '\'') {
            at++;
            if (at >= source.length() || source.charAt(at) == '\'') {
                throw new EvaluationFailed("a character literal is empty at position " + start);
            }
            close("'", "a character", start, unit());
        } else {
            operator();
        }
    }

    private boolean digit(int index) {
        char unit = index < source.length() ? source.charAt(index) : ' ';
        return unit >= '0' && unit <= '9';
    }

    private void add(Token.Kind kind, int start, Object value) {
        tokens.add(new Token(kind, source.substring(start, at), value, start));
    }

    private void word() {
        int start = at;
        while (at < source.length() && Character.isJavaIdentifierPart(source.charAt(at))) {
            at++;
        }
        String text = source.substring(start, at);
        if (text.equals("true") || text.equals("false")) {
            add(Token.Kind.LITERAL, start, Boolean.valueOf(text));
        } else if (text.equals("null")) {
            add(Token.Kind.LITERAL, start, null);
        } else {
            add(KEYWORDS.contains(text) ? Token.Kind.KEYWORD : Token.Kind.NAME, start, null);
        }
    }

    /** The value of the numeric literal here, which is skipped. Minus is an operator. */
    private Object number() throws EvaluationFailed {
        Matcher floating = FLOATING.matcher(source).region(at, source.length());
        if (floating.lookingAt()) {
            at = floating.end();
            String number = floating.group().replace("_", "");
            boolean single = number.endsWith("f") || number.endsWith("F");
            return single ? (Object) Float.valueOf(number) : (Object) Double.valueOf(number);
        }
        Matcher match = WHOLE.matcher(source).region(at, source.length());
        match.lookingAt();
        at = match.end();
        boolean isLong = !match.group(4).isEmpty();
        BigInteger number;
        boolean decimal = false;
        if (match.group(1) != null) {
            number = new BigInteger(match.group(1).replace("_", ""), 16);
        } else if (match.group(2) != null) {
            number = new BigInteger(match.group(2).replace("_", ""), 2);
        } else {
            String digits = match.group(3).replace("_", "");
            decimal = digits.length() == 1 || !digits.startsWith("0");
            try {
                number = new BigInteger(digits, decimal ? 10 : 8);
            } catch (NumberFormatException error) {
                throw new EvaluationFailed(match.group() + " is no octal number");
            }
        }
        // 2147483648 is meant to stand behind a minus, where it wraps to the smallest int.
        BigInteger most = BigInteger.ONE.shiftLeft(isLong ? 63 : 31);
        if (decimal ? number.compareTo(most) > 0 : number.bitLength() > (isLong ? 64 : 32)) {
            throw new EvaluationFailed(
                    match.group() + " is too large; write a long with L at its end");
        }
        return isLong ? (Object) number.longValue() : (Object) number.intValue();
    }

    /** A text block as a literal without a value: the compiler reads it. */
    private void textBlock() throws EvaluationFailed {
        int start = at;
        int end = at + 3;
        while (end < source.length() && !source.startsWith("\"\"\"", end)) {
            end += source.charAt(end) == '\\' ? 2 : 1;
        }
        int line = source.indexOf('\n', at);
        if (end >= source.length() || line < 0 || line > end) {
            throw new EvaluationFailed("a text block is not closed, or holds no line; add \"\"\"");
        }
        at = end + 3;
        add(Token.Kind.LITERAL, start, null);
    }

    private void close(String quote, String what, int start, Object value)
            throws EvaluationFailed {
        if (!source.startsWith(quote, at)) {
            throw new EvaluationFailed(
                    what + " that begins at position " + start + " is not closed; add " + quote);
        }
        at++;
        add(Token.Kind.LITERAL, start, value);
    }

    /** One character of a string, escaped or not. */
    private char unit() throws EvaluationFailed {
        char unit = source.charAt(at++);
        if (unit != '\\' || at >= source.length()) {
            return unit;
        }
        char escaped = source.charAt(at++);
        int known = "btnfrs\"'\\".indexOf(escaped);
        if (known >= 0) {
            return "\b\t\n\f\r \"'\\".charAt(known);
        }
        if (escaped == 'u') {
            try {
                char code = (char) Integer.parseInt(source.substring(at, at + 4), 16);
                at += 4;
                return code;
            } catch (IndexOutOfBoundsException | NumberFormatException error) {
                throw new EvaluationFailed("\\u needs four hexadecimal digits after it");
            }
        }
        int code = Character.digit(escaped, 8);
        if (code < 0) {
            throw new EvaluationFailed("\\" + escaped + " is no escape of Java's");
        }
        for (int more = code < 4 ? 2 : 1; more > 0 && at < source.length(); more--) {
            int digit = Character.digit(source.charAt(at), 8);
            if (digit < 0) {
                break;
            }
            code = code * 8 + digit;
            at++;
        }
        return (char) code;
    }

    private void operator() throws EvaluationFailed {
        int start = at;
        for (String operator : OPERATORS) {
            if (source.startsWith(operator, at)) {
                at += operator.length();
                add(Token.Kind.OPERATOR, start, null);
                return;
            }
        }
        char unit = source.charAt(at++);
        if ("(){}[];,.@=<>!~?:+-*/&|^%".indexOf(unit) < 0) {
            throw new EvaluationFailed("'" + unit + "' is no character of Java's outside strings");
        }
        add(Token.Kind.OPERATOR, start, null);
    }

    static final class Token {
        enum Kind { NAME, KEYWORD, LITERAL, OPERATOR, END }

        final Kind kind;
        final String text;

        /** Of a literal: a number, Character, String, Boolean; null for null. */
        final Object value;

        final int start;

        Token(Kind kind, String text, Object value, int start) {
            this.kind = kind;
            this.text = text;
            this.value = value;
            this.start = start;
        }

        boolean is(String given) {
            return (kind == Kind.OPERATOR || kind == Kind.KEYWORD) && text.equals(given);
        }
    }
}
