package stepinto.probe.program;

import com.sun.jdi.Value;

/** A value with the name it is shown under: a local, a field, an item. */
public final class Named {
    public final String name;

    /** Its declared type, to be shown for null; null if unknown. */
    public final String declared;

    public final Value value;

    public Named(String name, String declared, Value value) {
        this.name = name;
        this.declared = declared;
        this.value = value;
    }
}
