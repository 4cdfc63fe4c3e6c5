package org.parcelroute.network;

/** What is known so far of the way to one depot. */
final class Visit implements Comparable<Visit> {

    private final String depot;
    private Visit previous;
    private int minutes;

    Visit(String depot) {
        this.depot = depot;
    }

    String depot() {
        return depot;
    }

    Visit previous() {
        return previous;
    }

    int minutes() {
        return minutes;
    }

    void reach(Visit from, int afterMinutes) {
        previous = from;
        minutes = afterMinutes;
    }

    @Override
    public int compareTo(Visit other) {
        return Integer.compare(minutes, other.minutes);
    }
}
