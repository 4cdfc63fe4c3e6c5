package stepinto.probe.evaluation;

import com.sun.jdi.*;
import com.sun.source.tree.*;
import com.sun.source.util.TreePath;
import com.sun.source.util.TreePathScanner;
import java.util.*;
import java.util.regex.Pattern;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.SourceTypes;
import stepinto.probe.program.Variables;
import stepinto.probe.program.Variables.Named;

/** The source of a class whose one method does what a snippet does in a frame. */
final class SnippetSource {
    private static final String OUT = "out$";
    /** What stands before a label of a switch: a constant whose enum is known without a name. */
    private static final Pattern CASE = Pattern.compile("\\bcase\\s+([\\w.]+\\s*,\\s*)*$");

    /**
     * A method that makes lambdas work in a hidden class, for its source.
     *
     * <p>What {@code LambdaMetafactory} makes calls a lambda's body by the name of its class, and a
     * hidden class has none. So the class brings a method of the same name and type that hands on a
     * method handle instead, and the lambdas are bound to that. All types are erased: the class
     * that is made for a lambda can't cast to a class that its package doesn't see.
     */
    private static final String METAFACTORY =
            "static java.lang.invoke.CallSite metafactory("
                    + "java.lang.invoke.MethodHandles.Lookup lookup, String name, "
                    + "java.lang.invoke.MethodType made, java.lang.invoke.MethodType method, "
                    + "java.lang.invoke.MethodHandle body, java.lang.invoke.MethodType exact) "
                    + "throws Exception { "
                    + "java.lang.invoke.MethodType kept = made.erase(); "
                    + "java.lang.invoke.MethodType all = "
                    + "method.insertParameterTypes(0, kept.parameterArray()); "
                    + "return new java.lang.invoke.ConstantCallSite("
                    + "java.lang.invoke.LambdaMetafactory.altMetafactory(lookup, name, "
                    + "kept.changeReturnType(made.returnType())"
                    + ".insertParameterTypes(0, java.lang.invoke.MethodHandle.class), method, "
                    + "java.lang.invoke.MethodHandles.exactInvoker(all), method, 0)"
                    + ".getTarget().bindTo(body.asType(all)).asType(made)); }\n";

    /** The parameters of the method, one a variable; then {@code Object[]} for what is assigned. */
    final List<Variable> variables = new ArrayList<>();

    /** The variables that the snippet assigns: the items of the last argument. */
    final List<Variable> assigned = new ArrayList<>();

    private final Scope scope;
    private final String code;
    private final List<Scope.Level> levels;

