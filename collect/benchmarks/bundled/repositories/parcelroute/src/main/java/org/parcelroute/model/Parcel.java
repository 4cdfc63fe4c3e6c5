package org.parcelroute.model;

/** One parcel on its way between two depots. Sizes are in millimetres, weights in grams. */
public final class Parcel {

    private static final int CUBIC_MILLIMETRES_PER_GRAM = 5_000;

    private final String id;
    private final String from;
    private final String to;
    private final int grams;
    private final int length;
    private final int width;
    private final int height;

    public Parcel(String id, String from, String to, int grams, int length, int width, int height) {
        this.id = id;
        this.from = from;
        this.to = to;
        this.grams = grams;
        this.length = length;
        this.width = width;
        this.height = height;
    }

    public String id() {
        return id;
    }

    public String from() {
        return from;
    }

    public String to() {
        return to;
    }

    public int grams() {
        return grams;
    }

    /** What a parcel of this size is taken to weigh, however light it is. */
    public int volumetricGrams() {
        return (int) ((long) length * width * height / CUBIC_MILLIMETRES_PER_GRAM);
    }

    /** What is paid for: the larger of the two weights. */
    public int chargeableGrams() {
        return Math.max(grams, volumetricGrams());
    }

    @Override
    public String toString() {
        return id + " " + from + "->" + to;
    }
}
