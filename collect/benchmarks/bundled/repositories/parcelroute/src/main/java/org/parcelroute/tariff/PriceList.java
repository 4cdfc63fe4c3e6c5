package org.parcelroute.tariff;

import java.util.EnumMap;
import java.util.Map;
import java.util.NavigableMap;
import java.util.TreeMap;

/** Prices in cents by distance and by the largest weight, in grams, that they hold for. */
public final class PriceList {

    private final Map<Distance, NavigableMap<Integer, Integer>> bands =
            new EnumMap<>(Distance.class);

    public PriceList band(Distance distance, int upToGrams, int cents) {
        bands.computeIfAbsent(distance, key -> new TreeMap<>()).put(upToGrams, cents);
        return this;
    }

    /** The price of the first band that holds the weight. */
    public int cents(Distance distance, int grams) {
        NavigableMap<Integer, Integer> prices = bands.get(distance);
        Map.Entry<Integer, Integer> band = prices == null ? null : prices.ceilingEntry(grams);
        if (band == null) {
            throw new IllegalArgumentException("no price for " + grams + " g, " + distance);
        }
        return band.getValue();
    }

    public static PriceList standard() {
        return new PriceList()
                .band(Distance.LOCAL, 2_000, 390)
                .band(Distance.LOCAL, 10_000, 590)
                .band(Distance.LOCAL, 700_000, 2_400)
                .band(Distance.REGIONAL, 2_000, 490)
                .band(Distance.REGIONAL, 10_000, 790)
                .band(Distance.REGIONAL, 700_000, 3_900)
                .band(Distance.NATIONAL, 2_000, 590)
                .band(Distance.NATIONAL, 10_000, 990)
                .band(Distance.NATIONAL, 700_000, 5_900);
    }
}
