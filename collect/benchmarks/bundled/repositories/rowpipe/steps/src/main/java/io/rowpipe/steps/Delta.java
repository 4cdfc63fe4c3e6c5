package io.rowpipe.steps;

import io.rowpipe.records.Row;

/** Replaces the readings of a meter by what was used since the row before; drops the first row. */
final class Delta extends RowByRow {

    private String column;
    private Row previous;

    Delta(Options options) {
        super(options);
    }

    @Override
    void configure(Options options) {
        column = options.get("column");
    }

    @Override
    Row change(Row row) {
        Row before = previous;
        previous = row;
        if (before == null) {
            return null;
        }
        return row.with(column, row.number(column) - before.number(column));
    }
}
