package io.rowpipe.steps;

import io.rowpipe.records.Row;

/** Puts a value where a column has none: a zero, unless another one is named. */
final class Fill extends RowByRow {

    private String column;
    private String value;

    Fill(Options options) {
        super(options);
    }

    @Override
    void configure(Options options) {
        column = options.get("column");
        value = options.get("with", "0");
    }

    @Override
    Row change(Row row) {
        return row.isMissing(column) ? row.with(column, value) : row;
    }
}
