package stepinto.probe.rendering;

import com.sun.jdi.*;
import java.nio.ByteOrder;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import stepinto.probe.program.TypeNames;

/**
 * Reads private fields of the program's objects, by name and in one round trip.
 *
 * <p>Nothing of the program runs, so that nothing can go wrong.
 */
public final class Heap {
    private static final int SMALL = 100_000;
    private static final List<String> OF_STACK = Arrays.asList("backtrace", "depth", "stackTrace");
    private final Map<ReferenceType, Map<String, Field>> fields = new HashMap<>();
    private ReferenceType string;

    /**
     * The fields of a class and its superclasses, none of them static; the topmost class first.
     * Without those by which the virtual machine keeps an exception's stack.
     */
    static List<Field> instanceFields(ReferenceType type) {
        List<Field> found = new ArrayList<>();
        ReferenceType above = type instanceof ClassType ? ((ClassType) type).superclass() : null;
        if (above != null) {
            found.addAll(instanceFields(above));
        }
        for (Field field : type.fields()) {
            boolean kept = type.name().equals("java.lang.Throwable")
                    && OF_STACK.contains(field.name());
            if (!field.isStatic() && !kept) {
                found.add(field);
            }
        }
        return found;
    }

    /**
     * The names under which the fields of an object are shown: with the class, as {@code
     * Base.name}, if several of its classes have a field of that name.
     */
    static Map<Field, String> shownNames(List<Field> fields) {
        Map<String, Integer> counts = new HashMap<>();
        for (Field field : fields) {
            counts.merge(field.name(), 1, Integer::sum);
            counts.merge(ofSimpleClass(field), 1, Integer::sum);
        }
        Map<Field, String> names = new HashMap<>();
        for (Field field : fields) {
            String name = field.name();
            if (counts.get(name) > 1) {
                boolean sameClassName = counts.get(ofSimpleClass(field)) > 1;
                name = sameClassName
                        ? field.declaringType().name() + "." + name : ofSimpleClass(field);
            }
            names.put(field, name);
        }
        return names;
    }

    private static String ofSimpleClass(Field field) {
        return TypeNames.simple(field.declaringType().name()) + "." + field.name();
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

    public JavaText text(StringReference string) {
        ArrayReference units = null;
        try {
            units = (ArrayReference) value(string, "value");
        } catch (LayoutUnknown other) {
            units = null;
        }
        if (units == null || units.length() <= SMALL) {
            String whole = string.value();
            return new JavaText(whole, null, whole.length(), false);
        }
        boolean wide = isWide(string, units);
        return new JavaText(null, units, wide ? units.length() / 2 : units.length(), wide);
    }

    /** The text in a StringBuilder or StringBuffer. */
    JavaText textOfBuilder(ObjectReference builder) {
        int count = number(value(builder, "count"));
        ArrayReference units = (ArrayReference) value(builder, "value");
        return new JavaText(null, units, count, isWide(builder, units));
    }

    /** Whether a character takes two items of the array. */
    private boolean isWide(ObjectReference text, ArrayReference units) {
        return units.type().name().equals("byte[]")
                && number(value(text, "coder")) == 1;
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

    /** A string, or a StringBuilder, of the program: its length, and what is asked for of it. */
    public static final class JavaText {
        private static final int CHUNK = 8_192;

        public final int length;
        private final String whole;
        private final ArrayReference units;
        private final boolean wide;

        private JavaText(String whole, ArrayReference units, int length, boolean wide) {
            this.whole = whole;
            this.units = units;
            this.length = length;
            this.wide = wide;
        }

        /** The characters from one position to another, or to the end. */
        public String part(int from, int to) {
            int end = Math.min(to, length);
            if (from >= end) {
                return "";
            }
            if (whole != null) {
                return whole.substring(from, end);
            }
            StringBuilder text = new StringBuilder(end - from);
            boolean bigEndian = ByteOrder.nativeOrder() == ByteOrder.BIG_ENDIAN;
            int size = wide ? 2 : 1;
            for (int at = from; at < end; at += CHUNK) {
                int count = Math.min(CHUNK, end - at);
                List<Value> values = units.getValues(size * at, size * count);
                for (int unit = 0; unit < values.size(); unit += size) {
                    int first = unit(values.get(unit));
                    if (wide) {
                        int second = unit(values.get(unit + 1));
                        text.append((char) (bigEndian ? first << 8 | second : second << 8 | first));
                    } else {
                        text.append((char) first);
                    }
                }
            }
            return text.toString();
        }

        private static int unit(Value unit) {
            return unit instanceof CharValue
                    ? ((CharValue) unit).value() : ((ByteValue) unit).value() & 0xff;
        }
    }
}
