package dev.gridcalc.formula;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** Cuts a formula into its smallest parts. */
final class Lexer {

    /** What a part may be. */
    enum Kind {
        NUMBER("\\d+(?:\\.\\d+)?"),
        CELL("\\$?[A-Za-z]{1,3}\\$?\\d+"),
        NAME("[A-Za-z]+"),
        SIGN("[-+*/<>(),:]"),
        END("$");

        private final Pattern pattern;

        Kind(String pattern) {
            this.pattern = Pattern.compile(pattern);
        }
    }

    private final String formula;
    private int position;
    private Kind kind;
    private String text;

    Lexer(String formula) {
        this.formula = formula;
        advance();
    }

    boolean at(Kind wanted) {
        return kind == wanted;
    }

    boolean at(String sign) {
        return kind == Kind.SIGN && text.equals(sign);
    }

    /** The part where the lexer stands; it goes on to the next one. */
    String take() {
        String taken = text;
        advance();
        return taken;
    }

    void expect(String sign) {
        if (!at(sign)) {
            throw new IllegalArgumentException(sign + " is missing in " + formula);
        }
        advance();
    }

    private void advance() {
        while (position < formula.length() && formula.charAt(position) == ' ') {
            position++;
        }
        for (Kind each : Kind.values()) {
            Matcher matcher = each.pattern.matcher(formula).region(position, formula.length());
            if (matcher.lookingAt()) {
                kind = each;
                text = matcher.group();
                position = matcher.end();
                return;
            }
        }
        throw new IllegalArgumentException("can't read " + formula.substring(position));
    }
}
