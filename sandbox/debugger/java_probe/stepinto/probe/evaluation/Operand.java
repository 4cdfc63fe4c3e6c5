package stepinto.probe.evaluation;

import com.sun.jdi.PrimitiveValue;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;

/** The result of an expression: a value, or a class that was named. */
final class Operand {
    final Value value;

    /** The value's declared type; null if only the value itself tells (a type variable). */
    final String declared;

    /** The class, if the expression names one. */
    final ReferenceType type;

    private Operand(Value value, String declared, ReferenceType type) {
        this.value = value;
        this.declared = declared;
        this.type = type;
    }

    static Operand of(Value value) {
        return new Operand(value, null, null);
    }

    static Operand of(Value value, String declared) {
        return new Operand(value, declared, null);
    }

    static Operand of(ReferenceType type) {
        return new Operand(null, null, type);
    }

    boolean isType() {
        return type != null;
    }

    /** Its type for the reader and for overloads; "null" for a null of no type. */
    String typeName() {
        if (declared != null && !(value instanceof PrimitiveValue)) {
            return declared;
        }
        return value == null ? "null" : value.type().name();
    }
}
