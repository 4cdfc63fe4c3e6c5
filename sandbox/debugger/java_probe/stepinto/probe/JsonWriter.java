package stepinto.probe;

import java.util.List;
import java.util.Map;

/** Writes maps, lists, strings, numbers, booleans and null as one line of ASCII. */
final class JsonWriter {
    private static final String HEX = "0123456789abcdef";

    private JsonWriter() {}

    static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            map((Map<?, ?>) value, out);
        } else if (value instanceof List) {
            list((List<?>) value, out);
        } else if (value instanceof String) {
            string((String) value, out);
        } else {
            out.append(value);
        }
    }

    private static void map(Map<?, ?> fields, StringBuilder out) {
        char before = '{';
        for (Map.Entry<?, ?> field : fields.entrySet()) {
            out.append(before);
            string((String) field.getKey(), out);
            out.append(':');
            write(field.getValue(), out);
            before = ',';
        }
        out.append(before == '{' ? "{}" : "}");
    }

    private static void list(List<?> items, StringBuilder out) {
        char before = '[';
        for (Object item : items) {
            out.append(before);
            write(item, out);
            before = ',';
        }
        out.append(before == '[' ? "[]" : "]");
    }

    private static void string(String text, StringBuilder out) {
        out.append('"');
        for (int at = 0; at < text.length(); at++) {
            char letter = text.charAt(at);
            if (letter == '"' || letter == '\\') {
                out.append('\\').append(letter);
            } else if (letter >= ' ' && letter < 127) {
                out.append(letter);
            } else {
                out.append("\\u");
                for (int shift = 12; shift >= 0; shift -= 4) {
                    out.append(HEX.charAt(letter >> shift & 15));
                }
            }
        }
        out.append('"');
    }
}
