package io.rowpipe.steps;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertThrows;

import java.io.StringReader;

import org.junit.Test;

public class PipelineTest {

    private static final String METER =
            "day,house,kwh\n"
            + "mon,A,100\n"
            + "tue,A,112\n"
            + "tue,B,40\n"
            + "wed,A,130\n"
            + "wed,B,\n";

    private static String run(String steps) {
        return Pipeline.parse(steps).run(new StringReader(METER));
    }

    @Test
    public void keep() {
        assertEquals("tue,A,112\ntue,B,40\n", run("keep column=day is=tue"));
    }

    @Test
    public void keepNothing() {
        assertEquals("", run("keep column=day is=sun"));
    }

    @Test
    public void fill() {
        assertEquals("tue,B,40\nwed,B,0\n", run("keep column=house is=B | fill column=kwh"));
    }

    @Test
    public void fillWithAnotherValue() {
        assertEquals(
                "tue,B,40\nwed,B,40\n", run("keep column=house is=B | fill column=kwh with=40"));
    }

    @Test
    public void fillBeforeASum() {
        assertEquals(
                "wed,A,130\nwed,B,55\n,,185\n",
                run("keep column=day is=wed | fill column=kwh with=55 | total column=kwh"));
    }

    @Test
    public void delta() {
        assertEquals("tue,A,12\nwed,A,18\n", run("keep column=house is=A | delta column=kwh"));
    }

    @Test
    public void sort() {
        assertEquals(
                "wed,B,0\ntue,B,40\nmon,A,100\ntue,A,112\nwed,A,130\n",
                run("fill column=kwh | sort column=kwh"));
    }

    @Test
    public void total() {
        assertEquals(
                "mon,A,100\ntue,A,112\nwed,A,130\n,,342\n",
                run("keep column=house is=A | total column=kwh"));
    }

    @Test
    public void totalOfOneRow() {
        assertEquals("mon,A,100\n,,100\n", run("keep column=day is=mon | total column=kwh"));
    }

    @Test
    public void totalOfNothing() {
        assertEquals("", run("keep column=day is=sun | total column=kwh"));
    }

    @Test
    public void aPipelineCanBeRunAgain() {
        Pipeline pipeline = Pipeline.parse("keep column=house is=A | delta column=kwh");
        String first = pipeline.run(new StringReader(METER));
        assertEquals(first, pipeline.run(new StringReader(METER)));
    }

    @Test
    public void whatIsNoStep() {
        assertThrows(IllegalArgumentException.class, () -> Pipeline.parse("explode"));
        assertThrows(IllegalArgumentException.class, () -> run("keep column=day"));
    }
}
