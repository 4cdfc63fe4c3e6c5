package stepinto.probe.program;

import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.StringReference;
import com.sun.jdi.Type;
import com.sun.jdi.Value;
import java.util.List;
import java.util.Locale;

/** Names of types as a reader writes them: without package, nested classes by dots. */
public final class TypeNames {
    private TypeNames() {}

    /** {@code java.util.Map$Entry[]} as {@code Map.Entry[]}; anonymous classes keep the dollar. */
    public static String simple(String binaryName) {
        int array = binaryName.indexOf('[');
        String name = array < 0 ? binaryName : binaryName.substring(0, array);
        name = name.substring(name.lastIndexOf('.') + 1);
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < name.length(); at++) {
            boolean nests =
                    name.charAt(at) == '$'
                            && at > 0
                            && at + 1 < name.length()
                            && Character.isJavaIdentifierStart(name.charAt(at + 1));
            text.append(nests ? '.' : name.charAt(at));
        }
        return text + (array < 0 ? "" : binaryName.substring(array));
    }

    /** The type to show beside a value; the declared one for null. */
    public static String of(Value value, String declared) {
        if (value == null) {
            return declared == null ? "null" : simple(declared);
        }
        if (value instanceof StringReference) {
            return "String";
        }
        String name = nameOf(value.type());
        return isLambda(name) ? lambdaInterface((ReferenceType) value.type()) : simple(name);
    }

    /** The class of an enum's constant that has a body is no other than the enum to a reader. */
    private static String nameOf(Type type) {
        ClassType above = type instanceof ClassType ? ((ClassType) type).superclass() : null;
        return above != null && above.isEnum() ? above.name() : type.name();
    }

    public static boolean isLambda(String binaryName) {
        return binaryName.contains("$$Lambda");
    }

    private static String lambdaInterface(ReferenceType type) {
        List<InterfaceType> interfaces = ((ClassType) type).interfaces();
        return interfaces.isEmpty() ? "lambda" : simple(interfaces.get(0).name());
    }

    /** Whether the class belongs to the JDK, whose methods can be trusted to end. */
    public static boolean isPlatform(String binaryName) {
        return binaryName.startsWith("java.")
                || binaryName.startsWith("javax.")
                || binaryName.startsWith("jdk.")
                || binaryName.startsWith("sun.")
                || binaryName.startsWith("com.sun.");
    }

    /** As {@code Class.forName} takes it: {@code [I}, {@code [[La.B;}; other names as they are. */
    public static String forName(String binaryName) {
        int array = binaryName.indexOf('[');
        if (array < 0) {
            return binaryName;
        }
        StringBuilder text = new StringBuilder();
        for (int at = array; at < binaryName.length(); at += 2) {
            text.append('[');
        }
        String item = binaryName.substring(0, array);
        int primitive = " boolean byte char short int long float double ".indexOf(" " + item + " ");
        return text + (primitive < 0 ? "L" + item + ";" : letter(item));
    }

    private static String letter(String primitive) {
        switch (primitive) {
            case "boolean":
                return "Z";
            case "long":
                return "J";
            default:
                return primitive.substring(0, 1).toUpperCase(Locale.ROOT);
        }
    }
}
