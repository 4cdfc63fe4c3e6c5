package org.parcelroute.model;

/** A place where parcels change vehicles. */
public final class Depot {

    private final String code;
    private final Integer zone;

    public Depot(String code, int zone) {
        this.code = code;
        this.zone = zone;
    }

    public String code() {
        return code;
    }

    /** The number of the tariff zone, as the authority assigns it: 1 to 999. */
    public Integer zone() {
        return zone;
    }

    @Override
    public String toString() {
        return code + " (zone " + zone + ")";
    }
}
