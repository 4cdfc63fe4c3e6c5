package org.parcelroute.network;

import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

import org.parcelroute.model.Depot;

/** Depots, and the lines that run between them. */
public final class Network {

    /** A line to another depot. */
    public static final class Link {
        final String to;
        final int minutes;

        Link(String to, int minutes) {
            this.to = to;
            this.minutes = minutes;
        }
    }

    private final Map<String, Depot> depots = new LinkedHashMap<>();
    private final Map<String, List<Link>> links = new LinkedHashMap<>();

    public Network add(Depot depot) {
        depots.put(depot.code(), depot);
        links.put(depot.code(), new ArrayList<>());
        return this;
    }

    /** A line that runs both ways. */
    public Network connect(String one, String other, int minutes) {
        linksOf(one).add(new Link(other, minutes));
        linksOf(other).add(new Link(one, minutes));
        return this;
    }

    public Depot depot(String code) {
        Depot depot = depots.get(code);
        if (depot == null) {
            throw new IllegalArgumentException("no depot " + code);
        }
        return depot;
    }

    List<Link> linksOf(String code) {
        return links.getOrDefault(depot(code).code(), Collections.emptyList());
    }
}
