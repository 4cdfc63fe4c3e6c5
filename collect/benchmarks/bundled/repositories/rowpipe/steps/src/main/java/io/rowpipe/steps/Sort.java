package io.rowpipe.steps;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;

import io.rowpipe.records.Row;

/** Sorts by a column of numbers, the smallest first. */
final class Sort extends Step {

    private String column;

    Sort(Options options) {
        super(options);
    }

    @Override
    void configure(Options options) {
        column = options.get("column");
    }

    @Override
    Iterator<Row> apply(Iterator<Row> rows) {
        List<Row> sorted = new ArrayList<>();
        rows.forEachRemaining(sorted::add);
        sorted.sort(Comparator.comparingLong(row -> row.number(column)));
        return sorted.iterator();
    }
}
