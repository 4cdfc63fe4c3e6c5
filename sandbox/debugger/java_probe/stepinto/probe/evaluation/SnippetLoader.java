package stepinto.probe.evaluation;

import com.sun.jdi.*;
import java.nio.ByteBuffer;
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
 * that one's private members, and nothing of the program can find it. Before, it is a class of the
 * same loader and package.
 */
final class SnippetLoader {
    /**
     * A method that makes lambdas work in a hidden class, for its source.
     *
     * <p>What {@code LambdaMetafactory} makes calls a lambda's body by the name of its class, and a
     * hidden class has none. So the class brings a method of the same name and type that hands on a
     * method handle instead, and the lambdas are bound to that.
     */
    static final String METAFACTORY =
            "static java.lang.invoke.CallSite metafactory("
                    + "java.lang.invoke.MethodHandles.Lookup lookup, String name, "
                    + "java.lang.invoke.MethodType made, java.lang.invoke.MethodType method, "
                    + "java.lang.invoke.MethodHandle body, java.lang.invoke.MethodType exact) "
                    + "throws Exception { "
                    + "return new java.lang.invoke.ConstantCallSite("
                    + "java.lang.invoke.LambdaMetafactory.altMetafactory(lookup, name, "
                    + "made.insertParameterTypes(0, java.lang.invoke.MethodHandle.class), method, "
                    + "java.lang.invoke.MethodHandles.exactInvoker(body.type()), exact, 0)"
                    + ".getTarget().bindTo(body)); }\n";

    private static final String LOOKUP = "java.lang.invoke.MethodHandles$Lookup";
    private static final String OPTION = LOOKUP + "$ClassOption";
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
        ObjectReference loader = host.classLoader();
        Method method = loader.referenceType().methodsByName("defineClass", DEFINE).get(0);
        List<Value> arguments = Arrays.asList(
                null, bytes(content), types.machine.mirrorOf(0),
                types.machine.mirrorOf(content.length));
        Value defined = calls.invoke(loader, null, method, arguments);
        ReferenceType type = ((ClassObjectReference) defined).reflectedType();
        types.link(type.name(), type);
        return type;
    }

    /** A hidden nest mate of the host. */
    ReferenceType defineHidden(byte[] content, ReferenceType host) throws EvaluationFailed {
        ReferenceType lookups = types.find(LOOKUP, null);
        Value root = lookups.getValue(lookups.fieldByName("IMPL_LOOKUP"));
        Value lookup = call(root, "in", host.classObject());
        ReferenceType options = types.find(OPTION, null);
        ArrayReference option = array(OPTION + "[]", Collections.singletonList(
                options.getValue(options.fieldByName("NESTMATE"))));
        Value defined = call(
                lookup, "defineHiddenClass", bytes(bound(content)), types.machine.mirrorOf(true),
                option);
        return ((ClassObjectReference) call(defined, "lookupClass")).reflectedType();
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
