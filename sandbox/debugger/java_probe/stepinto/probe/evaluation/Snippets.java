package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import stepinto.probe.evaluation.SnippetCompiler.Compiled;
import stepinto.probe.program.ClassFile.ConstantPool;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** Runs code that the interpreter does not know, compiled: lambdas, streams, try, switch ... */
final class Snippets {
    private static final int REMEMBERED = 50;
    private static final Pattern UNKNOWN =
            Pattern.compile("cannot find symbol; symbol: variable (\\w+)(?!\\w|; location)");
    private static final Map<String, TypeName> NONE = Collections.emptyMap();

    private final Types types;
    private final Calls calls;
    private final SnippetCompiler compiler;
    private final Loader loader = new Loader();
    private final Map<String, Defined> defined = new HashMap<>();
    private int number;

    Snippets(Types types, Calls calls) {
        this.types = types;
        this.calls = calls;
        this.compiler = new SnippetCompiler(types.machine);
    }

    /**
     * The value of an expression; JDI's void value for a call of a void method, and for statements.
     * The variables that statements declare are there for the code after them.
     */
    Operand run(Code code, Scope scope) throws EvaluationFailed {
        if (scope.here.classLoader() == null || TypeNames.isPlatform(scope.here.name())) {
            throw new EvaluationFailed(
                    "this has to be compiled, which is not possible in code of the JDK; take a"
                            + " frame of the program");
        }
        SnippetSource source = new SnippetSource(scope, code);
        Map<String, TypeName> kept = code.declared();
        boolean expression = code.isExpression();
        try {
            String text = expression
                    ? source.ofExpression() : source.ofStatements(kept.keySet());
            return run(source, text, kept, scope);
        } catch (NotCompiled failure) {
            if (!expression && kept.isEmpty()) {
                throw failure.reason(scope);
            }
            // An expression may have no value. If the end of statements is not reached, or a
            // variable has no value there, none can be kept.
            try {
                run(source, source.ofStatements(NONE.keySet()), NONE, scope);
                return Operand.of(types.machine.mirrorOfVoid());
            } catch (NotCompiled again) {
                throw (expression ? failure : again).reason(scope);
            }
        }
    }

    /** A compile error, kept apart from what running the code raises. */
    static final class NotCompiled extends Exception {
        private static final long serialVersionUID = 1;

        NotCompiled(String message) {
            super(message);
        }

        /** What to answer: of a name that means nothing, the nearest ones. */
        private EvaluationFailed reason(Scope scope) throws EvaluationFailed {
            Matcher unknown = UNKNOWN.matcher(getMessage());
            return unknown.find()
                    ? scope.unknown(unknown.group(1)) : new EvaluationFailed(getMessage());
        }
    }

    private Operand run(
            SnippetSource source, String text, Map<String, TypeName> kept, Scope scope)
            throws EvaluationFailed, NotCompiled {
        String key = scope.here.name() + "\n" + text;
        Defined snippet = defined.get(key);
        if (snippet == null) {
            snippet = define(text, scope.here);
            if (defined.size() >= REMEMBERED) {
                defined.clear();
            }
            defined.put(key, snippet);
        }
        Method method = snippet.type.methodsByName("run").get(0);
        List<Value> arguments = new ArrayList<>();
        for (SnippetSource.Variable variable : source.variables) {
            arguments.add(variable.value);
        }
        ArrayType objects = (ArrayType) types.find("java.lang.Object[]", null);
        int size = source.assigned.size() + kept.size();
        ArrayReference out = (ArrayReference) calls.keep(objects.newInstance(size));
        arguments.add(out);
        Operand result;
        try {
            Value value = calls.invoke(null, snippet.type, method, arguments);
            result = Operand.of(snippet.primitive ? scope.operators.unbox(value) : value);
        } finally {
            assign(source.assigned, out, scope);
        }
        int place = source.assigned.size();
        for (Map.Entry<String, TypeName> variable : kept.entrySet()) {
            Value value = calls.keep(out.getValue(place++));
            scope.declare(variable.getKey(), variable.getValue(), Operand.of(value));
        }
        return result;
    }

    /** A compiled snippet in the program. */
    private static final class Defined {
        final ReferenceType type;

