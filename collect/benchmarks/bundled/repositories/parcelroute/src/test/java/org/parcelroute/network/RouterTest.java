package org.parcelroute.network;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;

import java.util.Arrays;
import java.util.Collections;

import org.junit.Test;
import org.parcelroute.Networks;
import org.parcelroute.model.Depot;

public class RouterTest {

    private final Router router = new Router(Networks.coast());

    @Test
    public void directLine() {
        Route route = router.route("ABB", "CAL").get();
        assertEquals(Arrays.asList("ABB", "CAL"), route.stops());
        assertEquals(40, route.minutes());
    }

    @Test
    public void aChangeIsFasterThanTheDirectLine() {
        Route route = router.route("BRO", "CAL").get();
        assertEquals("BRO > ABB > CAL, 65 min", route.toString());
    }

    @Test
    public void throughTheWholeNetwork() {
        assertEquals("BRO > ABB > CAL > DUN > ELM > FAR, 235 min",
                router.route("BRO", "FAR").get().toString());
    }

    @Test
    public void toWhereOneIs() {
        Route route = router.route("DUN", "DUN").get();
        assertEquals(Collections.singletonList("DUN"), route.stops());
        assertEquals(0, route.minutes());
        assertEquals("DUN", route.firstStop());
    }

    @Test
    public void noLineLeadsToTheIsland() {
        assertFalse(router.route("ABB", "GUL").isPresent());
    }

    @Test(expected = IllegalArgumentException.class)
    public void unknownDepot() {
        router.route("ABB", "XXX");
    }

    @Test
    public void manyShortHopsBeatTheDirectLine() {
        Network network = new Network()
                .add(new Depot("PIER", 1))
                .add(new Depot("MILL", 1))
                .add(new Depot("YARD", 1))
                .add(new Depot("FORT", 2))
                .connect("MILL", "YARD", 10)
                .connect("PIER", "YARD", 45)
                .connect("PIER", "MILL", 15)
                .connect("PIER", "FORT", 45)
                .connect("YARD", "FORT", 10);
        assertEquals("PIER > MILL > YARD > FORT, 35 min",
                new Router(network).route("PIER", "FORT").get().toString());
    }
}
