package dev.gridcalc.formula;

import java.util.ArrayList;
import java.util.List;
import java.util.function.Consumer;
import java.util.stream.Collectors;

import dev.gridcalc.sheet.CellRef;

/** A function with its arguments. */
final class Call implements Expression {

    private final String name;
    private final List<Expression> arguments;

    Call(String name, List<Expression> arguments) {
        this.name = name;
        this.arguments = arguments;
    }

    @Override
    public double evaluate(Scope scope) {
        return Functions.call(name, arguments, scope);
    }

    @Override
    public void references(Consumer<CellRef> each) {
        arguments.forEach(argument -> argument.references(each));
    }

    @Override
    public Expression shifted(int rows, int columns) {
        List<Expression> moved = new ArrayList<>(arguments);
        moved.replaceAll(argument -> argument.shifted(rows, columns));
        return new Call(name, moved);
    }

    @Override
    public String text() {
        return arguments.stream()
                .map(Expression::text)
                .collect(Collectors.joining(",", name + "(", ")"));
    }
}
