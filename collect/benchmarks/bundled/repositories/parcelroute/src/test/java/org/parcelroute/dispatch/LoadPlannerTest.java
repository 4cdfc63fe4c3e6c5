package org.parcelroute.dispatch;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertTrue;
import static org.parcelroute.Networks.parcel;

import java.util.Arrays;
import java.util.Collections;
import java.util.List;

import org.junit.Test;
import org.parcelroute.Networks;
import org.parcelroute.model.Parcel;
import org.parcelroute.network.Router;

public class LoadPlannerTest {

    private final LoadPlanner planner = new LoadPlanner(new Router(Networks.coast()), 20_000);

    @Test
    public void nothingToDo() {
        assertTrue(planner.plan(Collections.emptyList()).isEmpty());
    }

    @Test
    public void oneVanForEachFirstStop() {
        List<Van> vans = planner.plan(Arrays.asList(
                parcel("p1", "CAL", "FAR", 4_000),
                parcel("p2", "CAL", "BRO", 2_500),
                parcel("p3", "CAL", "DUN", 5_000)));
        assertEquals("ABB: p2 (2.500 kg)\nDUN: p3,p1 (9.000 kg)", Manifest.of(vans));
    }

    @Test
    public void aFullVanIsFollowedByAnother() {
        List<Van> vans = planner.plan(Arrays.asList(
                parcel("p1", "ABB", "CAL", 6_000),
                parcel("p2", "ABB", "CAL", 11_000),
                parcel("p3", "ABB", "CAL", 8_000),
                parcel("p4", "ABB", "CAL", 12_000)));
        assertEquals(
                "CAL: p4 (12.000 kg)\nCAL: p2,p3 (19.000 kg)\nCAL: p1 (6.000 kg)",
                Manifest.of(vans));
    }

    @Test
    public void whatIsTooHeavyGoesAlone() {
        List<Van> vans = planner.plan(
                Collections.singletonList(parcel("p1", "ABB", "BRO", 30_000)));
        assertEquals(1, vans.size());
        assertEquals(30_000, vans.get(0).grams());
    }

    @Test
    public void theListOfParcelsIsLeftAlone() {
        List<Parcel> parcels = Arrays.asList(
                parcel("p1", "ABB", "CAL", 6_000), parcel("p2", "ABB", "CAL", 11_000));
        planner.plan(parcels);
        assertEquals("p1", parcels.get(0).id());
    }

    @Test(expected = IllegalStateException.class)
    public void noWay() {
        planner.plan(Collections.singletonList(parcel("p1", "ABB", "GUL", 100)));
    }
}
