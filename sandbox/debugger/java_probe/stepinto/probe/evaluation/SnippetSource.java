package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.evaluation.Lexer.Token;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.SourceTypes;
import stepinto.probe.program.Variables;
import stepinto.probe.program.Variables.Named;

/** The source of a class whose one method does what a snippet does in a frame. */
final class SnippetSource {
    private static final String OUT = "out$";
    private static final List<String> AFTER_DECLARED = Arrays.asList("=", ";", ",", ":", ")", "->");
    private static final List<String> IN_ARGUMENTS =
            Arrays.asList("<", ">", ",", ".", "?", "[", "]", "&");

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

    SnippetSource(Scope scope, String snippet) throws EvaluationFailed {
        this.scope = scope;
        this.levels = scope.levels();
        Map<String, Variable> locals = locals();
        Names names = new Names(snippet, locals.keySet());
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
    private final class Names {
        private final List<Token> tokens;
        private final String source;
        private final Set<String> declared = new HashSet<>();

        /** Names that the code assigns, the frame's or its own. */
        final Set<String> assigned = new HashSet<>();

        final Set<String> used = new HashSet<>();

        /** @param locals names that need no owner */
        Names(String source, Set<String> locals)
                throws EvaluationFailed {
            this.source = source;
            this.tokens = Lexer.tokens(source);
            declared.addAll(locals);
            for (int at = 0; at < tokens.size(); at++) {
                if (tokens.get(at).kind == Token.Kind.NAME) {
                    used.add(tokens.get(at).text);
                    look(at);
                }
            }
        }

        private Token token(int at) {
            return at < 0 ? new Token(Token.Kind.END, "", null, 0)
                    : tokens.get(Math.min(at, tokens.size() - 1));
        }

        private void look(int at) {
            Token before = token(at - 1);
            Token after = token(at + 1);
            boolean typed = isTyped(at);
            if (after.is("->") || inLambdaHead(at)
                    || (typed && AFTER_DECLARED.contains(after.text))) {
                declared.add(token(at).text);
            }
            boolean steps = before.is("++") || before.is("--") || after.is("++") || after.is("--");
            boolean shifts = after.is(">") && token(at + 2).is(">")
                    && (token(at + 3).is("=") || token(at + 4).is("="));
            boolean assigns = after.kind == Token.Kind.OPERATOR && after.text.endsWith("=")
                    && !Arrays.asList("==", "!=", "<=").contains(after.text);
            if (steps || assigns || shifts) {
                assigned.add(token(at).text);
            }
        }

        /** Whether a type stands before a name, as where it is declared. */
        private boolean isTyped(int at) {
            Token before = token(at - 1);
            boolean primitive =
                    before.kind == Token.Kind.KEYWORD && Primitives.isPrimitive(before.text);
            return primitive || before.kind == Token.Kind.NAME || closesArguments(at - 1)
                    || before.is("]") || before.is("...");
        }

        /** Whether a token is the end of type arguments, and no comparison. */
        private boolean closesArguments(int end) {
            int depth = 0;
            for (int at = end; at > 0; at--) {
                Token token = token(at);
                boolean fits = token.kind == Token.Kind.NAME || token.kind == Token.Kind.KEYWORD
                        || IN_ARGUMENTS.contains(token.text);
                depth += token.is(">") ? 1 : token.is("<") ? -1 : 0;
                if (!fits || depth == 0) {
                    return fits && at < end;
                }
            }
            return false;
        }

        /** The first of the names between commas that one is among. */
        private int firstListed(int at) {
            int first = at;
            while (token(first - 1).is(",") && token(first - 2).kind == Token.Kind.NAME) {
                first -= 2;
            }
            return first;
        }

        /** Among the names in {@code (a, b) ->}. */
        private boolean inLambdaHead(int at) {
            int start = firstListed(at);
            int end = at;
            while (token(end + 1).is(",") && token(end + 2).kind == Token.Kind.NAME) {
                end += 2;
            }
            return token(start - 1).is("(") && token(end + 1).is(")") && token(end + 2).is("->");
        }

        String rewritten() {
            StringBuilder text = new StringBuilder();
            int copied = 0;
            for (int at = 0; at < tokens.size(); at++) {
                Token token = tokens.get(at);
                String outer = outerThis(at);
                if (outer != null) {
                    text.append(source, copied, token.start).append(outer);
                    at += 2;
                    copied = tokens.get(at).start + tokens.get(at).text.length();
                    continue;
                }
                String owner = owner(at);
                if (owner == null) {
                    continue;
                }
                text.append(source, copied, token.start).append(owner);
                copied = token.start + (token.is("this") ? token.text.length() : 0);
            }
            return text.append(source.substring(copied)).toString();
        }

        /** The parameter that stands for {@code Outer.this} here; null if there is none. */
        private String outerThis(int at) {
            boolean fits = tokens.get(at).kind == Token.Kind.NAME
                    && token(at + 1).is(".") && token(at + 2).is("this") && !token(at - 1).is(".");
            for (int level = 0; fits && level < levels.size(); level++) {
                String name = levels.get(level).type.name();
                boolean named = SourceTypes.dotted(name).endsWith("." + token(at).text)
                        || name.equals(token(at).text);
                if (named && levels.get(level).instance != null) {
                    return instance(level);
                }
            }
            return null;
        }

        /** Whether a name is a label of a switch: a constant whose enum is known without a name. */
        private boolean isCase(int at) {
            return token(firstListed(at) - 1).is("case");
        }

        /** What to write before a name, or in place of {@code this}; null for nothing. */
        private String owner(int at) {
            Token token = tokens.get(at);
            boolean qualified = token(at - 1).is(".") || token(at - 1).is("::");
            if (token.is("this")) {
                return qualified ? null : instance(0);
            }
            if (token.kind != Token.Kind.NAME || qualified) {
                return null;
            }
            String type = ofClass(token.text);
            boolean owned = type != null || token(at - 1).is("new") || token(at - 1).is("@")
                    || isCase(at);
            if (owned) {
                return isCase(at) ? null : type;
            }
            boolean call = token(at + 1).is("(");
            boolean declaration = call && isTyped(at);
            boolean none = declaration || !call && declared.contains(token.text);
            return none ? null : ofMember(token.text, call);
        }

        /** Nested classes of a package are imported; those without a package can't be. */
        private String ofClass(String name) {
            boolean mayBe = Character.isUpperCase(name.charAt(0)) && !declared.contains(name);
            for (int level = 0; mayBe && level < levels.size(); level++) {
                ReferenceType outer = levels.get(level).type;
                boolean imported = outer.name().indexOf('.') >= 0;
                if (!imported && scope.types.find(outer.name() + "$" + name, outer) != null) {
                    return type(level) + ".";
                }
            }
            return null;
        }

        /** A method or a field of the class, or of one around it. */
        private String ofMember(String name, boolean call) {
            for (int level = 0; level < levels.size(); level++) {
                Scope.Level each = levels.get(level);
                List<Method> methods =
                        call ? Operations.named(each.type, name) : Collections.<Method>emptyList();
                TypeComponent member = !call ? each.type.fieldByName(name)
                        : methods.isEmpty() ? null : methods.get(0);
                if (member != null && (call || member.isStatic() || each.instance != null)) {
                    boolean instance = !member.isStatic() && each.instance != null;
                    return (instance ? instance(level) : type(level)) + ".";
                }
            }
            return null;
        }

        private String instance(int level) {
            used.add(parameter(level));
            return parameter(level);
        }

        private String type(int level) {
            return SourceTypes.dotted(levels.get(level).type.name());
        }
    }
}
