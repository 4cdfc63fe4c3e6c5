package dev.gridcalc.formula;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

class ParserTest {

    @ParameterizedTest
    @CsvSource({"=1+2*3, 7", "=(1+2)*3, 9", "=7-2-1, 4", "=12/4/3, 1", "=1+1>1, 1", "2.5, 2.5"})
    void arithmetic(String formula, double value) {
        assertEquals(value, Parser.parse(formula).evaluate(cell -> null));
    }

    @ParameterizedTest
    @ValueSource(strings = {"=1+", "=SUM(1", "=1 2", "=?", "=", "="})
    void whatIsNoFormula(String text) {
        assertThrows(IllegalArgumentException.class, () -> Parser.parse(text));
    }

    @Test
    void functionsAndReferences() {
        Expression formula = Parser.parse("= sum( A1:B2, $C$3 ) / max(1, d4)");
        assertEquals("(SUM(A1:B2,$C$3)/MAX(1,D4))", formula.text());
        List<String> cells = new ArrayList<>();
        formula.references(cell -> cells.add(cell.toString()));
        assertEquals("[A1, B1, A2, B2, C3, D4]", cells.toString());
    }

    @Test
    void copiesMoveWhatIsNotFixed() {
        Expression formula = Parser.parse("=A1+$A1+A$1+$A$1");
        assertEquals("(((C5+$A5)+C$1)+$A$1)", formula.shifted(4, 2).text());
    }

    @Test
    void unknownFunction() {
        Expression formula = Parser.parse("=MEDIAN(1,2)");
        FormulaException error =
                assertThrows(FormulaException.class, () -> formula.evaluate(cell -> null));
        assertEquals("#NAME?", error.getMessage());
    }
}
