package org.parcelroute.network;

import java.util.Collections;
import java.util.LinkedList;
import java.util.List;

/** The depots from the first to the last, and how long it takes. */
public final class Route {

    private final List<String> stops;
    private final int minutes;

    private Route(List<String> stops, int minutes) {
        this.stops = Collections.unmodifiableList(stops);
        this.minutes = minutes;
    }

    static Route endingIn(Visit last) {
        LinkedList<String> stops = new LinkedList<>();
        for (Visit visit = last; visit != null; visit = visit.previous()) {
            stops.addFirst(visit.depot());
        }
        return new Route(stops, last.minutes());
    }

    public List<String> stops() {
        return stops;
    }

    public int minutes() {
        return minutes;
    }

    /** Where a parcel goes first when it leaves. */
    public String firstStop() {
        return stops.get(Math.min(1, stops.size() - 1));
    }

    @Override
    public String toString() {
        return String.join(" > ", stops) + ", " + minutes + " min";
    }
}
