package org.parcelroute.dispatch;

import java.util.List;
import java.util.stream.Collectors;

import org.parcelroute.model.Parcel;

/** The papers that the drivers take along. */
public final class Manifest {

    private Manifest() {
    }

    /** One line a van: where it goes, its parcels and their weight in kilograms. */
    public static String of(List<Van> vans) {
        return vans.stream().map(Manifest::line).collect(Collectors.joining("\n"));
    }

    private static String line(Van van) {
        String ids = van.load().stream().map(Parcel::id).collect(Collectors.joining(","));
        return String.format(
                "%s: %s (%d.%03d kg)",
                van.destination(), ids, van.grams() / 1000, van.grams() % 1000);
    }
}
