package stepinto.probe.evaluation.compiling;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ArrayType;
import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.ClassObjectReference;
import com.sun.jdi.Field;
import com.sun.jdi.InvalidTypeException;
import com.sun.jdi.Method;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import com.sun.jdi.VirtualMachine;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import stepinto.probe.evaluation.values.Calls;
import stepinto.probe.evaluation.values.Types;
import stepinto.probe.program.EvaluationFailed;

/**
 * Loads a compiled class into the program.
 *
 * <p>From Java 15 on it is a hidden nest mate of the class whose code the frame runs: it may use
 * that one's private members, and nothing of the program can find it. Before, it is a class of the
 * same loader and package.
 */
final class SnippetLoader {
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
        VirtualMachine machine = types.machine();
        ObjectReference loader = host.classLoader();
        Method method = loader.referenceType().methodsByName("defineClass", DEFINE).get(0);
        List<Value> arguments = Arrays.asList(
                null, bytes(content), machine.mirrorOf(0), machine.mirrorOf(content.length));
        Value defined = calls.invoke(loader, null, method, arguments);
        ReferenceType type = ((ClassObjectReference) defined).reflectedType();
        types.link(type.name(), type);
        return type;
    }

    /** A hidden nest mate of the host. */
    ReferenceType defineHidden(byte[] content, ReferenceType host) throws EvaluationFailed {
        VirtualMachine machine = types.machine();
        ReferenceType lookups = types.find(LOOKUP, null);
        Field trusted = lookups.fieldByName("IMPL_LOOKUP");
        ObjectReference root = (ObjectReference) lookups.getValue(trusted);
        ObjectReference lookup = call(root, "in", host.classObject());
        ReferenceType options = types.find(OPTION, null);
        ArrayReference option = array(OPTION + "[]", Collections.singletonList(
                options.getValue(options.fieldByName("NESTMATE"))));
        ObjectReference defined = call(
                lookup, "defineHiddenClass", bytes(content), machine.mirrorOf(true), option);
        return ((ClassObjectReference) call(defined, "lookupClass")).reflectedType();
    }

    private ObjectReference call(ObjectReference object, String name, Value... arguments)
            throws EvaluationFailed {
        Method method = object.referenceType().methodsByName(name).get(0);
        return (ObjectReference) calls.invoke(object, null, method, Arrays.asList(arguments));
    }

    private ArrayReference bytes(byte[] content) throws EvaluationFailed {
        List<Value> values = new ArrayList<>();
        for (byte unit : content) {
            values.add(types.machine().mirrorOf(unit));
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
