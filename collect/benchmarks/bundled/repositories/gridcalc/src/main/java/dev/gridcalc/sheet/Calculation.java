package dev.gridcalc.sheet;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.Function;

import dev.gridcalc.formula.FormulaException;
import dev.gridcalc.formula.Scope;

/** Works out cells when they are looked at, each of them once. */
final class Calculation implements Scope {

    private final Function<CellRef, Cell> cells;
    private final Set<CellRef> running = new LinkedHashSet<>();

    Calculation(Function<CellRef, Cell> cells) {
        this.cells = cells;
    }

    @Override
    public Double valueOf(CellRef place) {
        Cell cell = cells.apply(place);
        if (cell == null) {
            return null;
        }
        if (!cell.isFresh()) {
            cell.keep(calculate(cell));
        }
        return cell.value();
    }

    private double calculate(Cell cell) {
        if (!running.add(cell.place())) {
            throw new FormulaException("#CYCLE!");
        }
        try {
            return cell.content().evaluate(this);
        } finally {
            running.remove(cell.place());
        }
    }
}
