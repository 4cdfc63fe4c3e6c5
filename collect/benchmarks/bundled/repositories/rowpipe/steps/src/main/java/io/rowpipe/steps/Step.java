package io.rowpipe.steps;

import java.util.Iterator;

import io.rowpipe.records.Row;

/** One thing that is done to all rows of a table, while they pass. */
abstract class Step {

    Step(Options options) {
        configure(options);
    }

    /** Takes what it needs to know from the options. */
    abstract void configure(Options options);

    abstract Iterator<Row> apply(Iterator<Row> rows);
}
