package dev.gridcalc.formula;

import dev.gridcalc.sheet.CellRef;

/** Where a formula finds the values that it refers to. */
public interface Scope {

    /** The number in a cell; null where it is empty. Raises what the cell's own formula raises. */
    Double valueOf(CellRef cell);
}
