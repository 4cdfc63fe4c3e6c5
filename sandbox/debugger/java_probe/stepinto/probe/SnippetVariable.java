package stepinto.probe;

import com.sun.jdi.Value;

/** A variable of the frame as a parameter of compiled code. */
final class SnippetVariable {
    final String name;
    /** As source writes it. */
    final String type;
    final Value value;
    /** Null for what can't be assigned: {@code this}, captured variables. */
    final Expression.Variable target;

    SnippetVariable(String name, String type, Value value, Expression.Variable target) {
        this.name = name;
        this.type = type;
        this.value = value;
        this.target = target;
    }
}
