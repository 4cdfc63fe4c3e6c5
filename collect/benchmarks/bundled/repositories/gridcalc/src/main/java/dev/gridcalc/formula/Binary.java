package dev.gridcalc.formula;

import java.util.function.Consumer;

import dev.gridcalc.sheet.CellRef;

/** Two operands with an operator between them. */
final class Binary implements Expression {

    private final char operator;
    private final Expression left;
    private final Expression right;

    Binary(char operator, Expression left, Expression right) {
        this.operator = operator;
        this.left = left;
        this.right = right;
    }

    @Override
    public double evaluate(Scope scope) {
        double one = left.evaluate(scope);
        double other = right.evaluate(scope);
        switch (operator) {
            case '+':
                return one + other;
            case '-':
                return one - other;
            case '*':
                return one * other;
            case '>':
                return one > other ? 1 : 0;
            case '<':
                return one < other ? 1 : 0;
            default:
                if (other == 0) {
                    throw new FormulaException("#DIV/0!");
                }
                return one / other;
        }
    }

    @Override
    public void references(Consumer<CellRef> each) {
        left.references(each);
        right.references(each);
    }

    @Override
    public Expression shifted(int rows, int columns) {
        return new Binary(operator, left.shifted(rows, columns), right.shifted(rows, columns));
    }

    @Override
    public String text() {
        return "(" + left.text() + operator + right.text() + ")";
    }
}
