package org.parcelroute;

import org.parcelroute.model.Depot;
import org.parcelroute.model.Parcel;
import org.parcelroute.network.Network;

/** What the tests share. */
public final class Networks {

    private Networks() {
    }

    /** Two cities with their suburbs, a harbour, and an island that no line serves. */
    public static Network coast() {
        return new Network()
                .add(new Depot("ABB", 12))
                .add(new Depot("BRO", 12))
                .add(new Depot("CAL", 47))
                .add(new Depot("DUN", 310))
                .add(new Depot("ELM", 310))
                .add(new Depot("FAR", 385))
                .add(new Depot("GUL", 901))
                .connect("ABB", "BRO", 25)
                .connect("ABB", "CAL", 40)
                .connect("BRO", "CAL", 90)
                .connect("CAL", "DUN", 120)
                .connect("DUN", "ELM", 30)
                .connect("DUN", "FAR", 70)
                .connect("ELM", "FAR", 20);
    }

    public static Parcel parcel(String id, String from, String to, int grams) {
        return new Parcel(id, from, to, grams, 200, 150, 100);
    }
}
