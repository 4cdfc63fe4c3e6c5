package org.parcelroute.tariff;

import org.parcelroute.model.Parcel;
import org.parcelroute.network.Network;

/** Says what a parcel costs. */
public final class Quoter {

    private static final int REGULAR_CUSTOMER_PERCENT = 90;
    private static final int PARCELS_OF_A_REGULAR = 20;

    private final Network network;
    private final PriceList prices;

    public Quoter(Network network, PriceList prices) {
        this.network = network;
        this.prices = prices;
    }

    /** The price of one parcel, in cents. */
    public int quote(Parcel parcel) {
        Distance distance = Distance.between(network, parcel.from(), parcel.to());
        return prices.cents(distance, parcel.chargeableGrams());
    }

    /** The price of all of a customer's parcels of a month, in cents, rounded down. */
    public int invoice(Iterable<Parcel> parcels) {
        int total = 0;
        int count = 0;
        for (Parcel parcel : parcels) {
            total += quote(parcel);
            count++;
        }
        return count < PARCELS_OF_A_REGULAR ? total : total * REGULAR_CUSTOMER_PERCENT / 100;
    }
}
