package org.lendingdesk.calendar;

import java.time.DayOfWeek;
import java.time.LocalDate;
import java.util.EnumSet;
import java.util.HashSet;
import java.util.Set;

/** On which days a branch is open. */
public final class OpeningDays {

    private final Set<DayOfWeek> weekdays;
    private final Set<LocalDate> holidays = new HashSet<>();

    OpeningDays(Set<DayOfWeek> weekdays) {
        this.weekdays = EnumSet.copyOf(weekdays);
    }

    public OpeningDays closedOn(DayOfWeek weekday) {
        weekdays.remove(weekday);
        return this;
    }

    public OpeningDays openOn(DayOfWeek weekday) {
        weekdays.add(weekday);
        return this;
    }

    public OpeningDays holiday(LocalDate day) {
        holidays.add(day);
        return this;
    }

    public boolean isOpen(LocalDate day) {
        return weekdays.contains(day.getDayOfWeek()) && !holidays.contains(day);
    }

    /** The day itself, or else the next one on which the branch is open. */
    public LocalDate openFrom(LocalDate day) {
        LocalDate open = day;
        while (!isOpen(open)) {
            open = open.plusDays(1);
        }
        return open;
    }
}
