package stepinto.probe.evaluation;

final class Token {
    enum Kind { NAME, KEYWORD, LITERAL, OPERATOR, END }

    final Kind kind;
    final String text;

    /** Of a literal: Integer, Long, Float, Double, Character, String, Boolean; null for null. */
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
