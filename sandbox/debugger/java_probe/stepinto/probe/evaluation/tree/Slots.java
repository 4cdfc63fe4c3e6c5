package stepinto.probe.evaluation.tree;

import com.sun.jdi.ArrayReference;
import com.sun.jdi.ClassNotLoadedException;
import com.sun.jdi.ClassType;
import com.sun.jdi.Field;
import com.sun.jdi.InvalidTypeException;
import com.sun.jdi.LocalVariable;
import com.sun.jdi.ObjectReference;
import com.sun.jdi.Value;
import stepinto.probe.evaluation.values.Operand;
import stepinto.probe.evaluation.values.Types;
import stepinto.probe.program.EvaluationFailed;
import stepinto.probe.program.TypeNames;

/** The places in the program that hold a value: locals, fields, array elements. */
public final class Slots {
    private Slots() {}

    private interface Store {
        void set(Value value)
                throws InvalidTypeException, ClassNotLoadedException, EvaluationFailed;
    }

    private static Operand store(Scope scope, Operand operand, String type, Store store)
            throws EvaluationFailed {
        Value value = scope.services.conversions.assign(operand, type, scope.here);
        try {
            store.set(value);
        } catch (InvalidTypeException error) {
            throw new EvaluationFailed(
                    "incompatible types: a " + TypeNames.simple(type) + " is needed");
        } catch (ClassNotLoadedException missing) {
            scope.services.types.link(missing.className(), scope.here);
            return retry(operand, value, type, store);
        }
        return Operand.of(value, type);
    }

    private static Operand retry(Operand operand, Value value, String type, Store store)
            throws EvaluationFailed {
        try {
            store.set(value);
            return Operand.of(value, operand.declared);
        } catch (InvalidTypeException | ClassNotLoadedException error) {
            throw new EvaluationFailed("the class " + type + " can't be loaded");
        }
    }

    /** A type that stands for a type variable says less than the value itself. */
    private static String declared(String type, String generic) {
        boolean variable = generic != null && generic.replace("[", "").startsWith("T");
        return variable ? null : type;
    }

    public static Expression.Variable local(Scope scope, LocalVariable variable) {
        return new Expression.Variable() {
            @Override
            public Operand get() throws EvaluationFailed {
                String type = declared(variable.typeName(), variable.genericSignature());
                return Operand.of(scope.at.frame().getValue(variable), type);
            }

            @Override
            public Operand set(Operand value) throws EvaluationFailed {
                return store(
                        scope,
                        value,
                        variable.typeName(),
                        stored -> scope.at.frame().setValue(variable, stored));
            }
        };
    }

    /** A field; the object is null for a static one. */
    static Expression.Variable field(Scope scope, ObjectReference object, Field field) {
        return new Expression.Variable() {
            @Override
            public Operand get() {
                String type = declared(field.typeName(), field.genericSignature());
                if (object == null) {
                    scope.services.types.initialise(field.declaringType());
                    return Operand.of(field.declaringType().getValue(field), type);
                }
                return Operand.of(object.getValue(field), type);
            }

            @Override
            public Operand set(Operand value) throws EvaluationFailed {
                boolean captured = field.name().startsWith("val$");
                if (field.isFinal() || captured) {
                    String name = captured ? field.name().substring(4) : field.name();
                    throw new EvaluationFailed(name + " is final; it can't be assigned");
                }
                return store(scope, value, field.typeName(), stored -> write(stored));
            }

            private void write(Value stored)
                    throws InvalidTypeException, ClassNotLoadedException {
                if (object == null) {
                    scope.services.types.initialise(field.declaringType());
                    ((ClassType) field.declaringType()).setValue(field, stored);
                } else {
                    object.setValue(field, stored);
                }
            }
        };
    }

    static Expression.Variable element(Scope scope, ArrayReference array, int index)
            throws EvaluationFailed {
        int length = array.length();
        if (index < 0 || index >= length) {
            throw new EvaluationFailed(
                    "ArrayIndexOutOfBoundsException: Index " + index
                            + " out of bounds for length " + length);
        }
        String name = array.type().name();
        String type = name.substring(0, name.length() - 2);
        return new Expression.Variable() {
            @Override
            public Operand get() {
                return Operand.of(array.getValue(index), Types.isPrimitive(type) ? type : null);
            }

            @Override
            public Operand set(Operand value) throws EvaluationFailed {
                return store(scope, value, type, stored -> array.setValue(index, stored));
            }
        };
    }
}
