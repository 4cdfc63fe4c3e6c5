package stepinto.probe;

import com.sun.jdi.Value;

/** A value with the name it is shown under: a local, a field, an item. */
final class Named {
    final String name;

    /** Its declared type, to be shown for null; null where unknown. */
    final String declared;

    final Value value;

    Named(String name, String declared, Value value) {
        this.name = name;
        this.declared = declared;
        this.value = value;
    }
}
