package stepinto.probe;

import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;

/** What an expression came to: a value, or a class that was named. */
final class Operand {
    final Value value;

    /** The value's declared type; null where only the value itself tells (a type variable). */
    final String declared;

    /** The class, where the expression names one. */
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
}
