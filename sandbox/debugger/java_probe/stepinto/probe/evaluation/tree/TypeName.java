package stepinto.probe.evaluation.tree;

import com.sun.jdi.ArrayType;
import com.sun.jdi.Field;
import com.sun.jdi.ReferenceType;
import com.sun.jdi.Value;
import stepinto.probe.evaluation.values.Conversions;
import stepinto.probe.evaluation.values.Types;
import stepinto.probe.program.EvaluationFailed;

/** A type as it stands in source, without its type arguments. */
public final class TypeName {
    private final String name;
    private final int dimensions;
    private final String source;

    public TypeName(String name, int dimensions) {
        this(name, dimensions, name + brackets(dimensions));
    }

    private TypeName(String name, int dimensions, String source) {
        this.name = name;
        this.dimensions = dimensions;
        this.source = source;
    }

    public TypeName array(int more) {
        return new TypeName(name, dimensions + more, source + brackets(more));
    }

    /** The same type, as it stands in the source. */
    public TypeName written(String text) {
        return new TypeName(name, dimensions, text);
    }

    /** As it stands in the source, type arguments and all. */
    String source() {
        return source;
    }

    boolean isVar() {
        return name.equals("var") && dimensions == 0;
    }

    public boolean isPrimitive() {
        return dimensions == 0 && Types.isPrimitive(name);
    }

    /** The binary name. Fails with the nearest names if there is no such class. */
    String resolve(Scope scope) throws EvaluationFailed {
        return item(scope) + brackets(dimensions);
    }

    private String item(Scope scope) throws EvaluationFailed {
        if (Types.isPrimitive(name)) {
            return name;
        }
        ReferenceType type = scope.services.types.named(name, scope.here);
        if (type == null) {
            throw new EvaluationFailed(
                    "there is no class " + name + " here; write its full name, package and all");
        }
        return type.name();
    }

    static String brackets(int count) {
        StringBuilder text = new StringBuilder();
        for (int at = 0; at < count; at++) {
            text.append("[]");
        }
        return text.toString();
    }

    /** The class itself; a primitive has none. */
    ReferenceType type(Scope scope) throws EvaluationFailed {
        String binary = resolve(scope);
        ReferenceType type = scope.services.types.find(binary, scope.here);
        if (type == null) {
            throw new EvaluationFailed("the class " + binary + " can't be loaded");
        }
        return type;
    }

    ArrayType arrayType(Scope scope) throws EvaluationFailed {
        return (ArrayType) type(scope);
    }

    /** The object of {@code Class}. */
    Value mirror(Scope scope) throws EvaluationFailed {
        if (!isPrimitive()) {
            return type(scope).classObject();
        }
        String box = name.equals("void") ? "java.lang.Void" : Conversions.boxed(name);
        ReferenceType type = scope.services.types.find(box, scope.here);
        Field field = type.fieldByName("TYPE");
        return type.getValue(field);
    }

    @Override
    public String toString() {
        return name + brackets(dimensions);
    }
}