        /** Whether its value, an object, stands for a primitive one. */
        final boolean primitive;

        Defined(ReferenceType type, boolean primitive) {
            this.type = type;
            this.primitive = primitive;
        }
    }

    private Defined define(String text, ReferenceType host)
            throws EvaluationFailed, NotCompiled {
        String name = Calls.SNIPPET + ++number;
        boolean hides = loader.hides();
        Compiled made = compiler.compile(text.replace(Calls.SNIPPET, name), hides);
        byte[] main = null;
        for (Map.Entry<String, byte[]> each : made.files.entrySet()) {
            if (each.getKey().endsWith(name)) {
                main = each.getValue();
            } else {
                // Anonymous classes and the tables of a switch: the main one finds them by name.
                loader.define(each.getValue(), host);
            }
        }
        ReferenceType type =
                hides ? loader.defineHidden(main, host) : loader.define(main, host);
        return new Defined(type, made.primitive);
    }

    private void assign(List<SnippetSource.Variable> assigned, ArrayReference out, Scope scope)
            throws EvaluationFailed {
        for (int at = 0; at < assigned.size(); at++) {
            SnippetSource.Variable variable = assigned.get(at);
            Value value = calls.keep(out.getValue(at));
            boolean primitive = Primitives.isPrimitive(variable.type);
            Value plain = primitive ? scope.operators.unbox(value) : value;
            boolean unset = plain == null && primitive;
            if (!unset && !Objects.equals(plain, variable.value)) {
                variable.target.set(Operand.of(plain));
            }
        }
    }

    /**
     * Loads a compiled class into the program.
     *
     * <p>From Java 15 on it is a hidden nest mate of the class whose code the frame runs: it may
     * use that one's private members, and nothing of the program can find it. Up to JDK 23 it may
     * use those of all classes, as interpreted expressions may. Before 15 it is a class of the same
     * loader and package.
     */
    private final class Loader {
        /**
         * A class of the JDK, up to 23, for whose subclasses the virtual machine checks neither
         * access nor bytecode.
         */
        private static final String UNCHECKED = "jdk.internal.reflect.MagicAccessorImpl";

        /** A subclass of it that is not in its package, whose classes a program can't extend. */
        private static final String PRIVILEGED = "java.lang.StepIntoAccess";

        private static final String LOOKUP = "java.lang.invoke.MethodHandles$Lookup";
        private static final String OPTION = LOOKUP + "$ClassOption";
        private static final int VERSION = 52; // of class files: Java 8
        private static final String DEFINE = "(Ljava/lang/String;[BII)Ljava/lang/Class;";

        /** Whether this virtual machine has hidden classes. */
        boolean hides() {
            return types.find(OPTION, null) != null;
        }

        /** A class of the host's loader and package. */
        ReferenceType define(byte[] content, ReferenceType host) throws EvaluationFailed {
            byte[] made = hides() ? privileged(content) : content;
            ObjectReference loader = host.classLoader();
            Method method = loader.referenceType().methodsByName("defineClass", DEFINE).get(0);
            List<Value> arguments = Arrays.asList(
                    null, bytes(made), types.machine.mirrorOf(0),
                    types.machine.mirrorOf(made.length));
            Value defined = calls.invoke(loader, null, method, arguments);
            ReferenceType type = ((ClassObjectReference) defined).reflectedType();
            types.link(type.name(), type);
            return type;
        }

        /** A hidden nest mate of the host. */
        ReferenceType defineHidden(byte[] content, ReferenceType host) throws EvaluationFailed {
            Value lookup = lookup(host);
            ReferenceType options = types.find(OPTION, null);
            ArrayReference option = array(OPTION + "[]", Collections.singletonList(
                    options.getValue(options.fieldByName("NESTMATE"))));
            Value defined = call(
                    lookup, "defineHiddenClass", bytes(privileged(bound(content))),
                    types.machine.mirrorOf(true), option);
            return ((ClassObjectReference) call(defined, "lookupClass")).reflectedType();
        }

        /** A lookup that may do everything, as a class. */
        private Value lookup(ReferenceType type) throws EvaluationFailed {
            ReferenceType lookups = types.find(LOOKUP, null);
            Value root = lookups.getValue(lookups.fieldByName("IMPL_LOOKUP"));
            return call(root, "in", type.classObject());
        }

