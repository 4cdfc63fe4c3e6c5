package stepinto.probe.wire;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** A JSON object: strings, longs, doubles, booleans, null, lists and objects by their names. */
public final class Fields extends LinkedHashMap<String, Object> {
    private static final long serialVersionUID = 1;
    private static final String HEX = "0123456789abcdef";

    public Fields with(String name, Object value) {
        put(name, value);
        return this;
    }

    /** A string without the blanks around it; empty if there is none. */
    public String text(String name) {
        Object value = get(name);
        return value == null ? "" : value.toString().trim();
    }

    @SuppressWarnings("unchecked")
    public List<String> texts(String name) {
        return (List<String>) get(name);
    }

    /** The nearest int. */
    public int number(String name, int missing) {
        Object value = get(name);
        if (!(value instanceof Number)) {
            return missing;
        }
        long number = ((Number) value).longValue();
        return (int) Math.max(Integer.MIN_VALUE, Math.min(Integer.MAX_VALUE, number));
    }

    public boolean flag(String name) {
        return Boolean.TRUE.equals(get(name));
    }

    public Fields fields(String name) {
        return (Fields) get(name);
    }

    /** Raises IllegalArgumentException or ClassCastException if the text is no JSON object. */
    static Fields parse(String text) {
        try {
            return (Fields) new Parser(text).value();
        } catch (IndexOutOfBoundsException error) {
            throw new IllegalArgumentException("the JSON text ends too early: " + text, error);
        }
    }

    private static final class Parser {
        private final String text;
        private int at;

        Parser(String text) {
            this.text = text;
        }

        private Object value() {
            char first = next();
            if (first == '{') {
                Fields fields = new Fields();
                while (more('}')) {
                    next();
                    String name = string();
                    if (next() != ':') {
                        throw new IllegalArgumentException("no ':' at character " + at);
                    }
                    at++;
                    fields.put(name, value());
                }
                return fields;
            }
            if (first == '[') {
                List<Object> items = new ArrayList<>();
                while (more(']')) {
                    items.add(value());
                }
                return items;
            }
            if (first == '"') {
                return string();
            }
            int start = at;
            while (at < text.length() && ",]} \n".indexOf(text.charAt(at)) < 0) {
                at++;
            }
            String word = text.substring(start, at);
            switch (word) {
                case "true":
                case "false":
                    return Boolean.valueOf(word);
                case "null":
                    return null;
                default:
                    boolean whole = word.matches("-?[0-9]{1,18}");
                    return whole ? (Object) Long.valueOf(word) : (Object) Double.valueOf(word);
            }
        }

        /** The next character that is no blank; it stays. */
        private char next() {
            while (text.charAt(at) <= ' ') {
                at++;
            }
            return text.charAt(at);
        }

        /** Skips what stands before the next item: the bracket or a comma; false at the end. */
        private boolean more(char end) {
            boolean first = "{[".indexOf(next()) >= 0;
            char found = text.charAt(at++);
            if (first && next() == end) {
                at++;
                return false;
            }
            if (!first && found != ',' && found != end) {
                throw new IllegalArgumentException("unexpected '" + found + "' at character " + at);
            }
            return first || found == ',';
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
            if (letter == 'u') {
                at += 4;
                return (char) Integer.parseInt(text.substring(at - 4, at), 16);
            }
            int known = "ntrbf".indexOf(letter);
            return known < 0 ? letter : "\n\t\r\b\f".charAt(known);
        }
    }

    /** One line of ASCII. */
    @Override
    public String toString() {
        StringBuilder text = new StringBuilder();
        write(this, text);
        return text.toString();
    }

    private static void write(Object value, StringBuilder out) {
        if (value instanceof Map) {
            char before = '{';
            for (Map.Entry<?, ?> field : ((Map<?, ?>) value).entrySet()) {
                out.append(before);
                writeString((String) field.getKey(), out);
                write(field.getValue(), out.append(':'));
                before = ',';
            }
            out.append(before == '{' ? "{}" : "}");
        } else if (value instanceof List) {
            char before = '[';
            for (Object item : (List<?>) value) {
                write(item, out.append(before));
                before = ',';
            }
            out.append(before == '[' ? "[]" : "]");
        } else if (value instanceof String) {
            writeString((String) value, out);
        } else {
            out.append(value);
        }
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
