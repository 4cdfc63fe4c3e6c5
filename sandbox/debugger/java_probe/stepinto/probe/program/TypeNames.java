package stepinto.probe.program;

import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.StringReference;
import com.sun.jdi.Value;
import java.util.Arrays;
import java.util.List;

/** Names of types as a reader writes them: without package, nested classes by dots. */
public final class TypeNames {
    public static final List<String> PLATFORM =
        Arrays.asList("java.", "javax.", "jdk.", "sun.", "com.sun.");

    private TypeNames() {}

    /** {@code java.util.Map$Entry[]} as {@code Map.Entry[]}; anonymous classes keep the dollar. */
    public static String simple(String binaryName) {
        int array = binaryName.indexOf('[');
        String name = array < 0 ? binaryName : binaryName.substring(0, array);
        name = name.substring(name.lastIndexOf('.') + 1);
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < name.length(); at++) {
            boolean nests = name.charAt(at) == '$' && at > 0 && at + 1 < name.length()
                    && Character.isJavaIdentifierStart(name.charAt(at + 1));
            text.append(nests ? '.' : name.charAt(at));
        }
        return text + (array < 0 ? "" : binaryName.substring(array));
    }

    public static String of(Value value, String declared) {
        if (value == null) {
            return declared == null ? "null" : simple(declared);
        }
        if (value instanceof StringReference) {
            return "String";
        }
        ClassType type = value.type() instanceof ClassType ? (ClassType) value.type() : null;
        if (type != null && isLambda(type.name())) {
            List<InterfaceType> interfaces = type.interfaces();
            return interfaces.isEmpty() ? "lambda" : simple(interfaces.get(0).name());
        }
        // The class of an enum's constant that has a body is no other than the enum to a reader.
        ClassType above = type == null ? null : type.superclass();
        return simple(above != null && above.isEnum() ? above.name() : value.type().name());
    }

    public static boolean isLambda(String binaryName) {
        return binaryName.contains("$$Lambda");
    }

    /** Whether the class belongs to the JDK, whose methods can be trusted to end. */
    public static boolean isPlatform(String binaryName) {
        return PLATFORM.stream().anyMatch(binaryName::startsWith);
    }

    /** As {@code Class.forName} takes it: {@code [I}, {@code [[La.B;}; other names as they are. */
    public static String forName(String binaryName) {
        int array = binaryName.indexOf('[');
        if (array < 0) {
            return binaryName;
        }
        String item = binaryName.substring(0, array);
        boolean primitive = Primitives.isPrimitive(item);
        return binaryName.substring(array).replace("[]", "[")
                + (primitive ? "" + Primitives.letter(item) : "L" + item + ";");
    }
}
