package stepinto.probe.program;

import com.sun.jdi.*;
import java.util.Arrays;
import java.util.List;

/** Java's primitive types, void among them, their boxes and their values. */
public final class Primitives {
    /** Each can be widened to those after it; char only from int on. */
    private static final List<String> NUMERIC =
            Arrays.asList("byte", "short", "int", "long", "float", "double");

    private static final List<String> NAMES =
            Arrays.asList(
                    "byte", "short", "int", "long", "float", "double", "char", "boolean", "void");
    private static final List<String> BOXES =
            Arrays.asList(
                    "java.lang.Byte", "java.lang.Short", "java.lang.Integer", "java.lang.Long",
                    "java.lang.Float", "java.lang.Double", "java.lang.Character",
                    "java.lang.Boolean", "java.lang.Void");
    /** As class files and {@code Class.forName} have them. */
    private static final String LETTERS = "BSIJFDCZV";

    private Primitives() {}

    public static boolean isPrimitive(String name) {
        return NAMES.contains(name);
    }

    static char letter(String name) {
        return LETTERS.charAt(NAMES.indexOf(name));
    }

    public static String ofLetter(char letter) {
        return NAMES.get(LETTERS.indexOf(letter));
    }

    /** The primitive type that a box holds; null for another type. */
    public static String unboxed(String name) {
        int at = BOXES.indexOf(name);
        return at < 0 ? null : NAMES.get(at);
    }

    public static String boxed(String primitive) {
        return BOXES.get(NAMES.indexOf(primitive));
    }

    /** Whether one primitive type is widened to another without a cast. */
    public static boolean widens(String from, String to) {
        int first = NUMERIC.indexOf(from.equals("char") ? "int" : from);
        int second = NUMERIC.indexOf(to);
        boolean up = from.equals("char") ? second >= 2 : second > first;
        return from.equals(to) || (first >= 0 && second >= 0 && up);
    }

    public static boolean isFloating(PrimitiveValue value) {
        return value instanceof DoubleValue || value instanceof FloatValue;
    }

    /** A number as another primitive type; digits that don't fit are lost. */
    public static PrimitiveValue narrow(PrimitiveValue value, String to) {
        VirtualMachine machine = value.virtualMachine();
        int whole = isFloating(value) ? (int) value.doubleValue() : (int) value.longValue();
        switch (to) {
            case "byte":
                return machine.mirrorOf((byte) whole);
            case "short":
                return machine.mirrorOf((short) whole);
            case "char":
                return machine.mirrorOf((char) whole);
            case "int":
                return machine.mirrorOf(whole);
            case "long":
                return machine.mirrorOf(value.longValue());
            case "float":
                return machine.mirrorOf(value.floatValue());
            case "double":
                return machine.mirrorOf(value.doubleValue());
            default:
                return value;
        }
    }

    /** What a variable of a type holds when nothing was assigned to it; null for an object. */
    public static Value zero(VirtualMachine machine, String type) {
        if (!isPrimitive(type)) {
            return null;
        }
        boolean nothing = type.equals("void");
        return nothing ? machine.mirrorOfVoid()
                : type.equals("boolean") ? machine.mirrorOf(false)
                : narrow(machine.mirrorOf(0), type);
    }
}
