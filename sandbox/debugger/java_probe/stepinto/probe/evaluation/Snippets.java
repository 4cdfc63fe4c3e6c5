package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** Runs code that the interpreter does not know, compiled: lambdas, streams, try, switch ... */
final class Snippets {
    private static final int REMEMBERED = 50;
    private static final Pattern UNKNOWN =
            Pattern.compile("cannot find symbol; symbol: variable (\\w+)(?!\\w|; location)");
    private static final Map<String, TypeName> NONE = Collections.emptyMap();

    private final Services services;
    private final SnippetCompiler compiler;
    private final SnippetLoader loader;
    private final Map<String, ReferenceType> defined = new HashMap<>();
    private int number;

    Snippets(Services services) {
        this.services = services;
        this.compiler = new SnippetCompiler(services.types.machine);
        this.loader = new SnippetLoader(services.types, services.calls);
    }

    /** The value of an expression; JDI's void value for a call of a void method. */
    Operand evaluate(String expression, NeedsCompiler construct, Scope scope)
            throws EvaluationFailed {
        check(construct, scope);
        String trimmed = expression.trim().replaceAll(";+$", "");
        SnippetSource source = new SnippetSource(scope, trimmed);
        try {
            return run(source, source.ofExpression(), NONE, scope);
        } catch (NotCompiled failure) {
            try {
                run(source, source.ofStatements(NONE.keySet()), NONE, scope);
                return Operand.of(services.types.machine.mirrorOfVoid());
            } catch (NotCompiled again) {
                throw failure.reason(scope);
            }
        }
    }

    /** Runs statements; the variables that they declare are there for the code after them. */
    void runCode(String code, NeedsCompiler construct, Scope scope) throws EvaluationFailed {
        check(construct, scope);
        SnippetSource source = new SnippetSource(scope, code);
        Map<String, TypeName> kept = StatementParser.declared(code);
        try {
            run(source, source.ofStatements(kept.keySet()), kept, scope);
        } catch (NotCompiled failure) {
            if (kept.isEmpty()) {
                throw failure.reason(scope);
            }
            // If the end is not reached, or a variable has no value there, none can be kept.
            try {
                run(source, source.ofStatements(NONE.keySet()), NONE, scope);
            } catch (NotCompiled again) {
                throw again.reason(scope);
            }
        }
    }

    /** A compile error, kept apart from what running the code raises. */
    private static final class NotCompiled extends Exception {
        private static final long serialVersionUID = 1;

        private final transient EvaluationFailed reason;

        NotCompiled(EvaluationFailed reason) {
            this.reason = reason;
        }

        /** What to answer: of a name that means nothing, the nearest ones. */
        EvaluationFailed reason(Scope scope) throws EvaluationFailed {
            Matcher unknown = UNKNOWN.matcher(reason.getMessage());
            return unknown.find() ? scope.unknown(unknown.group(1)) : reason;
        }
    }

    private static void check(NeedsCompiler construct, Scope scope) throws EvaluationFailed {
        if (scope.here.classLoader() == null || TypeNames.isPlatform(scope.here.name())) {
            throw new EvaluationFailed(
                    construct.getMessage() + " can't be evaluated in code of the JDK; take a frame"
                            + " of the program");
        }
    }

    private Operand run(
            SnippetSource source, String text, Map<String, TypeName> kept, Scope scope)
            throws EvaluationFailed, NotCompiled {
        String key = scope.here.name() + "\n" + text;
        ReferenceType type = defined.get(key);
        if (type == null) {
            type = define(text, scope.here);
            if (defined.size() >= REMEMBERED) {
                defined.clear();
            }
            defined.put(key, type);
        }
        Method method = type.methodsByName("run").get(0);
        List<Value> arguments = new ArrayList<>();
        for (SnippetSource.Variable variable : source.variables) {
            arguments.add(variable.value);
        }
        ArrayType objects = (ArrayType) services.types.find("java.lang.Object[]", null);
        int size = source.assigned.size() + kept.size();
        ArrayReference out = (ArrayReference) services.calls.keep(objects.newInstance(size));
        arguments.add(out);
        Operand result;
        try {
            result = Operand.of(services.calls.invoke(null, type, method, arguments));
        } finally {
            assign(source.assigned, out);
        }
        int place = source.assigned.size();
        for (Map.Entry<String, TypeName> variable : kept.entrySet()) {
            Value value = services.calls.keep(out.getValue(place++));
            scope.declare(variable.getKey(), variable.getValue(), Operand.of(value));
        }
        return result;
    }

    private ReferenceType define(String text, ReferenceType host)
            throws EvaluationFailed, NotCompiled {
        String name = Calls.SNIPPET + ++number;
        boolean hides = loader.hides();
        Map<String, byte[]> made;
        try {
            made = compiler.compile(text.replace(Calls.SNIPPET, name), hides);
        } catch (EvaluationFailed failure) {
            throw new NotCompiled(failure);
        }
        byte[] main = null;
        for (Map.Entry<String, byte[]> each : made.entrySet()) {
            if (each.getKey().endsWith(name)) {
                main = each.getValue();
            } else {
                // Anonymous classes and the tables of a switch: the main one finds them by name.
                loader.define(each.getValue(), host);
            }
        }
        return hides ? loader.defineHidden(main, host) : loader.define(main, host);
    }

    private void assign(List<SnippetSource.Variable> assigned, ArrayReference out)
            throws EvaluationFailed {
        for (int at = 0; at < assigned.size(); at++) {
            SnippetSource.Variable variable = assigned.get(at);
            Value value = services.calls.keep(out.getValue(at));
            boolean primitive = Primitives.isPrimitive(variable.type);
            Value plain = primitive ? services.conversions.unbox(value) : value;
            boolean unset = plain == null && primitive;
            if (!unset && !Objects.equals(plain, variable.value)) {
                variable.target.set(Operand.of(plain));
            }
        }
    }
}
