package stepinto.probe.rendering;

import java.util.Locale;
import stepinto.probe.rendering.Heap.JavaText;

/** Text that grows up to a number of characters and lines; what comes before a start is dropped. */
final class BoundedText {
    /** The quote of text that stands outside of quotes. */
    static final char UNQUOTED = 0;

    private static final int CHUNK = 16_384;
    private final StringBuilder text = new StringBuilder();
    private final int start;
    private final int limit;
    private int skipped;
    private int linesLeft;
    private int remaining;
    private boolean full;
    private boolean incomplete;

    BoundedText(int start, int chars, int lines) {
        this.start = start;
        this.limit = chars;
        this.linesLeft = lines;
    }

    /** Appends text that is fit to be shown. Throws {@link Full}. */
    void put(String given) {
        for (int at = 0; at < given.length(); at++) {
            put(given.charAt(at));
        }
    }

    private void put(char unit) {
        if (skipped < start) {
            skipped++;
            return;
        }
        if (text.length() >= limit || (unit == '\n' && --linesLeft <= 0)) {
            full = true;
            throw Full.INSTANCE;
        }
        text.append(unit);
    }

    /**
     * Appends a long text of the program's, as {@link #putQuoted} or, without a quote, as {@link
     * #putForeign} does.
     *
     * @param alone whether it is all there is, so that a cut can tell how much of it is left
     */
    void put(JavaText found, boolean alone, char quote) {
        for (int at = 0; at < found.length; at += CHUNK) {
            // Of a chunk no more than is shown, what is skipped included; each character takes one.
            int left = start - skipped + limit - text.length();
            String part = found.part(at, at + Math.min(CHUNK, left + 1));
            for (int unit = 0; unit < part.length(); unit++) {
                if (alone) {
                    remaining = found.length - at - unit;
                }
                if (quote == UNQUOTED) {
                    putForeign(part.charAt(unit));
                } else {
                    putQuoted(part.charAt(unit), quote);
                }
            }
        }
    }

    /** Appends a character of the program's as it stands inside quotes. */
    void putQuoted(char unit, char quote) {
        int known = "\n\t\r\\".indexOf(unit);
        if (known >= 0 || unit == quote) {
            put('\\');
            put(known < 0 ? quote : "ntr\\".charAt(known));
        } else {
            putForeign(unit);
        }
    }

    /** Appends text of the program's; its line breaks stay, what steers a terminal does not. */
    void putForeign(String given) {
        for (int at = 0; at < given.length(); at++) {
            putForeign(given.charAt(at));
        }
    }

    private void putForeign(char unit) {
        int kind = Character.getType(unit);
        boolean hidden = kind == Character.CONTROL || kind == Character.FORMAT
                || kind == Character.LINE_SEPARATOR || kind == Character.PARAGRAPH_SEPARATOR;
        if (hidden && unit != '\n' && unit != '\t') {
            put(String.format("\\u%04x", (int) unit));
        } else {
            put(unit);
        }
    }

    /** How many items or characters are left, should the text get full now. */
    void tail(int left) {
        remaining = left;
    }

    /** {@code ... 199,900 more}. */
    static String more(int left) {
        return String.format(Locale.ROOT, "... %,d more", left);
    }

    /** Items or levels were left out, though the text is not full. */
    void leftOut() {
        incomplete = true;
    }

    ValueText.Rendered rendered() {
        int next = full && text.length() >= limit ? start + text.length() : ValueText.Rendered.END;
        replaceLoneSurrogates();
        String tail = full ? (remaining > 0 ? more(remaining) : "...") : "";
        return new ValueText.Rendered(text + tail, full || incomplete, next);
    }

    /** Half a character, the program's own or cut by a page, has no place in UTF-8. */
    private void replaceLoneSurrogates() {
        for (int at = 0; at < text.length(); at++) {
            char unit = text.charAt(at);
            boolean pair = at + 1 < text.length() && Character.isLowSurrogate(text.charAt(at + 1));
            if (Character.isHighSurrogate(unit) && pair) {
                at++;
            } else if (Character.isSurrogate(unit)) {
                text.setCharAt(at, '\uFFFD');
            }
        }
    }

    /** The text has reached its limit. */
    static final class Full extends RuntimeException {
        static final Full INSTANCE = new Full();
        private static final long serialVersionUID = 1;

        private Full() {
            super("the text is full", null, false, false);
        }
    }
}
