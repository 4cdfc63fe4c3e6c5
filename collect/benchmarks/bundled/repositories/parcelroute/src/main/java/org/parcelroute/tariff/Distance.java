package org.parcelroute.tariff;

import org.parcelroute.model.Depot;
import org.parcelroute.network.Network;

/** How far a parcel goes, in the terms of the tariff. */
public enum Distance {
    LOCAL,
    REGIONAL,
    NATIONAL;

    /** Local within one zone, regional within one hundred of zone numbers, else national. */
    static Distance between(Network network, String from, String to) {
        Depot start = network.depot(from);
        Depot end = network.depot(to);
        if (start.zone().equals(end.zone())) {
            return LOCAL;
        }
        return start.zone() / 100 == end.zone() / 100 ? REGIONAL : NATIONAL;
    }
}
