package stepinto.probe.evaluation;

import com.sun.jdi.*;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.Primitives;
import stepinto.probe.program.TypeNames;

/** A place in the program that holds a value: a local variable, a field, an array element. */
final class Slot implements Expression.Variable {
    private interface Reader {
        Value read() throws EvaluationFailed;
    }

    private interface Writer {
        void write(Value value)
                throws InvalidTypeException, ClassNotLoadedException, EvaluationFailed;
    }

    private final Scope scope;
    private final String type;
    private final String declared;
    private final Reader reader;
    private final Writer writer;

    private Slot(Scope scope, String type, String declared, Reader reader, Writer writer) {
        this.scope = scope;
        this.type = type;
        this.declared = declared;
        this.reader = reader;
        this.writer = writer;
    }

    @Override
    public Operand get() throws EvaluationFailed {
        return Operand.of(reader.read(), declared);
    }

    @Override
    public Operand set(Operand operand) throws EvaluationFailed {
        Value value = scope.operators.assign(operand, type, scope.here);
        for (boolean again = false; ; again = true) {
            try {
                writer.write(value);
                return Operand.of(value, type);
            } catch (InvalidTypeException error) {
                throw new EvaluationFailed(
                        "incompatible types: a " + TypeNames.simple(type) + " is needed");
            } catch (ClassNotLoadedException missing) {
                if (again) {
                    throw new EvaluationFailed("the class " + type + " can't be loaded");
                }
                scope.types.link(missing.className(), scope.here);
            }
        }
    }

    /** The type; null for one that stands for a type variable, and says less than the value. */
    static String declared(String type, String generic) {
        boolean variable = generic != null && generic.replace("[", "").startsWith("T");
        return variable ? null : type;
    }

    static Slot local(Scope scope, LocalVariable variable) {
        String type = variable.typeName();
        return new Slot(
                scope, type, declared(type, variable.genericSignature()),
                () -> scope.at.frame().getValue(variable),
                value -> scope.at.frame().setValue(variable, value));
    }

    /** A field; the object is null for a static one. */
    static Slot field(Scope scope, ObjectReference object, Field field) {
        String type = field.typeName();
        return new Slot(
                scope, type, declared(type, field.genericSignature()),
                () -> {
                    if (object != null) {
                        return object.getValue(field);
                    }
                    scope.types.initialise(field.declaringType());
                    return field.declaringType().getValue(field);
                },
                value -> assign(scope, object, field, value));
    }

    private static void assign(Scope scope, ObjectReference object, Field field, Value value)
            throws InvalidTypeException, ClassNotLoadedException, EvaluationFailed {
        boolean captured = field.name().startsWith("val$");
        if (field.isFinal() || captured) {
            String name = captured ? field.name().substring(4) : field.name();
            throw new EvaluationFailed(name + " is final; it can't be assigned");
        }
        if (object == null) {
            scope.types.initialise(field.declaringType());
            ((ClassType) field.declaringType()).setValue(field, value);
        } else {
            object.setValue(field, value);
        }
    }

    static Slot element(Scope scope, ArrayReference array, int index) throws EvaluationFailed {
        int length = array.length();
        if (index < 0 || index >= length) {
            throw new EvaluationFailed(
                    "ArrayIndexOutOfBoundsException: Index " + index
                            + " out of bounds for length " + length);
        }
        String name = array.type().name();
        String type = name.substring(0, name.length() - 2);
        return new Slot(
                scope, type, Primitives.isPrimitive(type) ? type : null,
                () -> array.getValue(index), value -> array.setValue(index, value));
    }
}
