package stepinto.probe.rendering;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ByteValue;
import com.sun.jdi.CharValue;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.StringReference;
import com.sun.jdi.Value;
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
        ArrayReference units;
        try {
            units = (ArrayReference) heap.value(string, "value");
        } catch (Heap.LayoutUnknown other) {
            return new JavaText(string.value(), null, string.value().length(), false);
        }
        int size = units.length();
        if (size <= SMALL) {
            String whole = string.value();
            return new JavaText(whole, null, whole.length(), false);
        }
        return stored(string, units, size, heap);
    }

    /** The text in a StringBuilder or StringBuffer. */
    static JavaText ofBuilder(ObjectReference builder, Heap heap) {
        int count = Heap.number(heap.value(builder, "count"));
        ArrayReference units = (ArrayReference) heap.value(builder, "value");
        if (!units.type().name().equals("byte[]")) {
            return new JavaText(null, units, count, false);
        }
        return new JavaText(null, units, count, Heap.number(heap.value(builder, "coder")) == 1);
    }

    private static JavaText stored(
            StringReference string, ArrayReference units, int size, Heap heap) {
        if (!units.type().name().equals("byte[]")) {
            return new JavaText(null, units, size, false);
        }
        boolean wide = Heap.number(heap.value(string, "coder")) == 1;
        return new JavaText(null, units, wide ? size / 2 : size, wide);
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
        for (int at = from; at < end; at += CHUNK) {
            read(at, Math.min(CHUNK, end - at), text);
        }
        return text.toString();
    }

    private void read(int from, int count, StringBuilder text) {
        List<Value> values = wide
                ? units.getValues(2 * from, 2 * count)
                : units.getValues(from, count);
        if (wide) {
            boolean bigEndian = java.nio.ByteOrder.nativeOrder() == java.nio.ByteOrder.BIG_ENDIAN;
            for (int at = 0; at < values.size(); at += 2) {
                int first = ((ByteValue) values.get(at)).value() & 0xff;
                int second = ((ByteValue) values.get(at + 1)).value() & 0xff;
                text.append((char) (bigEndian ? first << 8 | second : second << 8 | first));
            }
            return;
        }
        for (Value value : values) {
            text.append(value instanceof CharValue
                    ? ((CharValue) value).value()
                    : (char) (((ByteValue) value).value() & 0xff));
        }
    }
}
