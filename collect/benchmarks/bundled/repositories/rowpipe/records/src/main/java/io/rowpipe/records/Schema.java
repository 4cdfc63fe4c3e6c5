package io.rowpipe.records;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

/** The names of the columns of a table. */
public final class Schema {

    private final List<String> columns;

    public Schema(String... columns) {
        this.columns = Collections.unmodifiableList(Arrays.asList(columns.clone()));
    }

    public List<String> columns() {
        return columns;
    }

    public int size() {
        return columns.size();
    }

    int index(String column) {
        int index = columns.indexOf(column);
        if (index < 0) {
            throw new IllegalArgumentException("no column " + column + "; there are " + columns);
        }
        return index;
    }
}
