package org.lendingdesk.desk;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.math.BigDecimal;
import java.time.DayOfWeek;
import java.time.LocalDate;
import java.util.Arrays;
import java.util.Collections;
import java.util.EnumSet;

import org.junit.Before;
import org.junit.Test;
import org.lendingdesk.calendar.DueDates;
import org.lendingdesk.calendar.OpeningDays;
import org.lendingdesk.calendar.Region;
import org.lendingdesk.catalogue.Catalogue;
import org.lendingdesk.readers.Reader;
import org.lendingdesk.readers.Reader.Card;

public class LendingDeskTest {

    private static final LocalDate FRIDAY = LocalDate.of(2024, 3, 1);

    private final Region region =
            new Region(EnumSet.range(DayOfWeek.MONDAY, DayOfWeek.SATURDAY));
    private final Catalogue catalogue = new Catalogue();
    private final Reader ada = new Reader("Ada", Card.REGULAR);
    private final Reader ben = new Reader("Ben", Card.REGULAR);
    private final Reader cem = new Reader("Cem", Card.REGULAR);
    private final Reader dora = new Reader("Dora", Card.TEACHING);
    private LendingDesk desk;

    @Before
    public void open() {
        for (String title : "Emma Emma Ulysses Middlemarch Walden".split(" ")) {
            catalogue.add(title);
        }
        desk = deskOf(region.branch());
    }

    private LendingDesk deskOf(OpeningDays days) {
        return new LendingDesk(catalogue, new DueDates(days, 14));
    }

    @Test
    public void dueInTwoWeeks() {
        assertEquals(LocalDate.of(2024, 3, 15), desk.lend(ada, 0, FRIDAY).due());
    }

    @Test
    public void notDueOnASunday() {
        assertEquals(LocalDate.of(2024, 3, 18), desk.lend(ada, 0, FRIDAY.plusDays(2)).due());
    }

    @Test
    public void eachBranchHasItsOwnDays() {
        LendingDesk village = deskOf(region.branch()
                .closedOn(DayOfWeek.FRIDAY).closedOn(DayOfWeek.SATURDAY));
        assertEquals(LocalDate.of(2024, 3, 18), village.lend(ada, 0, FRIDAY).due());
        LendingDesk harbour = deskOf(region.branch());
        assertEquals(LocalDate.of(2024, 3, 15), harbour.lend(ben, 1, FRIDAY).due());
    }

    @Test
    public void aLentCopyIsNotLentAgain() {
        desk.lend(ada, 0, FRIDAY);
        RefusedException refused =
                assertThrows(RefusedException.class, () -> desk.lend(ben, 0, FRIDAY));
        assertEquals("Emma #0 is lent", refused.getMessage());
    }

    @Test
    public void threeBooksAtMost() {
        desk.lend(ada, 0, FRIDAY);
        desk.lend(ada, 2, FRIDAY);
        desk.lend(ada, 3, FRIDAY);
        assertThrows(RefusedException.class, () -> desk.lend(ada, 4, FRIDAY));
    }

    @Test
    public void booksComeBackInAnyOrder() {
        desk.lend(ada, 4, FRIDAY);
        desk.lend(ada, 2, FRIDAY);
        desk.lend(ada, 1, FRIDAY);
        desk.giveBack(1, FRIDAY);
        assertEquals(Arrays.asList(4, 2), ada.borrowed());
        desk.giveBack(4, FRIDAY);
        assertEquals(Collections.singletonList(2), ada.borrowed());
    }

    @Test
    public void theFirstBookComesBack() {
        desk.lend(ada, 0, FRIDAY);
        desk.giveBack(0, FRIDAY.plusDays(3));
        assertTrue(ada.borrowed().isEmpty());
        assertTrue(ada.account().isClear());
    }

    @Test
    public void whatWasNotLentCanNotComeBack() {
        assertThrows(RefusedException.class, () -> desk.giveBack(0, FRIDAY));
    }

    @Test
    public void lateBooksCost() {
        desk.lend(ada, 0, FRIDAY);
        desk.giveBack(0, FRIDAY.plusDays(20));
        assertEquals(new BigDecimal("1.50"), ada.account().owed());
        RefusedException refused =
                assertThrows(RefusedException.class, () -> desk.lend(ada, 0, FRIDAY.plusDays(20)));
        assertEquals("Ada owes 1.50", refused.getMessage());
    }

    @Test
    public void whoHasPaidMayBorrowAgain() {
        desk.lend(ada, 0, FRIDAY);
        desk.giveBack(0, FRIDAY.plusDays(20));
        ada.account().pay(new BigDecimal("2.00"));
        assertEquals(ada, desk.lend(ada, 2, FRIDAY.plusDays(20)).reader());
    }

    @Test
    public void aReservedCopyIsPutAside() {
        desk.lend(ada, 2, FRIDAY);
        desk.reserve(ben, "Ulysses", FRIDAY);
        assertEquals(ben, desk.giveBack(2, FRIDAY.plusDays(1)).get());
        assertThrows(RefusedException.class, () -> desk.lend(cem, 2, FRIDAY.plusDays(1)));
        assertEquals(ben, desk.lend(ben, 2, FRIDAY.plusDays(2)).reader());
        assertFalse(desk.giveBack(2, FRIDAY.plusDays(3)).isPresent());
    }

    @Test
    public void teachingCardsComeFirst() {
        desk.reserve(ada, "Walden", FRIDAY);
        desk.reserve(ben, "Walden", FRIDAY.plusDays(1));
        desk.reserve(dora, "Walden", FRIDAY.plusDays(2));
        assertEquals(Arrays.asList("Dora", "Ada", "Ben"), desk.waitingFor("Walden"));
    }

    @Test
    public void aBusyDay() {
        desk.reserve(ben, "Emma", FRIDAY);
        desk.reserve(dora, "Emma", FRIDAY);
        desk.reserve(ada, "Emma", FRIDAY);
        desk.reserve(cem, "Walden", FRIDAY);
        assertEquals(Arrays.asList("Dora", "Ben", "Ada"), desk.waitingFor("Emma"));
    }
}
