package io.rowpipe.records;

import java.util.Iterator;
import java.util.NoSuchElementException;

/** An iterator that finds out only by fetching an element whether there is one. */
public abstract class Lookahead<T> implements Iterator<T> {

    private T upcoming;

    /** The next element; null after the last one. */
    protected abstract T fetch();

    @Override
    public final boolean hasNext() {
        if (upcoming == null) {
            upcoming = fetch();
        }
        return upcoming != null;
    }

    @Override
    public final T next() {
        T current = upcoming == null ? fetch() : upcoming;
        if (current == null) {
            throw new NoSuchElementException();
        }
        upcoming = null;
        return current;
    }
}
