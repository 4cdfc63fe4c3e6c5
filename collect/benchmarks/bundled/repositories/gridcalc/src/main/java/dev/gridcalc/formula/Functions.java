package dev.gridcalc.formula;

import java.util.DoubleSummaryStatistics;
import java.util.List;

/** The functions that a formula can call. */
final class Functions {

    private Functions() {
    }

    static double call(String name, List<Expression> arguments, Scope scope) {
        if (name.equals("IF")) {
            return choose(arguments, scope);
        }
        DoubleSummaryStatistics all = new DoubleSummaryStatistics();
        arguments.forEach(argument -> argument.numbers(scope, all::accept));
        switch (name) {
            case "SUM":
                return all.getSum();
            case "COUNT":
                return all.getCount();
            case "AVERAGE":
                return average(all);
            case "MIN":
                return all.getCount() == 0 ? 0 : all.getMin();
            case "MAX":
                return all.getCount() == 0 ? 0 : all.getMax();
            default:
                throw new FormulaException("#NAME?");
        }
    }

    /** Only the chosen one of the two is worked out. */
    private static double choose(List<Expression> arguments, Scope scope) {
        if (arguments.size() != 3) {
            throw new FormulaException("#VALUE!");
        }
        boolean condition = arguments.get(0).evaluate(scope) != 0;
        return arguments.get(condition ? 1 : 2).evaluate(scope);
    }

    private static double average(DoubleSummaryStatistics all) {
        if (all.getCount() == 0) {
            throw new FormulaException("#DIV/0!");
        }
        return all.getAverage();
    }
}
