package stepinto.probe.evaluation.parsing;

/** One token of Java source. */
public final class Token {
    public enum Kind {
        NAME,
        KEYWORD,
        /** A literal, its value in {@link #value}. */
        LITERAL,
        OPERATOR,
        END
    }

    public final Kind kind;
    public final String text;

    /** Of a literal: Integer, Long, Float, Double, Character, String, Boolean; null for null. */
    final Object value;

    /** Where it begins in the source. */
    public final int start;

    public Token(Kind kind, String text, Object value, int start) {
        this.kind = kind;
        this.text = text;
        this.value = value;
        this.start = start;
    }

    public boolean is(String given) {
        return (kind == Kind.OPERATOR || kind == Kind.KEYWORD) && text.equals(given);
    }
}
