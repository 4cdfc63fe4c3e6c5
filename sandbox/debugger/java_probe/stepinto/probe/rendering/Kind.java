package stepinto.probe.rendering;

import com.sun.jdi.ClassType;
import com.sun.jdi.InterfaceType;
import com.sun.jdi.Method;
import com.sun.jdi.ReferenceType;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** The ways in which an object can be shown. */
enum Kind {
    BOX, BUILDER, ENUM, THROWABLE, OPTIONAL, ENTRY, LAMBDA, RECORD,
    /** By the fields, because it has no {@code toString} of its own. */
    FIELDS,
    /** By its {@code toString}. */
    TEXT;

    private static final String TO_STRING = "()Ljava/lang/String;";
    private static final byte ALOAD_0 = 0x2a;
    private static final byte INVOKEDYNAMIC = (byte) 0xba;

    /** How objects of a class are shown; arrays, strings and collections are handled before. */
    static Kind of(ReferenceType type) {
        String name = type.name();
        if (Primitives.unboxed(name) != null) {
            return BOX;
        }
        if (name.equals("java.lang.StringBuilder") || name.equals("java.lang.StringBuffer")) {
            return BUILDER;
        }
        if (name.equals("java.util.Optional")) {
            return OPTIONAL;
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
        if (TypeNames.isPlatform(type.name()) && type.fieldByName("key") != null) {
            for (InterfaceType each : type.allInterfaces()) {
                if (each.name().equals("java.util.Map$Entry")) {
                    return ENTRY;
                }
            }
        }
        Method method = type.concreteMethodByName("toString", TO_STRING);
        if (method == null || method.declaringType().name().equals("java.lang.Object")) {
            return FIELDS;
        }
        // A record's own toString is one call of the JDK's, given the record.
        byte[] code = record ? method.bytecodes() : new byte[0];
        boolean generated = code.length == 7 && code[0] == ALOAD_0 && code[1] == INVOKEDYNAMIC;
        return generated ? RECORD : TEXT;
    }
}
