package stepinto.probe.evaluation.values;

import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;

/** The result of an expression: a value, or a class that was named. */
public final class Operand {
    public final Value value;

    /** The value's declared type; null if only the value itself tells (a type variable). */
    public final String declared;

    /** The class, if the expression names one. */
    public final ReferenceType type;

    private Operand(Value value, String declared, ReferenceType type) {
        this.value = value;
        this.declared = declared;
        this.type = type;
    }

    public static Operand of(Value value) {
        return new Operand(value, null, null);
    }

    public static Operand of(Value value, String declared) {
        return new Operand(value, declared, null);
    }

    public static Operand of(ReferenceType type) {
        return new Operand(null, null, type);
    }

    public boolean isType() {
        return type != null;
    }
}