        /** Whether the program has {@link #PRIVILEGED}, which is defined if it can be. */
        private boolean privileges() throws EvaluationFailed {
            ReferenceType unchecked = types.find(UNCHECKED, null);
            if (unchecked == null || !types.machine.classesByName(PRIVILEGED).isEmpty()) {
                return unchecked != null;
            }
            ByteBuffer content = ByteBuffer.allocate(1_000);
            content.putInt(0xCAFEBABE).putInt(VERSION).putShort((short) 5);
            putClass(content, PRIVILEGED, 1);
            putClass(content, UNCHECKED, 3);
            content.putShort((short) (Modifier.PUBLIC | Modifier.ABSTRACT));
            content.putShort((short) 2).putShort((short) 4);
            content.putLong(0); // no interfaces, fields, methods, attributes
            Value lookup = lookup(types.find("java.lang.Object", null));
            call(lookup, "defineClass", bytes(Arrays.copyOf(content.array(), content.position())));
            return true;
        }

        /** Appends two constants: a class's name, at an index of the constants, and the class. */
        private void putClass(ByteBuffer content, String name, int index) {
            byte[] text = name.replace('.', '/').getBytes(StandardCharsets.UTF_8);
            content.put(ConstantPool.TEXT).putShort((short) text.length).put(text);
            content.put(ConstantPool.CLASS).putShort((short) index);
        }

        /** The class file with {@link #PRIVILEGED} as its superclass, if it has no other. */
        private byte[] privileged(byte[] bytes) throws EvaluationFailed {
            ByteBuffer content = ByteBuffer.wrap(bytes);
            ConstantPool constants = new ConstantPool(content);
            int added = constants.count();
            int end = content.position();
            String parent = constants.text(constants.first(content.getShort(end + 4) & 0xffff));
            if (!parent.equals("java/lang/Object") || !privileges()) {
                return bytes;
            }
            ByteBuffer changed = ByteBuffer.allocate(bytes.length + 100);
            changed.put(bytes, 0, end);
            putClass(changed, PRIVILEGED, added);
            int flags = changed.position();
            changed.put(bytes, end, bytes.length - end);
            changed.putShort(ConstantPool.START, (short) (added + 2));
            changed.putShort(flags + 4, (short) (added + 1));
            return Arrays.copyOf(changed.array(), changed.position());
        }

        /** The class file with its lambdas bound to its own {@code metafactory}. */
        private byte[] bound(byte[] bytes) {
            ByteBuffer content = ByteBuffer.wrap(bytes.clone());
            ConstantPool constants = new ConstantPool(content);
            int self = content.getShort(content.position() + 2) & 0xffff;
            for (int index = 1; index < constants.count(); index++) {
                if (constants.isMethod(index)) {
                    String owner = constants.text(constants.first(constants.first(index)));
                    String name = constants.text(constants.first(constants.second(index)));
                    boolean lambdas = owner.equals("java/lang/invoke/LambdaMetafactory");
                    if (lambdas && name.equals("metafactory")) {
                        constants.setFirst(index, self);
                    }
                }
            }
            return content.array();
        }

        private Value call(Value object, String name, Value... arguments) throws EvaluationFailed {
            ObjectReference owner = (ObjectReference) object;
            Method method = owner.referenceType().methodsByName(name).get(0);
            return calls.invoke(owner, null, method, Arrays.asList(arguments));
        }

        private ArrayReference bytes(byte[] content) throws EvaluationFailed {
            List<Value> values = new ArrayList<>();
            for (byte unit : content) {
                values.add(types.machine.mirrorOf(unit));
            }
            return array("byte[]", values);
        }

        private ArrayReference array(String type, List<? extends Value> values)
                throws EvaluationFailed {
            ArrayType arrays = (ArrayType) types.find(type, null);
            ArrayReference array = (ArrayReference) calls.keep(arrays.newInstance(values.size()));
            try {
                array.setValues(values);
            } catch (InvalidTypeException | ClassNotLoadedException error) {
                throw new EvaluationFailed(
                        "the code could not be brought into the program: " + error);
            }
            return array;
        }
    }
}
