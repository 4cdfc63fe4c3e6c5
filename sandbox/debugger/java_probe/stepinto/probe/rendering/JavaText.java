package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.nio.ByteOrder;
import java.util.List;

/** A string, or a StringBuilder, of the program: its length, and as much of it as is asked for. */
public final class JavaText {
    private static final int SMALL = 100_000;
    private static final int CHUNK = 8_192;

    public final int length;
    private final String whole;
    private final ArrayReference units;
    private final boolean wide;

    private JavaText(String whole, ArrayReference units, int length, boolean wide) {
        this.whole = whole;
        this.units = units;
        this.length = length;
        this.wide = wide;
    }

    public static JavaText of(StringReference string, Heap heap) {
        ArrayReference units = null;
        try {
            units = (ArrayReference) heap.value(string, "value");
        } catch (Heap.LayoutUnknown other) {
            units = null;
        }
        if (units == null || units.length() <= SMALL) {
            String whole = string.value();
            return new JavaText(whole, null, whole.length(), false);
        }
        boolean wide = isWide(string, units, heap);
        return new JavaText(null, units, wide ? units.length() / 2 : units.length(), wide);
    }

    /** The text in a StringBuilder or StringBuffer. */
    static JavaText ofBuilder(ObjectReference builder, Heap heap) {
        int count = Heap.number(heap.value(builder, "count"));
        ArrayReference units = (ArrayReference) heap.value(builder, "value");
        return new JavaText(null, units, count, isWide(builder, units, heap));
    }

    /** Whether a character takes two items of the array. */
    private static boolean isWide(ObjectReference text, ArrayReference units, Heap heap) {
        return units.type().name().equals("byte[]")
                && Heap.number(heap.value(text, "coder")) == 1;
    }

    /** The characters from one position to another, or to the end. */
    public String part(int from, int to) {
        int end = Math.min(to, length);
        if (from >= end) {
            return "";
        }
        if (whole != null) {
            return whole.substring(from, end);
        }
        StringBuilder text = new StringBuilder(end - from);
        boolean bigEndian = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN;
        int size = wide ? 2 : 1;
        for (int at = from; at < end; at += CHUNK) {
            int count = Math.min(CHUNK, end - at);
            List<Value> values = units.getValues(size * at, size * count);
            for (int unit = 0; unit < values.size(); unit += size) {
                int first = number(values.get(unit));
                if (wide) {
                    int second = number(values.get(unit + 1));
                    text.append((char) (bigEndian ? first << 8 | second : second << 8 | first));
                } else {
                    text.append((char) first);
                }
            }
        }
        return text.toString();
    }

    private static int number(Value unit) {
        return unit instanceof CharValue
                ? ((CharValue) unit).value() : ((ByteValue) unit).value() & 0xff;
    }
}
