package dev.gridcalc.formula;

import java.util.function.Consumer;
import java.util.function.DoubleConsumer;

import dev.gridcalc.sheet.CellRef;

/** One cell, or all cells between two corners; a dollar sign keeps a row or column in place. */
final class Reference implements Expression {

    /** A corner, with what stays in place when the formula is copied. */
    static final class Corner {
        final CellRef cell;
        final boolean fixedColumn;
        final boolean fixedRow;

        Corner(CellRef cell, boolean fixedColumn, boolean fixedRow) {
            this.cell = cell;
            this.fixedColumn = fixedColumn;
            this.fixedRow = fixedRow;
        }

        static Corner parse(String text) {
            boolean fixedRow = text.lastIndexOf('$') > 0;
            return new Corner(
                    CellRef.parse(text.replace("$", "")), text.startsWith("$"), fixedRow);
        }

        Corner shifted(int rows, int columns) {
            CellRef moved = cell.shifted(fixedRow ? 0 : rows, fixedColumn ? 0 : columns);
            return new Corner(moved, fixedColumn, fixedRow);
        }

        String text() {
            String name = cell.toString();
            int digits = name.length() - String.valueOf(cell.row() + 1).length();
            return (fixedColumn ? "$" : "") + name.substring(0, digits)
                    + (fixedRow ? "$" : "") + name.substring(digits);
        }
    }

    private final Corner first;
    private final Corner last;

    /** A single cell has the same corner twice. */
    Reference(Corner first, Corner last) {
        this.first = first;
        this.last = last;
    }

    @Override
    public double evaluate(Scope scope) {
        if (first != last) {
            throw new FormulaException("#VALUE!");
        }
        Double value = scope.valueOf(first.cell);
        return value == null ? 0 : value;
    }

    @Override
    public void numbers(Scope scope, DoubleConsumer each) {
        references(cell -> {
            Double value = scope.valueOf(cell);
            if (value != null) {
                each.accept(value);
            }
        });
    }

    @Override
    public void references(Consumer<CellRef> each) {
        for (int row = first.cell.row(); row <= last.cell.row(); row++) {
            for (int column = first.cell.column(); column <= last.cell.column(); column++) {
                each.accept(new CellRef(row, column));
            }
        }
    }

    @Override
    public Expression shifted(int rows, int columns) {
        Corner moved = first.shifted(rows, columns);
        return new Reference(moved, first == last ? moved : last.shifted(rows, columns));
    }

    @Override
    public String text() {
        return first == last ? first.text() : first.text() + ":" + last.text();
    }
}
