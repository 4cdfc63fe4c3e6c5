package io.rowpipe.steps;

import java.util.Iterator;

import io.rowpipe.records.Lookahead;
import io.rowpipe.records.Row;

/** Adds a row with the sum of a column below the last row; nothing where there are no rows. */
final class Total extends Step {

    private String column;

    Total(Options options) {
        super(options);
    }

    @Override
    void configure(Options options) {
        column = options.get("column");
    }

    @Override
    Iterator<Row> apply(Iterator<Row> rows) {
        return new Lookahead<Row>() {
            private long sum;
            private Row total;

            @Override
            protected Row fetch() {
                if (!rows.hasNext()) {
                    Row last = total;
                    total = null;
                    return last;
                }
                Row row = rows.next();
                sum += row.number(column);
                if (!rows.hasNext()) {
                    total = row.blank().with(column, sum);
                }
                return row;
            }
        };
    }
}
