package dev.gridcalc.formula;

import java.util.function.Consumer;
import java.util.function.DoubleConsumer;

import dev.gridcalc.sheet.CellRef;

/** A formula or a part of one. Expressions don't change: many cells may share them. */
public interface Expression {

    double evaluate(Scope scope);

    /** All of its numbers, where one expression may stand for many or for none. */
    default void numbers(Scope scope, DoubleConsumer each) {
        each.accept(evaluate(scope));
    }

    /** Every cell that it refers to. */
    void references(Consumer<CellRef> each);

    /** The same formula, so many rows below and columns to the right. */
    Expression shifted(int rows, int columns);

    /** As one types it. */
    String text();
}
