package stepinto.probe.rendering;

import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import java.util.Arrays;
import java.util.HashSet;
import java.util.Set;
import stepinto.probe.program.TypeNames;

/** The ways in which an object can be shown. */
enum Kind {
    BOX,
    BUILDER,
    ENUM,
    THROWABLE,
    OPTIONAL,
    ATOMIC,
    ENTRY,
    LAMBDA,
    RECORD,
    /** By the fields, because it has no {@code toString} of its own. */
    FIELDS,
    /** By its {@code toString}. */
    TEXT;

    private static final String TO_STRING = "()Ljava/lang/String;";
    private static final byte ALOAD_0 = 0x2a;
    private static final byte INVOKEDYNAMIC = (byte) 0xba;
    private static final Set<String> BOXES =
            new HashSet<>(Arrays.asList(
                    "java.lang.Integer", "java.lang.Long", "java.lang.Double",
                    "java.lang.Boolean", "java.lang.Character", "java.lang.Float",
                    "java.lang.Short", "java.lang.Byte"));

    /** How objects of a class are shown; arrays, strings and collections are handled before. */
    static Kind of(ReferenceType type) {
        String name = type.name();
        if (BOXES.contains(name)) {
            return BOX;
        }
        if (name.equals("java.lang.StringBuilder") || name.equals("java.lang.StringBuffer")) {
            return BUILDER;
        }
        if (name.equals("java.util.Optional")) {
            return OPTIONAL;
        }
        boolean atomic = name.startsWith("java.util.concurrent.atomic.Atomic");
        if (atomic && type.fieldByName("value") != null) {
            return ATOMIC;
        }
        if (TypeNames.isLambda(name)) {
            return LAMBDA;
        }
        return type instanceof ClassType ? byAncestry((ClassType) type) : FIELDS;
    }

    private static Kind byAncestry(ClassType type) {
        boolean record = false;
        for (ClassType base = type; base != null; base = base.superclass()) {
            String name = base.name();
            if (name.equals("java.lang.Enum")) {
                return ENUM;
            }
            if (name.equals("java.lang.Throwable")) {
                return THROWABLE;
            }
            record |= name.equals("java.lang.Record");
        }
        if (TypeNames.isPlatform(type.name()) && isEntry(type)) {
            return ENTRY;
        }
        Method method = type.concreteMethodByName("toString", TO_STRING);
        if (method == null || method.declaringType().name().equals("java.lang.Object")) {
            return FIELDS;
        }
        return record && isGenerated(method) ? RECORD : TEXT;
    }

    private static boolean isEntry(ClassType type) {
        for (InterfaceType each : type.allInterfaces()) {
            if (each.name().equals("java.util.Map$Entry")) {
                return type.fieldByName("key") != null;
            }
        }
        return false;
    }

    /** A record's own {@code toString} is one call of the JDK's, given the record. */
    private static boolean isGenerated(Method method) {
        byte[] code = method.bytecodes();
        return code.length == 7 && code[0] == ALOAD_0 && code[1] == INVOKEDYNAMIC;
    }
}
