package org.lendingdesk.desk;

import java.time.LocalDate;
import java.util.Comparator;

import org.lendingdesk.readers.Reader;

/** A reader waits for a book. */
final class Reservation {

    /** Teaching cards first, then by day, then in the order in which they were made. */
    static final Comparator<Reservation> ORDER = Comparator
            .comparing((Reservation each) -> each.reader.card())
            .thenComparing(each -> each.day)
            .thenComparing(each -> each.number);

    private final int number;
    private final Reader reader;
    private final LocalDate day;

    Reservation(int number, Reader reader, LocalDate day) {
        this.number = number;
        this.reader = reader;
        this.day = day;
    }

    Reader reader() {
        return reader;
    }
}
