package stepinto.probe.wire;

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

    public Limits(Fields fields) {
        valueChars = fields.number("value_chars", 600);
        valueDepth = fields.number("value_depth", 6);
        valueItems = fields.number("value_items", 100);
        valueLines = fields.number("value_lines", 40);
        maxValues = fields.number("max_values", 60);
        maxFrames = fields.number("max_frames", 40);
        outputChars = fields.number("output_chars", 4000);
        contextLines = fields.number("context_lines", 4);
    }
}
