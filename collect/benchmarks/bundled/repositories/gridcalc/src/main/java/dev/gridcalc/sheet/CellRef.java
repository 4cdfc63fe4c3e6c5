package dev.gridcalc.sheet;

/** The place of a cell; rows and columns are counted from 0. */
public final class CellRef {

    private static final int LETTERS = 26;

    private final int row;
    private final int column;

    public CellRef(int row, int column) {
        if (row < 0 || column < 0) {
            throw new IllegalArgumentException(
                    "outside the sheet: row " + row + ", column " + column);
        }
        this.row = row;
        this.column = column;
    }

    /** Reads a name such as {@code B12}. */
    public static CellRef parse(String name) {
        int position = 0;
        int column = 0;
        while (position < name.length() && Character.isLetter(name.charAt(position))) {
            char letter = Character.toUpperCase(name.charAt(position++));
            column = column * LETTERS + (letter - 'A' + 1);
        }
        if (position == 0 || position == name.length()) {
            throw new IllegalArgumentException("not a cell: " + name);
        }
        return new CellRef(Integer.parseInt(name.substring(position)) - 1, column - 1);
    }

    public int row() {
        return row;
    }

    public int column() {
        return column;
    }

    /** One number for each cell, in the order of rows and then of columns. */
    int key() {
        return row << 14 | column;
    }

    /** The cell so many rows below and columns to the right. */
    public CellRef shifted(int rows, int columns) {
        return new CellRef(row + rows, column + columns);
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof CellRef
                && row == ((CellRef) other).row
                && column == ((CellRef) other).column;
    }

    @Override
    public int hashCode() {
        return key();
    }

    @Override
    public String toString() {
        StringBuilder letters = new StringBuilder();
        for (int rest = column + 1; rest > 0; rest = (rest - 1) / LETTERS) {
            letters.insert(0, (char) ('A' + (rest - 1) % LETTERS));
        }
        return letters.append(row + 1).toString();
    }
}
