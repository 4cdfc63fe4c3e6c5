package org.parcelroute.dispatch;

import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

import org.parcelroute.model.Parcel;

/** A van with its load. */
public final class Van {

    private final String destination;
    private final List<Parcel> load;

    Van(String destination, List<Parcel> load) {
        this.destination = destination;
        this.load = Collections.unmodifiableList(new ArrayList<>(load));
    }

    /** The depot that it goes to. */
    public String destination() {
        return destination;
    }

    public List<Parcel> load() {
        return load;
    }

    public int grams() {
        return load.stream().mapToInt(Parcel::grams).sum();
    }
}
