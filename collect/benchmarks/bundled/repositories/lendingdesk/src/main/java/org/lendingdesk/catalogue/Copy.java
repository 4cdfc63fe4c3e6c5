package org.lendingdesk.catalogue;

/** One copy of a book, by the number on its label. */
public final class Copy {

    private final int number;
    private final String title;

    Copy(int number, String title) {
        this.number = number;
        this.title = title;
    }

    public int number() {
        return number;
    }

    public String title() {
        return title;
    }

    @Override
    public String toString() {
        return title + " #" + number;
    }
}
