package stepinto.probe;

/** One token of Java source. */
final class Token {
    enum Kind {
        NAME,
        KEYWORD,
        /** A literal, its value in {@link #value}. */
        LITERAL,
        OPERATOR,
        END
    }

    final Kind kind;
    final String text;

    /** Of a literal: Integer, Long, Float, Double, Character, String, Boolean; null for null. */
    final Object value;

    /** Where it begins in the source. */
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
