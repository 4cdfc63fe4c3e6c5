package dev.gridcalc.sheet;

import dev.gridcalc.formula.Expression;

/** What was typed into a cell, and what it came to when it was last looked at. */
final class Cell {

    private final CellRef place;
    private final Expression content;
    private Double value;

    Cell(CellRef place, Expression content) {
        this.place = place;
        this.content = content;
    }

    CellRef place() {
        return place;
    }

    Expression content() {
        return content;
    }

    boolean isFresh() {
        return value != null;
    }

    double value() {
        return value;
    }

    void keep(double newValue) {
        value = newValue;
    }

    void forget() {
        value = null;
    }
}
