package io.rowpipe.records;

import java.util.Arrays;

/** One row of a table. */
public final class Row {

    private final Schema schema;
    private final String[] values;

    Row(Schema schema, String[] values) {
        this.schema = schema;
        this.values = values;
    }

    public Schema schema() {
        return schema;
    }

    public String get(String column) {
        return values[schema.index(column)];
    }

    public boolean isMissing(String column) {
        return get(column).isEmpty();
    }

    /** Raises NumberFormatException where the column holds no whole number. */
    public long number(String column) {
        return Long.parseLong(get(column));
    }

    /** The same row with another value in one column. */
    public Row with(String column, Object value) {
        String[] changed = values.clone();
        changed[schema.index(column)] = String.valueOf(value);
        return new Row(schema, changed);
    }

    /** A row of the same table with empty columns. */
    public Row blank() {
        String[] empty = new String[values.length];
        Arrays.fill(empty, "");
        return new Row(schema, empty);
    }

    @Override
    public String toString() {
        return String.join(",", values);
    }
}
