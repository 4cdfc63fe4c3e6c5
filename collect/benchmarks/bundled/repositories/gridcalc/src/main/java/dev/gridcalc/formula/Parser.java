package dev.gridcalc.formula;

import java.util.ArrayList;
import java.util.List;

import dev.gridcalc.formula.Lexer.Kind;

/** Reads what was typed into a cell: comparisons of sums of products. */
public final class Parser {

    private final Lexer lexer;

    private Parser(Lexer lexer) {
        this.lexer = lexer;
    }

    /** Raises IllegalArgumentException where it is neither a number nor a formula. */
    public static Expression parse(String text) {
        if (!text.startsWith("=")) {
            return new Literal(text.trim());
        }
        Lexer lexer = new Lexer(text.substring(1));
        Expression formula = new Parser(lexer).comparison();
        if (!lexer.at(Kind.END)) {
            throw new IllegalArgumentException("can't read all of " + text);
        }
        return formula;
    }

    private Expression comparison() {
        Expression left = sum();
        while (lexer.at("<") || lexer.at(">")) {
            left = new Binary(lexer.take().charAt(0), left, sum());
        }
        return left;
    }

    private Expression sum() {
        Expression left = product();
        while (lexer.at("+") || lexer.at("-")) {
            left = new Binary(lexer.take().charAt(0), left, product());
        }
        return left;
    }

    private Expression product() {
        Expression left = part();
        while (lexer.at("*") || lexer.at("/")) {
            left = new Binary(lexer.take().charAt(0), left, part());
        }
        return left;
    }

    private Expression part() {
        if (lexer.at(Kind.NUMBER)) {
            return new Literal(lexer.take());
        }
        if (lexer.at(Kind.CELL)) {
            return reference();
        }
        if (lexer.at(Kind.NAME)) {
            return new Call(lexer.take().toUpperCase(), arguments());
        }
        lexer.expect("(");
        Expression inner = comparison();
        lexer.expect(")");
        return inner;
    }

    private Expression reference() {
        Reference.Corner first = Reference.Corner.parse(lexer.take());
        if (!lexer.at(":")) {
            return new Reference(first, first);
        }
        lexer.expect(":");
        return new Reference(first, Reference.Corner.parse(lexer.take()));
    }

    private List<Expression> arguments() {
        List<Expression> arguments = new ArrayList<>();
        lexer.expect("(");
        if (!lexer.at(")")) {
            arguments.add(comparison());
        }
        while (lexer.at(",")) {
            lexer.expect(",");
            arguments.add(comparison());
        }
        lexer.expect(")");
        return arguments;
    }
}
