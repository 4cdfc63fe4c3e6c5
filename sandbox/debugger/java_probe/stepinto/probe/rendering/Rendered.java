package stepinto.probe.rendering;

/** A value as text. */
public final class Rendered {
    /** There is no more. */
    public static final int END = -1;

    public final String text;

    /** Whether the text was cut, or items or levels were left out. */
    public final boolean truncated;

    /** Where the next page of the text begins, in characters; {@link #END} if it was all. */
    public final int nextStart;

    Rendered(String text, boolean truncated, int nextStart) {
        this.text = text;
        this.truncated = truncated;
        this.nextStart = nextStart;
    }
}
