package org.parcelroute.tariff;

import static org.junit.Assert.assertEquals;

import java.util.Collections;

import org.junit.Test;
import org.parcelroute.Networks;
import org.parcelroute.model.Parcel;

public class QuoterTest {

    private final Quoter quoter = new Quoter(Networks.coast(), PriceList.standard());

    @Test
    public void withinTheCity() {
        assertEquals(390, quoter.quote(Networks.parcel("p1", "ABB", "BRO", 1_500)));
    }

    @Test
    public void withinTheOtherCity() {
        assertEquals(390, quoter.quote(Networks.parcel("p1", "DUN", "ELM", 1_500)));
    }

    @Test
    public void regional() {
        assertEquals(490, quoter.quote(Networks.parcel("p1", "ABB", "CAL", 800)));
        assertEquals(790, quoter.quote(Networks.parcel("p2", "DUN", "FAR", 9_999)));
    }

    @Test
    public void national() {
        assertEquals(990, quoter.quote(Networks.parcel("p1", "ABB", "DUN", 10_000)));
    }

    @Test
    public void aLightParcelIsPaidBySize() {
        Parcel lampshade = new Parcel("p1", "ABB", "BRO", 700, 400, 400, 200);
        assertEquals(6_400, lampshade.chargeableGrams());
        assertEquals(590, quoter.quote(lampshade));
    }

    @Test
    public void furnitureIsPaidBySize() {
        Parcel sofa = new Parcel("p1", "ABB", "DUN", 38_000, 2_100, 1_100, 950);
        assertEquals(438_900, sofa.chargeableGrams());
        assertEquals(5_900, quoter.quote(sofa));
    }

    @Test
    public void aBoxOfFoamBoards() {
        Parcel boards = new Parcel("p1", "ABB", "CAL", 1_900, 2_500, 1_250, 700);
        assertEquals(3_900, quoter.quote(boards));
    }

    @Test(expected = IllegalArgumentException.class)
    public void tooHeavy() {
        quoter.quote(Networks.parcel("p1", "ABB", "BRO", 700_001));
    }

    @Test
    public void invoice() {
        Parcel parcel = Networks.parcel("p1", "ABB", "BRO", 1_500);
        assertEquals(2 * 390, quoter.invoice(Collections.nCopies(2, parcel)));
        assertEquals(20 * 351, quoter.invoice(Collections.nCopies(20, parcel)));
    }
}
