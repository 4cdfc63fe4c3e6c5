package dev.gridcalc.sheet;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;

import dev.gridcalc.formula.Expression;
import dev.gridcalc.formula.FormulaException;
import dev.gridcalc.formula.Parser;

/** A sheet of cells that hold numbers and formulas. */
public final class Sheet {

    private final TreeMap<Integer, Cell> cells = new TreeMap<>();
    private final DependencyGraph graph = new DependencyGraph();
    private final Calculation calculation = new Calculation(place -> cells.get(place.key()));

    /** Types something into a cell: a number, or a formula after an equals sign. */
    public Sheet set(String name, String text) {
        put(CellRef.parse(name), Parser.parse(text));
        return this;
    }

    /** Copies a cell into the rows below it, where its relative references move along. */
    public void fillDown(String name, int rows) {
        CellRef source = CellRef.parse(name);
        Expression content = cell(source).content();
        for (int row = 1; row <= rows; row++) {
            put(source.shifted(row, 0), content.shifted(row, 0));
        }
    }

    /** What the cell displays: a number, the sign of an error, or nothing. */
    public String show(String name) {
        try {
            Double value = calculation.valueOf(CellRef.parse(name));
            return value == null ? "" : format(value);
        } catch (FormulaException error) {
            return error.getMessage();
        }
    }

    /** What was typed into the cell. */
    public String formula(String name) {
        return cell(CellRef.parse(name)).content().text();
    }

    /** The names of the cells in use, row by row. */
    public String usedCells() {
        return cells.values().stream()
                .map(cell -> cell.place().toString())
                .collect(Collectors.joining(" "));
    }

    private void put(CellRef place, Expression content) {
        cells.put(place.key(), new Cell(place, content));
        for (CellRef affected : graph.affectedBy(place)) {
            Cell cell = cells.get(affected.key());
            if (cell != null) {
                cell.forget();
            }
        }
        Set<CellRef> needed = new LinkedHashSet<>();
        content.references(needed::add);
        graph.update(place, needed);
    }

    private Cell cell(CellRef place) {
        Cell cell = cells.get(place.key());
        if (cell == null) {
            throw new IllegalArgumentException("nothing in " + place);
        }
        return cell;
    }

    private static String format(double value) {
        if (value == Math.rint(value) && Math.abs(value) < 1e15) {
            return String.valueOf((long) value);
        }
        return String.valueOf(value);
    }
}
