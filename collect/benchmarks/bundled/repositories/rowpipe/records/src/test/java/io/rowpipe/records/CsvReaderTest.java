package io.rowpipe.records;

import static org.junit.Assert.assertEquals;
import static org.junit.Assert.assertFalse;
import static org.junit.Assert.assertThrows;
import static org.junit.Assert.assertTrue;

import java.io.StringReader;
import java.util.NoSuchElementException;

import org.junit.Test;

public class CsvReaderTest {

    private static CsvReader reader(String text) {
        return new CsvReader(new StringReader(text));
    }

    @Test
    public void rowsByColumn() {
        CsvReader reader = reader("day,kwh\nmon,12\ntue,\n");
        Row monday = reader.next();
        assertEquals("mon", monday.get("day"));
        assertEquals(12, monday.number("kwh"));
        assertTrue(reader.hasNext());
        assertTrue(reader.next().isMissing("kwh"));
        assertFalse(reader.hasNext());
    }

    @Test
    public void emptyLinesAreSkipped() {
        CsvReader reader = reader("day,kwh\n\nmon,12\n  \n");
        assertEquals("mon,12", reader.next().toString());
        assertFalse(reader.hasNext());
    }

    @Test
    public void spacesAreCutOff() {
        assertEquals("mon,12", reader("day,kwh\n mon , 12\n").next().toString());
    }

    @Test
    public void aRowTooMany() {
        CsvReader reader = reader("day,kwh\n");
        assertThrows(NoSuchElementException.class, reader::next);
    }

    @Test
    public void wrongNumberOfColumns() {
        for (String line : new String[] {"mon", "mon,1,2"}) {
            CsvFormatException error = assertThrows(
                    CsvFormatException.class, () -> reader("day,kwh\n" + line + "\n").next());
            assertEquals("line 2: 2 columns are expected", error.getMessage());
        }
    }

    @Test
    public void noHeader() {
        assertThrows(CsvFormatException.class, () -> reader(""));
    }

    @Test
    public void aChangedRowIsAnother() {
        Row row = reader("day,kwh\nmon,12\n").next();
        assertEquals("mon,13", row.with("kwh", 13).toString());
        assertEquals("mon,12", row.toString());
        assertEquals(",", row.blank().toString());
    }

    @Test
    public void unknownColumn() {
        Row row = reader("day,kwh\nmon,12\n").next();
        assertThrows(IllegalArgumentException.class, () -> row.get("night"));
    }
}
