package stepinto.probe.evaluation.parsing;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import stepinto.probe.evaluation.tree.Expression;
import stepinto.probe.evaluation.tree.Invocations;
import stepinto.probe.evaluation.tree.NewArrays;
import stepinto.probe.evaluation.tree.Primaries;
import stepinto.probe.evaluation.tree.TypeName;
import stepinto.probe.program.EvaluationFailed;

/** Parses what stands between operators: literals, names, calls, {@code new}. */
final class PrimaryParser {
    private static final Set<String> COMPILED =
            new HashSet<>(Arrays.asList("switch", "class", "enum", "interface"));

    private final Tokens tokens;
    private final Parser parser;

    PrimaryParser(Tokens tokens, Parser parser) {
        this.tokens = tokens;
        this.parser = parser;
    }

    Expression primary() throws EvaluationFailed, NeedsCompiler {
        Expression found = start();
        while (true) {
            if (tokens.accept(".")) {
                found = selected(found);
            } else if (tokens.accept("[")) {
                Expression index = parser.expression();
                tokens.expect("]");
                found = new Primaries.Element(found, index);
            } else if (tokens.at("::")) {
                throw new NeedsCompiler("a method reference");
            } else {
                return found;
            }
        }
    }

    private Expression start() throws EvaluationFailed, NeedsCompiler {
        Token token = tokens.peek();
        if (token.kind == Token.Kind.LITERAL) {
            return new Primaries.Literal(tokens.next().value);
        }
        if (tokens.at("(")) {
            return parenthesised();
        }
        if (tokens.accept("this")) {
            return new Primaries.This(null);
        }
        if (tokens.accept("super")) {
            tokens.expect(".");
            String name = tokens.name();
            return tokens.at("(")
                    ? new Invocations.Call(null, true, name, parser.arguments())
                    : new Primaries.Member(new Primaries.This(null), name);
        }
        if (tokens.accept("new")) {
            return creation();
        }
        if (tokens.atPrimitive()) {
            return classLiteral();
        }
        if (token.kind == Token.Kind.NAME) {
            return named();
        }
        if (COMPILED.contains(token.text)) {
            throw new NeedsCompiler(token.text);
        }
        throw tokens.unexpected("an expression");
    }

    private Expression parenthesised() throws EvaluationFailed, NeedsCompiler {
        if (atLambda()) {
            throw new NeedsCompiler("a lambda");
        }
        tokens.expect("(");
        Expression found = parser.expression();
        tokens.expect(")");
        return found;
    }

    /** Whether the parenthesis here closes before an arrow. */
    private boolean atLambda() {
        int depth = 0;
        for (int ahead = 0; tokens.peek(ahead).kind != Token.Kind.END; ahead++) {
            depth += tokens.peek(ahead).is("(") ? 1 : tokens.peek(ahead).is(")") ? -1 : 0;
            if (depth == 0) {
                return tokens.peek(ahead + 1).is("->");
            }
        }
        return false;
    }

    /** {@code int.class}, {@code String[].class}. */
    private Expression classLiteral() throws EvaluationFailed, NeedsCompiler {
        TypeName type = tokens.type();
        if (tokens.at("::")) {
            throw new NeedsCompiler("a method reference");
        }
        tokens.expect(".");
        tokens.expect("class");
        return new Primaries.ClassLiteral(type);
    }

    private Expression named() throws EvaluationFailed, NeedsCompiler {
        if (tokens.peek(1).is("->")) {
            throw new NeedsCompiler("a lambda");
        }
        if (tokens.peek(1).is("(")) {
            return new Invocations.Call(null, false, tokens.name(), parser.arguments());
        }
        if (atArrayOrGenericType()) {
            return classLiteral();
        }
        List<String> names = new ArrayList<>();
        names.add(tokens.name());
        while (tokens.at(".") && tokens.peek(1).kind == Token.Kind.NAME
                && !tokens.peek(2).is("(")) {
            tokens.next();
            names.add(tokens.name());
        }
        return new Primaries.Path(names);
    }

    /** {@code String[].class} or {@code List<String>::size}. */
    private boolean atArrayOrGenericType() {
        int mark = tokens.mark();
        TypeName type = tokens.type();
        boolean bracket = type != null && tokens.mark() > mark
                && (tokens.peek(-1).is("]") || tokens.peek(-1).is(">"));
        boolean found = bracket
                && (tokens.at("::") || (tokens.at(".") && tokens.peek(1).is("class")));
        tokens.reset(mark);
        return found;
    }

    private Expression selected(Expression owner) throws EvaluationFailed, NeedsCompiler {
        if (tokens.at("<")) {
            tokens.skipTypeArguments();
        }
        if (tokens.accept("class")) {
            return new Primaries.ClassLiteral(typeName(owner));
        }
        if (tokens.accept("this")) {
            return new Primaries.This(typeName(owner));
        }
        if (tokens.at("new") || tokens.at("super")) {
            throw new NeedsCompiler("a qualified " + tokens.peek().text);
        }
        String name = tokens.name();
        return tokens.at("(")
                ? new Invocations.Call(owner, false, name, parser.arguments())
                : new Primaries.Member(owner, name);
    }

    private TypeName typeName(Expression owner) throws EvaluationFailed {
        if (!(owner instanceof Primaries.Path)) {
            throw tokens.unexpected("a class before the last dot");
        }
        return new TypeName(String.join(".", ((Primaries.Path) owner).names), 0);
    }

    private Expression creation() throws EvaluationFailed, NeedsCompiler {
        TypeName type = tokens.itemType();
        if (type == null) {
            throw tokens.unexpected("a class");
        }
        if (tokens.at("(")) {
            List<Expression> arguments = parser.arguments();
            if (tokens.at("{")) {
                throw new NeedsCompiler("an anonymous class");
            }
            return new Invocations.New(type, arguments);
        }
        List<Expression> lengths = new ArrayList<>();
        while (tokens.at("[") && !tokens.peek(1).is("]")) {
            tokens.next();
            lengths.add(parser.expression());
            tokens.expect("]");
        }
        TypeName array = type.array(lengths.size() + tokens.brackets());
        if (lengths.isEmpty()) {
            List<Expression> none = Collections.emptyList();
            return new NewArrays.Creation(array, none, parser.items());
        }
        return new NewArrays.Creation(array, lengths, null);
    }
}
