package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.SourceTypes;

/** The source of a class whose one method does what a snippet does in a frame. */
final class SnippetSource {
    private static final String OUT = "out$";

    /** The parameters of the method, one a variable; then {@code Object[]} for what is assigned. */
    final List<Variable> variables = new ArrayList<>();

    /** The variables that the snippet assigns: the items of the last argument. */
    final List<Variable> assigned = new ArrayList<>();

    private final Scope scope;
    private final String code;
    private final List<Scope.Level> levels;

    SnippetSource(Scope scope, String snippet) throws EvaluationFailed {
        this.scope = scope;
        this.levels = scope.levels();
        Map<String, Variable> locals = locals();
        SnippetNames names = new SnippetNames(
                snippet, levels, locals.keySet(), scope.services.types);
        this.code = names.rewritten();
        for (int level = 0; level < levels.size(); level++) {
            Scope.Level each = levels.get(level);
            String name = SnippetNames.parameter(level);
            if (names.used.contains(name)) {
                boolean named = SourceTypes.canName(each.type.name());
                String plain = nameable(each.type.name());
                String type = named ? SourceTypes.applied(each.type, plain) : plain;
                variables.add(new Variable(name, type, each.instance, null));
            }
        }
        for (Variable variable : locals.values()) {
            if (names.used.contains(variable.name)) {
                variables.add(variable);
                if (variable.target != null && names.assigned.contains(variable.name)) {
                    assigned.add(variable);
                }
            }
        }
    }

    /** What the classes around have captured, the frame's own variables, and the code's. */
    private Map<String, Variable> locals() throws EvaluationFailed {
        Map<String, Variable> found = new LinkedHashMap<>();
        for (Scope.Level level : levels) {
            for (Field field : level.type.fields()) {
                if (level.instance != null && field.name().startsWith("val$")) {
                    String name = field.name().substring(4);
                    Value value = level.instance.getValue(field);
                    String type = SourceTypes.dotted(field.typeName());
                    found.putIfAbsent(name, new Variable(name, type, value, null));
                }
            }
        }
        StackFrame frame = scope.at.frame();
        SourceTypes types = new SourceTypes(frame.location().method());
        try {
            for (LocalVariable local : frame.visibleVariables()) {
                String name = local.typeName();
                String type = SourceTypes.canName(name)
                        ? types.type(name, local.genericSignature()) : nameable(name);
                found.put(local.name(), new Variable(
                        local.name(), type, frame.getValue(local), Slot.local(scope, local)));
            }
        } catch (AbsentInformationException absent) {
            found.clear();
        }
        for (Map.Entry<String, Scope.Declared> each : scope.declared().entrySet()) {
            Scope.Declared variable = each.getValue();
            String type = variable.source == null ? nameable(variable.type) : variable.source;
            found.put(each.getKey(), new Variable(
                    each.getKey(), type, variable.get().value, variable));
        }
        return found;
    }

    /** A type for a variable whose own class has no name: what it extends. */
    private String nameable(String binaryName) {
        if (binaryName.equals("null")) {
            return "Object";
        }
        if (SourceTypes.canName(binaryName)) {
            return SourceTypes.dotted(binaryName);
        }
        ReferenceType type = scope.services.types.find(binaryName, scope.here);
        if (!(type instanceof ClassType)) {
            return "Object";
        }
        ClassType found = (ClassType) type;
        boolean interfaces = !found.interfaces().isEmpty();
        return nameable(
                interfaces ? found.interfaces().get(0).name() : found.superclass().name());
    }

    /** The method's body returns the value of the snippet, an expression. */
    String ofExpression() {
        return source("return " + code + "\n;");
    }

    /**
     * The method's body is the snippet.
     *
     * @param kept names of variables of its own, stored after the frame's
     */
    String ofStatements(Iterable<String> kept) {
        boolean ended = code.trim().endsWith(";") || code.trim().endsWith("}");
        StringBuilder text = new StringBuilder("if (true) {\n").append(code);
        text.append(ended ? "\n" : ";\n");
        int place = assigned.size();
        for (String name : kept) {
            text.append(store(place++, name));
        }
        return source(text.append("} return null;").toString());
    }

    private String source(String body) {
        Imports imports = scope.services.types.imports(scope.here);
        StringBuilder text = new StringBuilder();
        if (!imports.packageName.isEmpty()) {
            text.append("package ").append(imports.packageName).append(";\n");
        }
        // The imports of the frame's own file, and those that help.
        Set<String> declarations = new LinkedHashSet<>(imports.declarations);
        declarations.add("import java.util.*;");
        declarations.add("import java.util.function.*;");
        declarations.add("import java.util.stream.*;");
        for (Scope.Level level : levels) {
            String name = level.type.name();
            if (SourceTypes.canName(name) && name.indexOf('.') > 0) {
                declarations.add("import " + SourceTypes.dotted(name) + ".*;");
                declarations.add("import static " + SourceTypes.dotted(name) + ".*;");
            }
        }
        text.append(String.join("\n", declarations));
        text.append("\n@SuppressWarnings(\"all\") final class ").append(Calls.SNIPPET);
        text.append(" { static Object run(");
        for (Variable variable : variables) {
            text.append(variable.type).append(' ').append(variable.name).append(", ");
        }
        text.append("Object[] ").append(OUT).append(") throws Throwable {\n");
        if (assigned.isEmpty()) {
            text.append(body);
        } else {
            text.append("try {\n").append(body).append("\n} finally { ");
            for (int at = 0; at < assigned.size(); at++) {
                text.append(store(at, assigned.get(at).name));
            }
            text.append("}");
        }
        return text.append("\n}\n").append(SnippetLoader.METAFACTORY).append("}\n").toString();
    }

    private static String store(int place, String name) {
        return OUT + "[" + place + "] = " + name + "; ";
    }

    /** A variable of the frame as a parameter of compiled code. */
    static final class Variable {
        final String name;
        final String type;
        final Value value;
        /** Null for what can't be assigned: {@code this}, captured variables. */
        final Expression.Variable target;

        Variable(String name, String type, Value value, Expression.Variable target) {
            this.name = name;
            this.type = type;
            this.value = value;
            this.target = target;
        }
    }
}
