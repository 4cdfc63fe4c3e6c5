package dev.gridcalc.formula;

import java.util.function.Consumer;

import dev.gridcalc.sheet.CellRef;

/** A number. */
final class Literal implements Expression {

    private final String text;
    private final double value;

    Literal(String text) {
        this.text = text;
        this.value = Double.parseDouble(text);
    }

    @Override
    public double evaluate(Scope scope) {
        return value;
    }

    @Override
    public void references(Consumer<CellRef> each) {
        // A number refers to nothing.
    }

    @Override
    public Expression shifted(int rows, int columns) {
        return this;
    }

    @Override
    public String text() {
        return text;
    }
}
