package stepinto.probe.evaluation.parsing;

import java.math.BigInteger;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import stepinto.probe.program.EvaluationFailed;

/** Numeric literals of Java. */
final class Numbers {
    private static final Pattern HEX = Pattern.compile("0[xX]([0-9a-fA-F_]+)([lL]?)");
    private static final Pattern BINARY = Pattern.compile("0[bB]([01_]+)([lL]?)");
    private static final Pattern FLOATING =
            Pattern.compile(
                    "((?:[0-9][0-9_]*\\.?[0-9_]*|\\.[0-9][0-9_]*)(?:[eE][+-]?[0-9]+)?)([fFdD]?)");
    private static final Pattern WHOLE = Pattern.compile("([0-9][0-9_]*)([lL]?)");

    private Numbers() {}

    /** The literal that begins at a position. Minus is an operator. */
    static Token literal(String source, int start) throws EvaluationFailed {
        Token found = radix(HEX, 16, source, start);
        if (found == null) {
            found = radix(BINARY, 2, source, start);
        }
        if (found == null) {
            found = floating(source, start);
        }
        if (found == null) {
            found = whole(source, start);
        }
        int end = start + found.text.length();
        if (end < source.length() && Character.isJavaIdentifierPart(source.charAt(end))) {
            throw new EvaluationFailed(found.text + source.charAt(end) + "... is no number");
        }
        return found;
    }

    private static Token radix(Pattern pattern, int radix, String source, int start)
            throws EvaluationFailed {
        Matcher match = pattern.matcher(source).region(start, source.length());
        if (!match.lookingAt()) {
            return null;
        }
        BigInteger number = new BigInteger(match.group(1).replace("_", ""), radix);
        boolean isLong = !match.group(2).isEmpty();
        if (number.bitLength() > (isLong ? 64 : 32)) {
            throw tooLarge(match.group());
        }
        Object value = isLong ? (Object) number.longValue() : (Object) number.intValue();
        return new Token(Token.Kind.LITERAL, match.group(), value, start);
    }

    private static Token floating(String source, int start) {
        Matcher match = FLOATING.matcher(source).region(start, source.length());
        if (!match.lookingAt()) {
            return null;
        }
        String digits = match.group(1);
        String suffix = match.group(2);
        if (suffix.isEmpty() && digits.matches("[0-9_]+")) {
            return null;
        }
        String number = digits.replace("_", "");
        boolean single = suffix.equalsIgnoreCase("f");
        Object value = single ? (Object) Float.valueOf(number) : (Object) Double.valueOf(number);
        return new Token(Token.Kind.LITERAL, match.group(), value, start);
    }

    private static Token whole(String source, int start) throws EvaluationFailed {
        Matcher match = WHOLE.matcher(source).region(start, source.length());
        if (!match.lookingAt()) {
            throw new EvaluationFailed("position " + start + " holds no number");
        }
        String digits = match.group(1).replace("_", "");
        int radix = digits.length() > 1 && digits.startsWith("0") ? 8 : 10;
        boolean isLong = !match.group(2).isEmpty();
        BigInteger number;
        try {
            number = new BigInteger(digits, radix);
        } catch (NumberFormatException error) {
            throw new EvaluationFailed(match.group() + " is no octal number");
        }
        // 2147483648 is meant to stand behind a minus, where it wraps to the smallest int.
        BigInteger most = BigInteger.ONE.shiftLeft(isLong ? 63 : 31);
        if (radix == 10 ? number.compareTo(most) > 0 : number.bitLength() > (isLong ? 64 : 32)) {
            throw tooLarge(match.group());
        }
        Object value = isLong ? (Object) number.longValue() : (Object) number.intValue();
        return new Token(Token.Kind.LITERAL, match.group(), value, start);
    }

    private static EvaluationFailed tooLarge(String text) {
        return new EvaluationFailed(text + " is too large; write a long with L at its end");
    }
}
