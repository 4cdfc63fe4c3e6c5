package org.lendingdesk.desk;

import java.time.LocalDate;

import org.lendingdesk.readers.Reader;

/** Who has a copy, and until when. */
public final class Loan {

    private final Reader reader;
    private final LocalDate due;

    Loan(Reader reader, LocalDate due) {
        this.reader = reader;
        this.due = due;
    }

    public Reader reader() {
        return reader;
    }

    public LocalDate due() {
        return due;
    }
}
