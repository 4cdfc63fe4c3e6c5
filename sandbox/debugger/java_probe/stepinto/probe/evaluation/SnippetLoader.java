package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.lang.reflect.Modifier;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import stepinto.probe.program.ConstantPool;
import stepinto.probe.program.EvaluationFailed;

/**
 * Loads a compiled class into the program.
 *
 * <p>From Java 15 on it is a hidden nest mate of the class whose code the frame runs: it may use
 * that one's private members, and nothing of the program can find it. Up to JDK 23 it may use those
 * of all classes, as interpreted expressions may. Before 15 it is a class of the same loader and
 * package.
 */
final class SnippetLoader {
    /**
     * A method that makes lambdas work in a hidden class, for its source.
     *
     * <p>What {@code LambdaMetafactory} makes calls a lambda's body by the name of its class, and a
     * hidden class has none. So the class brings a method of the same name and type that hands on a
     * method handle instead, and the lambdas are bound to that. All types are erased: the class that
     * is made for a lambda can't cast to a class that its package doesn't see.
     */
    static final String METAFACTORY =
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

    /**
     * A class of the JDK, up to 23, for whose subclasses the virtual machine checks neither access
     * nor bytecode.
     */
    private static final String UNCHECKED = "jdk.internal.reflect.MagicAccessorImpl";

    /** A subclass of it that is not in its package, whose classes a program can't extend. */
    private static final String PRIVILEGED = "java.lang.StepIntoAccess";

    private static final String LOOKUP = "java.lang.invoke.MethodHandles$Lookup";
    private static final String OPTION = LOOKUP + "$ClassOption";
    private static final int VERSION = 52; // of class files: Java 8
    private static final String DEFINE = "(Ljava/lang/String;[BII)Ljava/lang/Class;";

    private final Types types;
    private final Calls calls;

    SnippetLoader(Types types, Calls calls) {
        this.types = types;
        this.calls = calls;
    }

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
    private static void putClass(ByteBuffer content, String name, int index) {
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
    private static byte[] bound(byte[] bytes) {
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
            throw new EvaluationFailed("the code could not be brought into the program: " + error);
        }
        return array;
    }
}
