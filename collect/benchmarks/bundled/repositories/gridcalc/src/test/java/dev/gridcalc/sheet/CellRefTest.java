package dev.gridcalc.sheet;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class CellRefTest {

    @ParameterizedTest
    @CsvSource({"A1, 0, 0", "Z9, 8, 25", "AA10, 9, 26", "AZ1, 0, 51", "BA1, 0, 52", "ABC7, 6, 730"})
    void names(String name, int row, int column) {
        assertEquals(new CellRef(row, column), CellRef.parse(name));
        assertEquals(name, new CellRef(row, column).toString());
    }

    @ParameterizedTest
    @ValueSource(strings = {"", "A", "12", "A0", "A-1"})
    void whatIsNoName(String name) {
        assertThrows(IllegalArgumentException.class, () -> CellRef.parse(name));
    }

    @Test
    void shifted() {
        assertEquals("D3", CellRef.parse("B1").shifted(2, 2).toString());
    }
}
