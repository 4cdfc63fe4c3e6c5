package stepinto.probe.evaluation.compiling;

import com.sun.jdi.AbsentInformationException;
import com.sun.jdi.ClassType;
import com.sun.jdi.Field;
import com.sun.jdi.LocalVariable;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StackFrame;
import com.sun.jdi.Value;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import stepinto.probe.evaluation.tree.Expression;
import stepinto.probe.evaluation.tree.Lookup;
import stepinto.probe.evaluation.tree.Scope;
import stepinto.probe.evaluation.tree.Slots;
import stepinto.probe.evaluation.values.Calls;
import stepinto.probe.evaluation.values.Imports;
import stepinto.probe.program.EvaluationFailed;

/** The source of a class whose one method does what a snippet does in a frame. */
final class SnippetSource {
    private static final String OUT = "out$";

    /** The parameters of the method, one a variable; then {@code Object[]} for what is assigned. */
    final List<Variable> variables = new ArrayList<>();

    /** The variables that the snippet assigns: the items of the last argument. */
    final List<Variable> assigned = new ArrayList<>();

    private final Scope scope;
    private final String code;
    private final Imports imports;

    SnippetSource(Scope scope, String snippet) throws EvaluationFailed {
        this.scope = scope;
        this.imports = scope.services.types.imports(scope.here);
        List<Lookup.Level> levels = new Lookup(scope).levels();
        Map<String, Variable> locals = locals(levels);
        SnippetNames names = new SnippetNames(
                snippet, levels, locals.keySet(), scope.services.types);
        this.code = names.rewritten();
        for (int level = 0; level < levels.size(); level++) {
            Lookup.Level each = levels.get(level);
            String name = SnippetNames.parameter(level);
            if (names.used.contains(name)) {
                boolean named = SourceTypes.canName(each.type.name());
                String plain = nameable(each.type.name());
                String type = named ? TypeVariables.applied(each.type, plain) : plain;
                variables.add(new Variable(name, type, each.instance, null));
            }
        }
        for (Variable variable : locals.values()) {
            if (!names.used.contains(variable.name)) {
                continue;
            }
            variables.add(variable);
            if (variable.target != null && names.assigned.contains(variable.name)) {
                assigned.add(variable);
            }
        }
    }

    private Map<String, Variable> locals(List<Lookup.Level> levels)
            throws EvaluationFailed {
        Map<String, Variable> found = new LinkedHashMap<>();
        for (Lookup.Level level : levels) {
            captured(level, found);
        }
        StackFrame frame = scope.at.frame();
        TypeVariables typeVariables = TypeVariables.of(frame.location().method());
        try {
            for (LocalVariable local : frame.visibleVariables()) {
                String name = local.typeName();
                String type = SourceTypes.canName(name)
                        ? SourceTypes.of(name, local.genericSignature(), typeVariables)
                        : nameable(name);
                found.put(local.name(), new Variable(
                        local.name(), type, frame.getValue(local), Slots.local(scope, local)));
            }
        } catch (AbsentInformationException absent) {
            found.clear();
        }
        for (String name : scope.declaredNames()) {
            Scope.Declared variable = (Scope.Declared) scope.declared(name);
            String type =
                    variable.source() == null ? nameable(variable.type()) : variable.source();
            found.put(name, new Variable(name, type, variable.get().value, variable));
        }
        return found;
    }

    private static void captured(Lookup.Level level, Map<String, Variable> found) {
        for (Field field : level.type.fields()) {
            if (level.instance != null && field.name().startsWith("val$")) {
                String name = field.name().substring(4);
                Value value = level.instance.getValue(field);
                String type = SourceTypes.of(field.typeName(), null, TypeVariables.NONE);
                found.putIfAbsent(name, new Variable(name, type, value, null));
            }
        }
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
        String above = interfaces ? found.interfaces().get(0).name() : found.superclass().name();
        return nameable(above);
    }

    /** The method's body returns the value of the snippet, an expression. */
    String ofExpression() throws EvaluationFailed {
        return source("return " + code + "\n;");
    }

    /**
     * The method's body is the snippet.
     *
     * @param kept names of variables of its own, stored after the frame's
     */
    String ofStatements(Iterable<String> kept) throws EvaluationFailed {
        boolean ended = code.trim().endsWith(";") || code.trim().endsWith("}");
        StringBuilder text = new StringBuilder("if (true) {\n").append(code);
        text.append(ended ? "\n" : ";\n");
        int place = assigned.size();
        for (String name : kept) {
            text.append(store(place++, name));
        }
        return source(text.append("} return null;").toString());
    }

    private String source(String body) throws EvaluationFailed {
        StringBuilder text = new StringBuilder();
        if (!imports.packageName.isEmpty()) {
            text.append("package ").append(imports.packageName).append(";\n");
        }
        for (String declaration : declarations()) {
            text.append(declaration).append('\n');
        }
        text.append("@SuppressWarnings(\"all\") final class ").append(Calls.SNIPPET);
        text.append(" { static Object run(").append(parameters()).append(") throws Throwable {\n");
        boolean assigns = !assigned.isEmpty();
        text.append(assigns ? "try {\n" : "").append(body);
        text.append(assigns ? "\n} finally { " + stores() + "}" : "");
        return text.append("\n}\n").append(HiddenLambdas.SOURCE).append("}\n").toString();
    }

    /** The imports of the frame's own file, and those that help. */
    private Set<String> declarations() throws EvaluationFailed {
        Set<String> found = new LinkedHashSet<>(imports.declarations);
        found.add("import java.util.*;");
        found.add("import java.util.function.*;");
        found.add("import java.util.stream.*;");
        for (Lookup.Level level : new Lookup(scope).levels()) {
            String name = level.type.name();
            boolean nests = SourceTypes.canName(name) && name.indexOf('.') > 0;
            if (nests) {
                found.add("import " + SourceTypes.dotted(name) + ".*;");
                found.add("import static " + SourceTypes.dotted(name) + ".*;");
            }
        }
        return found;
    }

    private String parameters() {
        StringBuilder text = new StringBuilder();
        for (Variable variable : variables) {
            text.append(variable.type).append(' ').append(variable.name).append(", ");
        }
        return text.append("Object[] ").append(OUT).toString();
    }

    private String stores() {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < assigned.size(); at++) {
            text.append(store(at, assigned.get(at).name));
        }
        return text.toString();
    }

    private static String store(int place, String name) {
        return OUT + "[" + place + "] = " + name + "; ";
    }

    /** A variable of the frame as a parameter of compiled code. */
    static final class Variable {
        final String name;
        /** As source writes it. */
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
