package org.lendingdesk.calendar;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertTrue;

import java.time.DayOfWeek;
import java.time.LocalDate;
import java.util.EnumSet;

import org.junit.Test;

public class OpeningDaysTest {

    private static final LocalDate SATURDAY = LocalDate.of(2024, 3, 9);

    private final Region region =
            new Region(EnumSet.range(DayOfWeek.MONDAY, DayOfWeek.FRIDAY));
    private final OpeningDays town = region.branch().openOn(DayOfWeek.SATURDAY);

    @Test
    public void sundayIsClosed() {
        assertTrue(town.isOpen(SATURDAY));
        assertFalse(town.isOpen(SATURDAY.plusDays(1)));
        assertEquals(SATURDAY.plusDays(2), town.openFrom(SATURDAY.plusDays(1)));
    }

    @Test
    public void holidaysAreSkipped() {
        town.holiday(SATURDAY.plusDays(2));
        assertEquals(SATURDAY.plusDays(3), town.openFrom(SATURDAY.plusDays(1)));
    }

    @Test
    public void closedOnMondays() {
        OpeningDays village = region.branch().closedOn(DayOfWeek.MONDAY);
        assertEquals(SATURDAY.plusDays(3), village.openFrom(SATURDAY.plusDays(1)));
    }
}
