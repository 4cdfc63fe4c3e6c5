package stepinto.probe.wire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Reads JSON texts as maps, lists, strings, longs, doubles, booleans and null; writes them. */
final class Json {
    private static final String HEX = "0123456789abcdef";
    private final String text;
    private int at;

    private Json(String text) {
        this.text = text;
    }

    /** Raises IllegalArgumentException if the text is no JSON object. */
    @SuppressWarnings("unchecked")
    static Map<String, Object> object(String text) {
        Object value;
        try {
            value = new Json(text).value();
        } catch (IndexOutOfBoundsException error) {
            throw new IllegalArgumentException("the JSON text ends too early: " + text, error);
        }
        if (!(value instanceof Map)) {
            throw new IllegalArgumentException("not a JSON object: " + text);
        }
        return (Map<String, Object>) value;
    }

    private Object value() {
        switch (next()) {
            case '{':
                return map();
            case '[':
                return list();
            case '"':
                return string();
            case 't':
                return word("true", Boolean.TRUE);
            case 'f':
                return word("false", Boolean.FALSE);
            case 'n':
                return word("null", null);
            default:
                return number();
        }
    }

    /** The next character that is no blank; it stays. */
    private char next() {
        while (text.charAt(at) <= ' ') {
            at++;
        }
        return text.charAt(at);
    }

    private Object word(String word, Object value) {
        if (!text.startsWith(word, at)) {
            throw new IllegalArgumentException("unknown JSON word at character " + at);
        }
        at += word.length();
        return value;
    }

    private Map<String, Object> map() {
        Map<String, Object> fields = new LinkedHashMap<>();
        at++;
        if (next() == '}') {
            at++;
            return fields;
        }
        do {
            next();
            String name = string();
            expect(':');
            fields.put(name, value());
        } while (more('}'));
        return fields;
    }

    private List<Object> list() {
        List<Object> items = new ArrayList<>();
        at++;
        if (next() == ']') {
            at++;
            return items;
        }
        do {
            items.add(value());
        } while (more(']'));
        return items;
    }

    private boolean more(char end) {
        char found = next();
        at++;
        if (found != ',' && found != end) {
            throw new IllegalArgumentException("unexpected '" + found + "' at character " + at);
        }
        return found == ',';
    }

    private void expect(char wanted) {
        if (next() != wanted) {
            throw new IllegalArgumentException("no '" + wanted + "' at character " + at);
        }
        at++;
    }

    private String string() {
        StringBuilder found = new StringBuilder();
        at++;
        char letter;
        while ((letter = text.charAt(at++)) != '"') {
            found.append(letter == '\\' ? escaped() : letter);
        }
        return found.toString();
    }

    private char escaped() {
        char letter = text.charAt(at++);
        switch (letter) {
            case 'n':
                return '\n';
            case 't':
                return '\t';
            case 'r':
                return '\r';
            case 'b':
                return '\b';
            case 'f':
                return '\f';
            case 'u':
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            default:
                return letter;
        }
    }

    private Object number() {
        int start = at;
        while (at < text.length() && "+-.eE0123456789".indexOf(text.charAt(at)) >= 0) {
            at++;
        }
        String digits = text.substring(start, at);
        if (digits.indexOf('.') < 0 && digits.indexOf('e') < 0 && digits.indexOf('E') < 0) {
            return Long.valueOf(digits);
        }
        return Double.valueOf(digits);
    }

    /** Write a value as one line of ASCII. */
    static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            writeMap((Map<?, ?>) value, out);
        } else if (value instanceof List) {
            writeList((List<?>) value, out);
        } else if (value instanceof String) {
            writeString((String) value, out);
        } else {
            out.append(value);
        }
    }

    private static void writeMap(Map<?, ?> fields, StringBuilder out) {
        char before = '{';
        for (Map.Entry<?, ?> field : fields.entrySet()) {
            out.append(before);
            writeString((String) field.getKey(), out);
            out.append(':');
            write(field.getValue(), out);
            before = ',';
        }
        out.append(before == '{' ? "{}" : "}");
    }

    private static void writeList(List<?> items, StringBuilder out) {
        char before = '[';
        for (Object item : items) {
            out.append(before);
            write(item, out);
            before = ',';
        }
        out.append(before == '[' ? "[]" : "]");
    }

    private static void writeString(String text, StringBuilder out) {
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
