package org.parcelroute.dispatch;

import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

import org.parcelroute.model.Parcel;
import org.parcelroute.network.Route;
import org.parcelroute.network.Router;

/** Puts the parcels of one depot into vans, by the depot that they go to first. */
public final class LoadPlanner {

    private final Router router;
    private final int capacity;

    /** The capacity of a van is in grams. */
    public LoadPlanner(Router router, int capacity) {
        this.router = router;
        this.capacity = capacity;
    }

    /** Vans in the order of their destinations, each filled with the heaviest parcels first. */
    public List<Van> plan(List<Parcel> parcels) {
        List<Van> vans = new ArrayList<>();
        byFirstStop(parcels).forEach((stop, waiting) -> fill(stop, waiting, vans));
        return vans;
    }

    private Map<String, List<Parcel>> byFirstStop(List<Parcel> parcels) {
        Map<String, List<Parcel>> waiting = new TreeMap<>();
        for (Parcel parcel : parcels) {
            Route route = router.route(parcel.from(), parcel.to()).orElseThrow(
                    () -> new IllegalStateException("no way for " + parcel));
            waiting.computeIfAbsent(route.firstStop(), key -> new ArrayList<>()).add(parcel);
        }
        return waiting;
    }

    private void fill(String stop, List<Parcel> waiting, List<Van> vans) {
        waiting.sort(Comparator.comparingInt(Parcel::grams).reversed());
        List<Parcel> load = new ArrayList<>();
        int grams = 0;
        for (Parcel parcel : waiting) {
            if (grams + parcel.grams() > capacity && !load.isEmpty()) {
                vans.add(new Van(stop, load));
                load.clear();
                grams = 0;
            }
            load.add(parcel);
            grams += parcel.grams();
        }
        vans.add(new Van(stop, load));
    }
}
