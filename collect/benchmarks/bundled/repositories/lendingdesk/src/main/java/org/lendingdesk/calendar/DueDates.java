package org.lendingdesk.calendar;

import java.time.LocalDate;
import java.time.temporal.ChronoUnit;

/** When books are due, and how late they come. */
public final class DueDates {

    private final OpeningDays openingDays;
    private final int loanDays;

    public DueDates(OpeningDays openingDays, int loanDays) {
        this.openingDays = openingDays;
        this.loanDays = loanDays;
    }

    /** A book can't be due while the branch is closed. */
    public LocalDate dueAfter(LocalDate lent) {
        return openingDays.openFrom(lent.plusDays(loanDays));
    }

    /** Days past the due date; 0 for a book that is back in time. */
    public long daysLate(LocalDate due, LocalDate back) {
        return Math.max(0, ChronoUnit.DAYS.between(due, back));
    }
}
