package stepinto.probe.evaluation.parsing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.program.EvaluationFailed;

/** Splits Java source into tokens. */
public final class Lexer {
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

    private final String source;
    private final List<Token> tokens = new ArrayList<>();
    private int at;

    private Lexer(String source) {
        this.source = source;
    }

    /** The tokens, with one of kind END last. */
    public static List<Token> tokens(String source) throws EvaluationFailed {
        return new Lexer(source).all();
    }

    private List<Token> all() throws EvaluationFailed {
        for (skipBlanks(); at < source.length(); skipBlanks()) {
            char next = source.charAt(at);
            if (Character.isJavaIdentifierStart(next)) {
                word();
            } else if (digit(at) || (next == '.' && digit(at + 1))) {
                tokens.add(Numbers.literal(source, at));
                at += last().text.length();
            } else if (next == '"') {
                string();
            } else if (next == '\'') {
                character();
            } else {
                operator();
            }
        }
        tokens.add(new Token(Token.Kind.END, "the end", null, source.length()));
        return tokens;
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

    private boolean digit(int index) {
        char unit = index < source.length() ? source.charAt(index) : ' ';
        return unit >= '0' && unit <= '9';
    }

    private Token last() {
        return tokens.get(tokens.size() - 1);
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

    private void string() throws EvaluationFailed {
        int start = at;
        if (source.startsWith("\"\"\"", at)) {
            textBlock();
            return;
        }
        at++;
        StringBuilder text = new StringBuilder();
        while (at < source.length() && source.charAt(at) != '"' && source.charAt(at) != '\n') {
            text.append(unit());
        }
        close("\"", "a string", start, text.toString());
    }

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
        String content = unindented(source.substring(line + 1, end));
        StringBuilder text = new StringBuilder();
        Lexer inner = new Lexer(content);
        while (inner.at < content.length()) {
            text.append(content.startsWith("\\\n", inner.at) ? inner.skipped() : inner.unit());
        }
        at = end + 3;
        add(Token.Kind.LITERAL, start, text.toString());
    }

    /** An escaped line break of a text block, which stands for nothing. */
    private String skipped() {
        at += 2;
        return "";
    }

    private void character() throws EvaluationFailed {
        int start = at++;
        if (at >= source.length() || source.charAt(at) == '\'') {
            throw new EvaluationFailed("a character literal is empty at position " + start);
        }
        String unit = unit();
        close("'", "a character", start, unit.charAt(0));
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
    private String unit() throws EvaluationFailed {
        char unit = source.charAt(at++);
        if (unit != '\\' || at >= source.length()) {
            return String.valueOf(unit);
        }
        char escaped = source.charAt(at++);
        int known = "btnfrs\"'\\".indexOf(escaped);
        if (known >= 0) {
            return String.valueOf("\b\t\n\f\r \"'\\".charAt(known));
        }
        if (escaped == 'u') {
            return unicode();
        }
        if (escaped >= '0' && escaped <= '7') {
            return octal(escaped - '0');
        }
        throw new EvaluationFailed("\\" + escaped + " is no escape of Java's");
    }

    private String unicode() throws EvaluationFailed {
        while (source.startsWith("u", at)) {
            at++;
        }
        try {
            String digits = source.substring(at, at + 4);
            at += 4;
            return String.valueOf((char) Integer.parseInt(digits, 16));
        } catch (IndexOutOfBoundsException | NumberFormatException error) {
            throw new EvaluationFailed("\\u needs four hexadecimal digits after it");
        }
    }

    private String octal(int first) {
        int code = first;
        for (int more = 0; more < (first < 4 ? 2 : 1) && digit(at); more++) {
            if (source.charAt(at) > '7') {
                break;
            }
            code = code * 8 + source.charAt(at++) - '0';
        }
        return String.valueOf((char) code);
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

    /** A text block without its common indentation; escapes are left as they are. */
    private static String unindented(String raw) {
        String[] lines = raw.split("\n", -1);
        int common = Integer.MAX_VALUE;
        for (int at = 0; at < lines.length; at++) {
            boolean counts = !lines[at].trim().isEmpty() || at == lines.length - 1;
            common = counts ? Math.min(common, indentation(lines[at])) : common;
        }
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < lines.length; at++) {
            String line = lines[at];
            String rest = line.substring(Math.min(common, indentation(line)));
            text.append(rest.replaceAll("[ \t]+$", ""));
            text.append(at < lines.length - 1 ? "\n" : "");
        }
        return text.toString();
    }

    private static int indentation(String line) {
        int at = 0;
        while (at < line.length() && Character.isWhitespace(line.charAt(at))) {
            at++;
        }
        return at;
    }
}
