package org.lendingdesk.calendar;

import java.time.DayOfWeek;
import java.util.Collection;
import java.util.EnumSet;
import java.util.Set;

/** Branches that open on the same days, as long as nothing else is said. */
public final class Region {

    private final Set<DayOfWeek> weekdays;

    public Region(Collection<DayOfWeek> weekdays) {
        this.weekdays = EnumSet.copyOf(weekdays);
    }

    /** The days of one more branch. */
    public OpeningDays branch() {
        return new OpeningDays(weekdays);
    }
}
