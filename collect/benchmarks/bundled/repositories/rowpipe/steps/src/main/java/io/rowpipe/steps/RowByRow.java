package io.rowpipe.steps;

import java.util.Iterator;

import io.rowpipe.records.Lookahead;
import io.rowpipe.records.Row;

/** A step that turns each row into another one, or drops it. */
abstract class RowByRow extends Step {

    RowByRow(Options options) {
        super(options);
    }

    /** The row that takes the place of this one; null for none. */
    abstract Row change(Row row);

    @Override
    final Iterator<Row> apply(Iterator<Row> rows) {
        return new Lookahead<Row>() {
            @Override
            protected Row fetch() {
                while (rows.hasNext()) {
                    Row changed = change(rows.next());
                    if (changed != null) {
                        return changed;
                    }
                }
                return null;
            }
        };
    }
}
