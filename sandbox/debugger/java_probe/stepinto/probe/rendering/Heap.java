package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Reads private fields of the program's objects, by name and in one round trip.
 *
 * <p>Nothing of the program runs, so that nothing can go wrong.
 */
public final class Heap {
    private final Map<ReferenceType, Map<String, Field>> fields = new HashMap<>();
    private ReferenceType string;

    /** The fields of a class and its superclasses, none of them static; the topmost class first. */
    static List<Field> instanceFields(ReferenceType type) {
        List<Field> found = new ArrayList<>();
        ReferenceType above = type instanceof ClassType ? ((ClassType) type).superclass() : null;
        if (above != null) {
            found.addAll(instanceFields(above));
        }
        for (Field field : type.fields()) {
            if (!field.isStatic()) {
                found.add(field);
            }
        }
        return found;
    }

    /**
     * The values of fields that one class declares itself.
     *
     * @throws LayoutUnknown if this version of the class has no such field
     */
    List<Value> values(ObjectReference object, ReferenceType type, String... names) {
        List<Field> wanted = new ArrayList<>();
        for (String name : names) {
            wanted.add(field(type, name));
        }
        Map<Field, Value> values = object.getValues(wanted);
        List<Value> found = new ArrayList<>();
        for (Field field : wanted) {
            found.add(values.get(field));
        }
        return found;
    }

    /** The value of one field that the object's class declares or inherits. */
    public Value value(ObjectReference object, String name) {
        // The class of a string is asked for once only.
        boolean text = object instanceof StringReference;
        ReferenceType type = text && string != null ? string : object.referenceType();
        string = text ? type : string;
        return object.getValue(field(type, name));
    }

    /** The value of a field that a certain superclass declares, whatever hides it below. */
    Value value(ObjectReference object, String className, String name) {
        ClassType type = (ClassType) object.referenceType();
        while (!type.name().equals(className)) {
            type = type.superclass();
        }
        return object.getValue(field(type, name));
    }

    private Field field(ReferenceType type, String name) {
        Field found = fields.computeIfAbsent(type, Heap::byName).get(name);
        if (found == null) {
            throw new LayoutUnknown(type.name() + " has no field " + name);
        }
        return found;
    }

    private static Map<String, Field> byName(ReferenceType type) {
        Map<String, Field> found = new HashMap<>();
        for (Field field : instanceFields(type)) {
            found.put(field.name(), field);
        }
        return found;
    }

    static int number(Value value) {
        return ((PrimitiveValue) value).intValue();
    }

    static int length(Value array) {
        return array == null ? 0 : ((ArrayReference) array).length();
    }

    /** A class of the JDK is laid out otherwise than known; its public methods are used instead. */
    static final class LayoutUnknown extends RuntimeException {
        private static final long serialVersionUID = 1;

        LayoutUnknown(String message) {
            super(message);
        }
    }
}
