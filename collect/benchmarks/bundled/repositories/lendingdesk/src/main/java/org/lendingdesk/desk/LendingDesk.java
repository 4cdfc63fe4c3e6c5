package org.lendingdesk.desk;

import java.math.BigDecimal;
import java.time.LocalDate;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

import org.lendingdesk.calendar.DueDates;
import org.lendingdesk.catalogue.Catalogue;
import org.lendingdesk.catalogue.Copy;
import org.lendingdesk.readers.Reader;

/** Where books are lent and given back. */
public final class LendingDesk {

    private static final int MOST_LOANS = 3;
    private static final BigDecimal FEE_PER_DAY = new BigDecimal("0.25");

    private final Catalogue catalogue;
    private final DueDates dueDates;
    private final WaitingList waiting = new WaitingList();
    private final Map<Integer, Loan> loans = new HashMap<>();
    private final Map<Integer, Reader> putAside = new HashMap<>();

    public LendingDesk(Catalogue catalogue, DueDates dueDates) {
        this.catalogue = catalogue;
        this.dueDates = dueDates;
    }

    /** Raises RefusedException, with the reason. */
    public Loan lend(Reader reader, int copyNumber, LocalDate day) {
        Copy copy = catalogue.copy(copyNumber);
        if (loans.containsKey(copyNumber)) {
            throw new RefusedException(copy + " is lent");
        }
        if (putAside.getOrDefault(copyNumber, reader) != reader) {
            throw new RefusedException(copy + " is put aside for somebody else");
        }
        if (!reader.account().isClear()) {
            throw new RefusedException(reader + " owes " + reader.account().owed());
        }
        if (reader.borrowed().size() >= MOST_LOANS) {
            throw new RefusedException(reader + " has " + MOST_LOANS + " books");
        }
        Loan loan = new Loan(reader, dueDates.dueAfter(day));
        putAside.remove(copyNumber);
        loans.put(copyNumber, loan);
        reader.takeHome(copyNumber);
        return loan;
    }

    /** Charges for a late book. The result is the reader for whom it is put aside now. */
    public Optional<Reader> giveBack(int copyNumber, LocalDate day) {
        Copy copy = catalogue.copy(copyNumber);
        Loan loan = loans.remove(copyNumber);
        if (loan == null) {
            throw new RefusedException(copy + " is not lent");
        }
        loan.reader().bringBack(copyNumber);
        long late = dueDates.daysLate(loan.due(), day);
        if (late > 0) {
            loan.reader().account().charge(FEE_PER_DAY, late);
        }
        Optional<Reader> next = waiting.next(copy.title());
        next.ifPresent(reader -> putAside.put(copyNumber, reader));
        return next;
    }

    public void reserve(Reader reader, String title, LocalDate day) {
        waiting.add(title, reader, day);
    }

    /** Those who wait for a title, the first in front. */
    public List<String> waitingFor(String title) {
        return waiting.names(title);
    }
}