    SnippetSource(Scope scope, Code snippet) throws EvaluationFailed {
        this.scope = scope;
        this.levels = scope.levels();
        Map<String, Variable> locals = locals();
        // What an earlier code declared may be declared anew.
        locals.keySet().removeAll(snippet.declared().keySet());
        Names names = new Names(snippet, locals.keySet());
        for (String name : names.used) {
            if (!locals.containsKey(name) && scope.types.isLocal(name, scope.place())) {
                throw new EvaluationFailed(name + " is a local class, which code that has to be"
                        + " compiled can't name; leave out the lambda, loop or block");
            }
        }
        this.code = names.rewritten();
        for (int level = 0; level < levels.size(); level++) {
            Scope.Level each = levels.get(level);
            String name = parameter(level);
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
            if (level.instance != null) {
                for (Named each : Variables.captured(level.type, level.instance)) {
                    String type = SourceTypes.dotted(each.declared);
                    found.putIfAbsent(each.name, new Variable(each.name, type, each.value, null));
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
        for (Map.Entry<String, Scope.Declared> each : scope.declared.entrySet()) {
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
        ReferenceType type = scope.types.find(binaryName, scope.here);
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
        Types.Imports imports = scope.types.imports(scope.here);
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
        return text.append("\n}\n").append(METAFACTORY).append("}\n").toString();
    }

    private static String store(int place, String name) {
        return OUT + "[" + place + "] = " + name + "; ";
    }

    /** What stands for {@code this} of a level. */
    private static String parameter(int level) {
        return "this$" + level;
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

    /**
     * Rewrites code so that it means the same in a class of its own: {@code this}, and the members
     * that it names without an owner, get one.
     */
    private final class Names extends TreePathScanner<Void, Void> {
        private final Code code;
        private final List<TreePath> identifiers = new ArrayList<>();
        private final Set<String> declared = new HashSet<>();
        private final TreeMap<Integer, Edit> edits = new TreeMap<>();

        /** Names that the code assigns, the frame's or its own. */
        final Set<String> assigned = new HashSet<>();

        final Set<String> used = new HashSet<>();

        /** @param locals names that need no owner */
        Names(Code code, Set<String> locals) {
            this.code = code;
            declared.addAll(locals);
            scan(code.unit(), null);
        }

        @Override
        public Void visitVariable(VariableTree tree, Void none) {
            declared.add(tree.getName().toString());
            return super.visitVariable(tree, none);
        }

        @Override
        public Void visitAssignment(AssignmentTree tree, Void none) {
            assigned.add(tree.getVariable().toString());
            return super.visitAssignment(tree, none);
        }

        @Override
        public Void visitCompoundAssignment(CompoundAssignmentTree tree, Void none) {
            assigned.add(tree.getVariable().toString());
            return super.visitCompoundAssignment(tree, none);
        }

        @Override
        public Void visitUnary(UnaryTree tree, Void none) {
            if (tree.getKind().name().endsWith("CREMENT")) {
                assigned.add(tree.getExpression().toString());
            }
            return super.visitUnary(tree, none);
        }

        /** The code's own method returns a value, lambdas and methods in it need not. */
        @Override
        public Void visitReturn(ReturnTree tree, Void none) {
            TreePath path = getCurrentPath();
            while (!(path.getLeaf() instanceof LambdaExpressionTree)
                    && !(path.getLeaf() instanceof MethodTree)) {
                path = path.getParentPath();
            }
            if (tree.getExpression() == null && code.start(path.getLeaf()) < 0) {
                int end = code.start(tree) + "return".length();
                edits.put(end, new Edit(end, " null"));
            }
            return super.visitReturn(tree, none);
        }

        @Override
        public Void visitIdentifier(IdentifierTree tree, Void none) {
            used.add(tree.getName().toString());
            identifiers.add(getCurrentPath());
            return null;
        }

        @Override
        public Void visitMemberSelect(MemberSelectTree tree, Void none) {
            String outer = tree.getIdentifier().contentEquals("this")
                    ? outerThis(tree.getExpression().toString()) : null;
            if (outer == null) {
                return super.visitMemberSelect(tree, none);
            }
            edits.put(code.start(tree), new Edit(code.end(tree), outer));
            return null;
        }

        String rewritten() {
            for (TreePath path : identifiers) {
                IdentifierTree tree = (IdentifierTree) path.getLeaf();
                String name = tree.getName().toString();
                int start = code.start(tree);
                if (name.equals("this")) {
                    edits.put(start, new Edit(code.end(tree), instance(0)));
                } else if (start >= 0 && !CASE.matcher(code.text.substring(0, start)).find()) {
                    Tree parent = path.getParentPath().getLeaf();
                    boolean call = parent instanceof MethodInvocationTree
                            && ((MethodInvocationTree) parent).getMethodSelect() == tree;
                    edits.put(start, new Edit(start, owner(name, call)));
                }
            }
            StringBuilder text = new StringBuilder(code.text);
            edits.descendingMap().forEach((start, edit) ->
                    text.replace(start, edit.end, edit.text));
            return text.toString();
        }

        /** The parameter that stands for {@code Outer.this} here; null if there is none. */
        private String outerThis(String outer) {
            for (int level = 0; level < levels.size(); level++) {
                String name = SourceTypes.dotted(levels.get(level).type.name());
                boolean named = name.endsWith("." + outer) || name.equals(outer);
                if (named && levels.get(level).instance != null) {
                    return instance(level);
                }
            }
            return null;
        }

        /** What to write before a name; empty for nothing. */
        private String owner(String name, boolean call) {
            if (!call && declared.contains(name)) {
                return "";
            }
            boolean mayBeClass = Character.isUpperCase(name.charAt(0)) && !call;
            for (int level = 0; level < levels.size(); level++) {
                Scope.Level each = levels.get(level);
                // Nested classes of a package are imported; those without a package can't be.
                boolean imported = each.type.name().indexOf('.') >= 0;
                String nested = each.type.name() + "$" + name;
                if (mayBeClass && !imported && scope.types.find(nested, each.type) != null) {
                    return type(level);
                }
            }
            for (int level = 0; level < levels.size(); level++) {
                Scope.Level each = levels.get(level);
                List<Method> methods =
                        call ? Operations.named(each.type, name) : Collections.<Method>emptyList();
                TypeComponent member = !call ? each.type.fieldByName(name)
                        : methods.isEmpty() ? null : methods.get(0);
                if (member != null && (call || member.isStatic() || each.instance != null)) {
                    boolean instance = !member.isStatic() && each.instance != null;
                    return instance ? instance(level) + "." : type(level);
                }
            }
            return "";
        }

        private String instance(int level) {
            used.add(parameter(level));
            return parameter(level);
        }

        private String type(int level) {
            return SourceTypes.dotted(levels.get(level).type.name()) + ".";
        }
    }

    /** What stands in place of the text up to an end. */
    private static final class Edit {
        final int end;
        final String text;

        Edit(int end, String text) {
            this.end = end;
            this.text = text;
        }
    }
}
