package org.parcelroute.network;

import java.util.HashMap;
import java.util.Map;
import java.util.PriorityQueue;

/** The depots that were reached but not yet left, the nearest first. */
final class Frontier {

    private final Map<String, Visit> visits = new HashMap<>();
    private final PriorityQueue<Visit> open = new PriorityQueue<>();

    /** Takes note of a way to a depot, where it is the first or a faster one. */
    void offer(String depot, Visit from, int minutes) {
        Visit visit = visits.get(depot);
        if (visit == null) {
            visit = new Visit(depot);
            visits.put(depot, visit);
        } else if (visit.minutes() <= minutes) {
            return;
        }
        open.remove(visit);
        visit.reach(from, minutes);
        open.add(visit);
    }

    /** The nearest depot, which is left by this; null where none is open. */
    Visit next() {
        return open.poll();
    }
}
