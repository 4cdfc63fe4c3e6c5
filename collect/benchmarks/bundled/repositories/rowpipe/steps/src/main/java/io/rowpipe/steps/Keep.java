package io.rowpipe.steps;

import io.rowpipe.records.Row;

/** Keeps the rows that have a certain value in a column. */
final class Keep extends RowByRow {

    private String column;
    private String value;

    Keep(Options options) {
        super(options);
    }

    @Override
    void configure(Options options) {
        column = options.get("column");
        value = options.get("is");
    }

    @Override
    Row change(Row row) {
        return row.get(column).equals(value) ? row : null;
    }
}
