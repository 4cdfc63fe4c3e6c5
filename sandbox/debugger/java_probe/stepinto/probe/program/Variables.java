package stepinto.probe.program;

import com.sun.jdi.*;
import java.util.*;
import stepinto.probe.program.Stack.FrameAt;

/** The variables of one frame as they are now: {@code this}, the locals, what a class captured. */
public final class Variables {
    private static final String CAPTURED = "val$";

    /** {@code this} first, then the locals in the order of their declaration. */
    public final List<Named> values;

    /** What the reader has to know, such as that the class was compiled without {@code -g}. */
    public final List<String> notes;

    private Variables(List<Named> values, List<String> notes) {
        this.values = values;
        this.notes = notes;
    }

    /** Reads them all in a few round trips, without running anything. */
    public static Variables of(FrameAt at) throws EvaluationFailed {
        StackFrame frame = at.frame();
        List<Named> found = new ArrayList<>();
        ObjectReference self = frame.thisObject();
        if (self != null) {
            found.add(new Named("this", frame.location().declaringType().name(), self));
            found.addAll(captured(self.referenceType(), self));
        }
        try {
            List<LocalVariable> variables = frame.visibleVariables();
            Map<LocalVariable, Value> read = values(frame, variables);
            for (LocalVariable variable : variables) {
                if (read.containsKey(variable)) {
                    String type = variable.typeName();
                    found.add(new Named(variable.name(), type, read.get(variable)));
                }
            }
            return new Variables(found, Collections.<String>emptyList());
        } catch (AbsentInformationException absent) {
            Method method = frame.location().method();
            List<Value> values =
                    method.isNative() ? new ArrayList<>() : frame.getArgumentValues();
            List<String> types = method.argumentTypeNames();
            for (int index = 0; index < values.size(); index++) {
                String name = "argument " + (index + 1);
                found.add(new Named(name, types.get(index), values.get(index)));
            }
            return new Variables(found, Collections.singletonList(unrecorded(frame)));
        }
    }

    /** Without those that the virtual machine can't read here. */
    private static Map<LocalVariable, Value> values(
            StackFrame frame, List<LocalVariable> variables) {
        try {
            return frame.getValues(variables);
        } catch (InternalException unreadable) {
            // One that is not set yet fails them all: ask for each.
            Map<LocalVariable, Value> found = new HashMap<>();
            for (LocalVariable variable : variables) {
                try {
                    found.put(variable, frame.getValue(variable));
                } catch (InternalException unset) {
                    continue;
                }
            }
            return found;
        }
    }

    /** Why the locals of a frame can't be seen. */
    public static String unrecorded(StackFrame frame) {
        String type = TypeNames.simple(frame.location().declaringType().name());
        return "the names of the local variables of " + type
                + " are not recorded: its class was compiled without -g;"
                + " compile it with javac -g to see them";
    }

    /** The variables of the enclosing method that a local or anonymous class has copies of. */
    public static List<Named> captured(ReferenceType type, ObjectReference self) {
        List<Named> found = new ArrayList<>();
        for (Field field : type.fields()) {
            if (field.name().startsWith(CAPTURED)) {
                String name = field.name().substring(CAPTURED.length());
                found.add(new Named(name, field.typeName(), self.getValue(field)));
            }
        }
        return found;
    }

    /** A field of an object, or of what its fields lead to; null if there is none. */
    public static Value field(Value object, String... path) {
        Value found = object;
        for (String name : path) {
            boolean has = found instanceof ObjectReference;
            ObjectReference owner = has ? (ObjectReference) found : null;
            Field field = has ? owner.referenceType().fieldByName(name) : null;
            found = field == null ? null : owner.getValue(field);
        }
        return found;
    }

    /** A value with the name it is shown under: a local, a field, an item. */
    public static final class Named {
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
}
