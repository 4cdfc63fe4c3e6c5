package stepinto.probe.wire;

import java.util.Map;

/** Bounds of a session, from the launch's limits; sizes in characters. */
public final class Limits {
    public final int valueChars;
    public final int valueDepth;
    public final int valueItems;
    public final int valueLines;
    public final int maxValues;
    public final int maxFrames;
    public final int outputChars;
    public final int contextLines;

    public Limits(Map<String, Object> fields) {
        valueChars = number(fields, "value_chars", 600);
        valueDepth = number(fields, "value_depth", 6);
        valueItems = number(fields, "value_items", 100);
        valueLines = number(fields, "value_lines", 40);
        maxValues = number(fields, "max_values", 60);
        maxFrames = number(fields, "max_frames", 40);
        outputChars = number(fields, "output_chars", 4000);
        contextLines = number(fields, "context_lines", 4);
    }

    private static int number(Map<String, Object> fields, String name, int missing) {
        Object value = fields.get(name);
        return value instanceof Number ? ((Number) value).intValue() : missing;
    }
}
