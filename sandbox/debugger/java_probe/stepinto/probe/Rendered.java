package stepinto.probe;

/** A value as text. */
final class Rendered {
    /** There is no more. */
    static final int END = -1;

    final String text;

    /** Whether the text was cut, or items or levels were left out. */
    final boolean truncated;

    /** Where the next page of the text begins, in characters; {@link #END} where it was all. */
    final int nextStart;

    Rendered(String text, boolean truncated, int nextStart) {
        this.text = text;
        this.truncated = truncated;
        this.nextStart = nextStart;
    }
}
