package dev.gridcalc.sheet;

import static org.junit.jupiter.api.Assertions.assertAll;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DisplayName;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.Test;

class SheetTest {

    private Sheet sheet;

    @BeforeEach
    void invoice() {
        sheet = new Sheet()
                .set("A1", "3").set("B1", "20").set("C1", "=A1*B1")
                .set("A2", "2").set("B2", "4.5").set("C2", "=A2*B2")
                .set("C3", "=SUM(C1:C2)");
    }

    @Test
    void formulasHaveValues() {
        assertAll(
                () -> assertEquals("60", sheet.show("C1")),
                () -> assertEquals("69", sheet.show("C3")),
                () -> assertEquals("", sheet.show("D9")));
    }

    @Test
    void usedCellsAreInOrder() {
        assertEquals("A1 B1 C1 A2 B2 C2 C3", sheet.usedCells());
    }

    @Test
    void aCellWithoutContentHasNoFormula() {
        assertThrows(IllegalArgumentException.class, () -> sheet.formula("D9"));
    }

    @Nested
    @DisplayName("A change")
    class Change {

        @Test
        void reachesTheTotal() {
            assertEquals("69", sheet.show("C3"));
            sheet.set("A1", "4");
            assertEquals("89", sheet.show("C3"));
        }

        @Test
        void reachesTheTotalEachTime() {
            for (int pieces = 1; pieces < 5; pieces++) {
                sheet.set("A1", String.valueOf(pieces));
                assertEquals(String.valueOf(pieces * 20 + 9), sheet.show("C3"));
            }
        }

        @Test
        void ofAFormulaLetsGoOfItsCells() {
            sheet.set("C1", "=B1");
            assertEquals("29", sheet.show("C3"));
            sheet.set("A1", "100");
            assertEquals("29", sheet.show("C3"));
        }

        @Test
        void fillsAnEmptyCellOfARange() {
            sheet.set("D1", "=COUNT(A1:B3)");
            assertEquals("4", sheet.show("D1"));
            sheet.set("A3", "1");
            assertEquals("5", sheet.show("D1"));
        }
    }

    @Nested
    @DisplayName("An error")
    class Errors {

        @Test
        void isShownWhereverItIsUsed() {
            sheet.set("A3", "=C3/D3");
            sheet.set("A4", "=A3+1");
            assertEquals("#DIV/0!", sheet.show("A4"));
            assertEquals("#DIV/0!", sheet.show("A3"));
        }

        @Test
        void goesAwayWithItsCause() {
            sheet.set("A3", "=C3/D3");
            assertEquals("#DIV/0!", sheet.show("A3"));
            sheet.set("D3", "3");
            assertEquals("23", sheet.show("A3"));
        }

        @Test
        void ofACircle() {
            sheet.set("D1", "=D2+1").set("D2", "=D3+1").set("D3", "=D1+1");
            assertEquals("#CYCLE!", sheet.show("D2"));
        }

        @Test
        void isNotThereWhereTheOtherChoiceIsTaken() {
            sheet.set("D1", "0").set("D2", "=IF(D1>0,C3/D1,0)");
            assertEquals("0", sheet.show("D2"));
        }

        @Test
        void ofARangeThatIsNoNumber() {
            assertEquals("#VALUE!", sheet.set("D1", "=A1:A2+1").show("D1"));
            assertEquals("#DIV/0!", sheet.set("D1", "=AVERAGE(X1:X9)").show("D1"));
        }
    }

    @Nested
    @DisplayName("Filling down")
    class Filling {

        @Test
        void movesTheReferences() {
            sheet.set("D1", "=C1/C$3");
            sheet.fillDown("D1", 1);
            assertEquals("(C2/C$3)", sheet.formula("D2"));
        }

        @Test
        void carriesRunningTotalsOn() {
            sheet.set("D1", "=SUM(C$1:C1)");
            sheet.fillDown("D1", 1);
            assertEquals("69", sheet.show("D2"));
        }

        @Test
        void leavesTheSourceAsItIs() {
            sheet.set("D1", "=SUM(A1,B1)");
            sheet.fillDown("D1", 2);
            assertEquals("SUM(A1,B1)", sheet.formula("D1"));
            assertEquals("SUM(A2,B2)", sheet.formula("D2"));
            assertEquals("SUM(A3,B3)", sheet.formula("D3"));
        }
    }

    @Nested
    @DisplayName("A wide sheet")
    class Wide {

        @Test
        void keepsItsColumnsApart() {
            sheet.set("AB1", "7").set("DX1", "8");
            assertEquals("2", sheet.show("A2"));
            assertEquals("8", sheet.show("DX1"));
        }

        @Test
        void hasADayInEachColumn() {
            for (int day = 0; day < 365; day++) {
                sheet.set(new CellRef(9, day).toString(), "1");
            }
            sheet.set("A12", "=SUM(A10:NA10)").set("A11", "100");
            assertEquals("365", sheet.show("A12"));
        }
    }
}
